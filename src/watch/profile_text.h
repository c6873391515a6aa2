/* profile_text.h - a profile in the older form of text, which jeprof and pprof read. */
#ifndef PRIM_WATCH_PROFILE_TEXT_H
#define PRIM_WATCH_PROFILE_TEXT_H

#include "watch/heap_profile.h"

/* False, and there is no such file, if it could not be written. */
bool profile_text_write(const struct heap_profile *profile, const char *path);

#endif
