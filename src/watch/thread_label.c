/* thread_label.c - see thread_label.h.
 *
 * Names are only added. Whoever takes a free entry holds it until the name is complete; two threads
 * with the same new name may make two entries of it. */
#include "watch/thread_label.h"

#include <string.h>

#include "base/atomics.h"

enum { KNOWN_COUNT = 256, USES_BEFORE_LOOK = 64 };

enum { ENTRY_FREE, ENTRY_HELD, ENTRY_COMPLETE };

struct entry {
    char name[THREAD_NAME_SIZE]; /* (const once complete) */
    _Atomic uint32_t state;      /* (atomic: label) */
};

/* What a thread was last called: its mark in the upper bits, label and uses in the lower ones. */
static PRIM_FAR _Atomic uint64_t known[KNOWN_COUNT];     /* (atomic: hint) */
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
    uintptr_t mark = thread_mark();
    _Atomic uint64_t *place = &known[(mark * 0x9e3779b97f4a7c15) >> 56];
    uint64_t value = load_relaxed(place);
    unsigned uses = value & 0xff;
    if (value >> 18 == mark >> 4 && uses < USES_BEFORE_LOOK) {
        store_relaxed(place, value + 1);
    } else {
        value = (uint64_t)(mark >> 4) << 18 | (uint64_t)thread_label() << 8;
        store_relaxed(place, value);
    }
    return value >> 8 & (THREAD_LABELS_MAX - 1);
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
