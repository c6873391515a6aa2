/* hardened_depot.c - see hardened_depot.h. */
#include "objects/hardened_depot.h"

#include "objects/hardened_slab.h"
#include "pages/metadata.h"

struct magazine *hardened_depot_make(uint32_t room) {
    struct magazine *magazine = metadata_allocate(
        sizeof *magazine + (room + 1) * sizeof magazine->blocks[0], PRIM_CACHE_LINE);
    if (magazine) {
        magazine->room = room;
    }
    return magazine;
}

static void push(struct magazine **list, struct magazine *magazine) {
    magazine->next = *list;
    *list = magazine;
}

static struct magazine *pop(struct magazine **list) {
    struct magazine *magazine = *list;
    if (magazine) {
        *list = magazine->next;
    }
    return magazine;
}

static size_t bytes_in(const struct magazine *magazine) {
    return (size_t)magazine->count * hardened_slab_of(magazine->blocks[magazine->count])->size;
}

/* With the lock held. */
static struct magazine *pop_full(struct hardened_set *set) {
    struct magazine *full = pop(&set->full);
    if (full) {
        set->kept_bytes -= bytes_in(full);
        store_relaxed(&set->has_full, set->full != NULL);
    }
    return full;
}

struct magazine *hardened_depot_take(unsigned object_class, struct magazine *empty) {
    struct hardened_set *set = hardened_set_here(object_class);
    if (!load_relaxed(&set->has_full)) {
        return NULL;
    }
    lock_acquire(&set->lock, LOCK_HARDENED);
    struct magazine *full = pop_full(set);
    if (full && empty) {
        push(&set->spent, empty);
    }
    lock_release(&set->lock, LOCK_HARDENED);
    return full;
}

struct magazine *hardened_depot_give(struct magazine *full) {
    struct hardened_set *set = hardened_slab_of(full->blocks[full->count])->set;
    size_t bytes = bytes_in(full);
    struct magazine *empty = NULL;
    lock_acquire(&set->lock, LOCK_HARDENED);
    bool is_kept = hardened_set_may_keep(set, bytes);
    if (is_kept) {
        push(&set->full, full);
        set->kept_bytes += bytes;
        store_relaxed(&set->has_full, true);
        empty = pop(&set->spent);
    }
    lock_release(&set->lock, LOCK_HARDENED);
    if (!is_kept) {
        hardened_slab_give(full->blocks + 1, full->count);
        full->count = 0;
        return full;
    }
    return empty ? empty : hardened_depot_make(full->room);
}

void hardened_depot_trim(struct hardened_set *set) {
    for (;;) {
        lock_acquire(&set->lock, LOCK_HARDENED);
        struct magazine *full = pop_full(set);
        lock_release(&set->lock, LOCK_HARDENED);
        if (!full) {
            return;
        }
        hardened_slab_give(full->blocks + 1, full->count);
        full->count = 0;
        lock_acquire(&set->lock, LOCK_HARDENED);
        push(&set->spent, full);
        lock_release(&set->lock, LOCK_HARDENED);
    }
}
