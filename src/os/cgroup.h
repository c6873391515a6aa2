/* cgroup.h - what the process's control group allows it: memory and processor time.
 *
 * Knows version 1, version 2 and both at once, where the controller in question decides. Limits
 * hold for all groups below, so the least one on the way from the process's group up to the mount
 * point counts. Nothing is kept: each call reads the files again, in address space of its own that
 * it gives back; where files are missing or make no sense, there is no limit.
 *
 * root stands before every path: "" for the system, a directory for tests. */
#ifndef PRIM_OS_CGROUP_H
#define PRIM_OS_CGROUP_H

#include "base/compiler.h"

#define CGROUP_UNLIMITED UINT64_MAX
#define CGROUP_UNKNOWN 0

struct cgroup_memory {
    uint64_t hard; /* bytes at which the kernel kills; CGROUP_UNLIMITED without a limit; and
                      CGROUP_UNKNOWN where no file tells, as in a confined process */
    uint64_t soft; /* bytes at which it slows the group down (version 2: memory.high); likewise */
};

struct cgroup_memory cgroup_memory_limits(const char *root);

/* How many processors' time the group may use, rounded up; 0 without a limit. */
unsigned cgroup_processor_count(const char *root);

#endif
