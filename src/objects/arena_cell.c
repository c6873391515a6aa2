/* arena_cell.c - see arena_cell.h. */
#include "objects/arena_cell.h"

#include "base/assert.h"
#include "pages/page_heap.h"
#include "pages/purge.h"

enum { CELL_COUNT = SLICE_SIZE / ARENA_CELL_SIZE, ALL_USED = (1 << CELL_COUNT) - 1 };

static struct {
    struct lock lock;
    struct span *slices; /* (lock: CELLS) those with a free cell; the first one is used */
} cells;

static struct span *new_slice(void) {
    struct span *slice = page_heap_allocate(1, 0);
    if (slice) {
        store_relaxed(&slice->used_cells, 0);
        slice->bucket = ARENA_CELLS;
        add_relaxed(&arena_space_bytes, SLICE_SIZE);
        span_publish(slice, SPAN_SLAB, CLASS_ARENA);
    }
    return slice;
}

static void *take_from(struct span *slice) {
    uint64_t used = load_relaxed(&slice->used_cells);
    unsigned index = bits_lowest(~used);
    used |= (uint64_t)1 << index;
    store_relaxed(&slice->used_cells, used);
    if (used == ALL_USED) {
        span_unlink(&cells.slices, slice);
    }
    return (void *)(slice->address + (uintptr_t)index * ARENA_CELL_SIZE);
}

void *arena_cell_take(void) {
    lock_acquire(&cells.lock, LOCK_CELLS);
    void *cell = cells.slices ? take_from(cells.slices) : NULL;
    lock_release(&cells.lock, LOCK_CELLS);
    if (PRIM_LIKELY(cell != NULL)) {
        return cell;
    }
    struct span *slice = new_slice();
    if (!slice) {
        return NULL;
    }
    lock_acquire(&cells.lock, LOCK_CELLS);
    span_link(&cells.slices, slice);
    cell = take_from(slice);
    lock_release(&cells.lock, LOCK_CELLS);
    return cell;
}

static uint64_t bit_of(const struct span *slice, const void *pointer) {
    return (uint64_t)1 << ((uintptr_t)pointer - slice->address) / ARENA_CELL_SIZE;
}

void arena_cell_release(void *cell) {
    struct span *slice = span_of_block(cell);
    lock_acquire(&cells.lock, LOCK_CELLS);
    uint64_t used = load_relaxed(&slice->used_cells);
    PRIM_ASSERT(used & bit_of(slice, cell));
    if (used == ALL_USED) {
        span_link(&cells.slices, slice);
    }
    used &= ~bit_of(slice, cell);
    store_relaxed(&slice->used_cells, used);
    bool is_empty = used == 0 && (slice->next || slice->previous);
    if (is_empty) { /* and is not the only one with room */
        span_unlink(&cells.slices, slice);
    }
    lock_release(&cells.lock, LOCK_CELLS);
    if (is_empty) {
        span_withdraw(slice);
        subtract_relaxed(&arena_space_bytes, SLICE_SIZE);
        purge_free(slice, SPAN_DIRTY);
    }
}

bool arena_cell_is_used(const struct span *slice, const void *pointer) {
    return load_relaxed(&slice->used_cells) & bit_of(slice, pointer);
}

void arena_cell_fork_prepare(void) {
    lock_acquire_unranked(&cells.lock);
}

void arena_cell_fork_parent(void) {
    lock_release_unranked(&cells.lock);
}

void arena_cell_fork_child(void) {
    lock_reset(&cells.lock);
}
