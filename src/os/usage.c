/* usage.c - see usage.h. All calls go through kernel_call, as in memory.c. */
#include "os/usage.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <time.h>

#include "os/confined.h"
#include "os/kernel.h"
#include "os/text_file.h"

enum { START_FIELD = 22, TICKS_DEFAULT = 100 }; /* proc(5), of /proc/PID/stat */

static uint64_t milliseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

/* When the process started, in ticks since the machine did. The second field, a name, may hold
 * anything: fields are counted from the last bracket on. */
static uint64_t start_ticks(void) {
    struct text_file file;
    unsigned field = 0;
    uint64_t ticks = 0;
    if (!text_file_open(&file, "/proc/self/stat")) {
        return 0;
    }
    for (int byte; (byte = text_file_byte(&file)) != TEXT_FILE_END;) {
        if (byte == ')') {
            field = 2;
            ticks = 0;
        } else if (byte == ' ') {
            field += field != 0;
        } else if (field == START_FIELD && byte >= '0' && byte <= '9') {
            ticks = ticks * 10 + (uint64_t)(byte - '0');
        }
    }
    text_file_close(&file);
    return ticks;
}

static uint64_t elapsed_ms(void) {
    struct timespec now = {0, 0};
    uint64_t second = getauxval(AT_CLKTCK);
    uint64_t start = start_ticks() * 1000 / (second ? second : TICKS_DEFAULT);
    kernel_call(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return start && now_ms > start ? now_ms - start : 0;
}

/* Of the program that runs, where getrusage's peak goes back to the one that called exec. */
static void read_memory(struct usage *usage) {
    struct text_file file;
    char room[64];
    if (!text_file_open(&file, "/proc/thread-self/status")) {
        return;
    }
    for (const char *at; (at = text_file_line(&file, room, sizeof room)) != NULL;) {
        uint64_t *figure = memcmp(at, "VmRS", 4) == 0   ? &usage->rss_bytes
                           : memcmp(at, "VmHW", 4) == 0 ? &usage->rss_peak_bytes
                           : memcmp(at, "VmSi", 4) == 0 ? &usage->virtual_bytes
                                                        : NULL;
        if (figure) { /* "VmRSS:\t    1776 kB" */
            at += strlen("VmRSS:\t");
            while (*at == ' ' || *at == '\t') {
                at++;
            }
            text_decimal(&at, figure);
            *figure *= 1024;
        }
    }
    text_file_close(&file);
}

struct usage usage_now(void) {
    struct usage usage = {0};
    struct rusage kernel = {0};
    int saved_errno = errno;
    if (!confined_may_ask()) {
        return usage;
    }
    kernel_call(SYS_getrusage, RUSAGE_SELF, &kernel);
    usage.elapsed_ms = elapsed_ms();
    errno = saved_errno;
    usage.user_ms = milliseconds(kernel.ru_utime);
    usage.system_ms = milliseconds(kernel.ru_stime);
    usage.minor_faults = (uint64_t)kernel.ru_minflt;
    usage.major_faults = (uint64_t)kernel.ru_majflt;
    read_memory(&usage);
    confined_asked();
    return usage;
}
