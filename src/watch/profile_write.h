/* profile_write.h - a heap profile as a file, in the form that its name asks for. */
#ifndef PRIM_WATCH_PROFILE_WRITE_H
#define PRIM_WATCH_PROFILE_WRITE_H

#include "watch/heap_profile.h"

/* Why a file is written. */
enum profile_event {
    PROFILE_EXIT,
    PROFILE_PEAK,
    PROFILE_BYTES,
    PROFILE_SECONDS,
    PROFILE_SIGNAL,
    PROFILE_CALL,
};

struct profile_occasion {
    enum profile_event event;
    unsigned number; /* of the file in this process */
    uint64_t period; /* mean bytes between samples */
};

/* False, and there is no such file, if it could not be written. */
bool profile_write(const struct heap_profile *profile, const char *path,
                   const struct profile_occasion *occasion);

#endif
