/* watchers.c - who of the watchers of this folder is asked for. */
#include "objects/watcher.h"
#include "watch/check.h"

void watchers_begin(void) {
    check_begin();
}
