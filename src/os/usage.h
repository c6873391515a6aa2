/* usage.h - what the kernel says that this process has used. */
#ifndef PRIM_OS_USAGE_H
#define PRIM_OS_USAGE_H

#include "base/compiler.h"

struct usage {
    uint64_t elapsed_ms; /* since the process started */
    uint64_t user_ms;
    uint64_t system_ms;
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t rss_bytes;
    uint64_t rss_peak_bytes;
    uint64_t virtual_bytes;
};

/* What the kernel does not tell (there is no /proc) is 0, and so is everything where the process is
 * confined. Keeps errno. */
struct usage usage_now(void);

#endif
