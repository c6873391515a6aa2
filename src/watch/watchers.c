/* watchers.c - who of the watchers of this folder is asked for. */
#include "objects/watcher.h"

void watchers_begin(void) {}
