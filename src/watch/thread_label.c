/* thread_label.c - see thread_label.h.
 *
 * Names are only added. Whoever takes a free entry holds it until the name is complete; two threads
 * with the same new name may make two entries of it. */
#include "watch/thread_label.h"

#include <string.h>

#include "objects/thread_cache.h"

enum { USES_BEFORE_LOOK = 64 };
_Static_assert(THREAD_LABELS_MAX - 1 <= UINT16_MAX / USES_BEFORE_LOOK, "both fit in 16 bits");

enum { ENTRY_FREE, ENTRY_HELD, ENTRY_COMPLETE };

struct entry {
    char name[THREAD_NAME_SIZE]; /* (const once complete) */
    _Atomic uint32_t state;      /* (atomic: label) */
};

static PRIM_FAR struct entry entries[THREAD_LABELS_MAX]; /* the first is unused */

unsigned thread_label(void) {
    char name[THREAD_NAME_SIZE];
    thread_name_get(name);
    for (unsigned i = 1; i < THREAD_LABELS_MAX && name[0]; i++) {
        uint32_t state = load_acquire(&entries[i].state); /* order pair: label */
        if (state == ENTRY_FREE &&
            compare_exchange_acquire(&entries[i].state, &state, ENTRY_HELD)) {
            memcpy(entries[i].name, name, sizeof name);
            store_release(&entries[i].state, ENTRY_COMPLETE); /* order pair: label */
            return i;
        }
        if (state == ENTRY_COMPLETE && memcmp(entries[i].name, name, sizeof name) == 0) {
            return i;
        }
    }
    return 0;
}

unsigned thread_label_soon(void) {
    struct thread_cache *cache = thread_cache_own();
    if (cache && cache->label % USES_BEFORE_LOOK) {
        return cache->label-- / USES_BEFORE_LOOK;
    }
    unsigned label = thread_label();
    if (cache) {
        cache->label = (uint16_t)(label * USES_BEFORE_LOOK + USES_BEFORE_LOOK - 1);
    }
    return label;
}

unsigned thread_label_count(void) {
    unsigned count = 1;
    while (count < THREAD_LABELS_MAX && load_acquire(&entries[count].state) != ENTRY_FREE) {
        count++;
    }
    return count;
}

const char *thread_label_name(unsigned label) {
    return entries[label].name;
}
