/* profiles.c - prim_profile_*, and the profile that the environment asks for. */
#include "watch/leak.h"
#include "watch/profile.h"

#include <errno.h>
#include <string.h>

#include "base/print.h"
#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "os/process.h"
#include "primalloc.h"
#include "settings/options.h"

static unsigned own_process; /* that began; its children's threads are not all there to be asked */

static PRIM_COLD void begin_from_environment(void) {
    struct profile_settings settings;
    const char *text = options.profile ? options.profile : "";
    const char *wrong;
    while (!profile_settings_read(&settings, text, &wrong)) {
        process_complain("PRIMALLOC_PROFILE is PATH,rate=SIZE,budget=PERCENT,bytes=SIZE,seconds=N,"
                         "signal=NAME,peak; wrong from here: ",
                         wrong);
        if (!options.leak_check) {
            return;
        }
        text = ""; /* no file, but leaks are looked for */
    }
    profile_start(&settings);
    own_process = process_id();
}

/* Behind the library's own start, and before its end. */
__attribute__((constructor(102))) static void start(void) {
    if (heap_read_options() && (options.profile || options.leak_check)) {
        begin_from_environment();
    }
}

__attribute__((destructor(102))) static void finish(void) {
    if (profile_exit() && options.leak_check && own_process == process_id() && leak_check() > 0 &&
        options.leak_exit) {
        process_exit_again((int)options.leak_exit);
    }
}

PRIM_EXPORT int prim_profile_start(const char *settings) {
    struct profile_settings wanted;
    const char *wrong;
    heap_ensure();
    if (thread_cache_is_inside()) {
        errno = EAGAIN;
        return -1;
    }
    if (!profile_settings_read(&wanted, settings ? settings : "", &wrong)) {
        errno = EINVAL;
        return -1;
    }
    if (!profile_start(&wanted)) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

PRIM_EXPORT void prim_profile_stop(void) {
    if (!thread_cache_is_inside()) {
        profile_stop();
    }
}

PRIM_EXPORT int prim_profile_dump(const char *path) {
    if (thread_cache_is_inside() || !profile_dump(path)) {
        errno = EIO;
        return -1;
    }
    return 0;
}
