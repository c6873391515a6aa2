/* heap_rows.c - see heap_rows.h. */
#include "watch/heap_rows.h"

#include <string.h>

#include "objects/arena_chunk.h"
#include "objects/thread_cache.h"

static void count_row(struct arena *arena, void *argument) {
    (void)arena;
    ++*(size_t *)argument;
}

PRIM_COLD size_t heap_rows_count(void) {
    size_t count = 0;
    arena_for_each(count_row, &count);
    return count;
}

static const char *kind_of(const struct arena *arena) {
    if (arena->kind == ARENA_HEAP) {
        return load_relaxed(&arena->is_deleted) ? "deleted" : "heap";
    }
    return arena->kind == ARENA_TAG ? "tag" : "internal";
}

/* With the arena's lock held. */
static void fill_row(struct heap_row *row, const struct arena *arena) {
    const struct arena_counts *counts = &arena->counts;
    memcpy(row->name, arena->name, sizeof row->name);
    row->kind = kind_of(arena);
    row->address = (uintptr_t)arena;
    row->figures = (struct heap_snapshot){
        .live_bytes = counts->live_bytes,
        .live_blocks = counts->live_count,
        .peak_bytes = counts->peak_bytes,
        .total_bytes = counts->total_bytes,
        .total_blocks = counts->total_count,
        .freed_bytes = counts->total_bytes - counts->live_bytes,
        .freed_blocks = counts->total_count - counts->live_count,
        .area_bytes = counts->area_bytes,
        .free_bytes = counts->area_bytes - bits_min(counts->live_bytes, counts->area_bytes),
        .limit_bytes = counts->limit == SIZE_MAX ? 0 : counts->limit,
    };
}

static void add_row(struct arena *arena, void *argument) {
    struct heap_rows *rows = argument;
    rows->heap_count += arena->kind != ARENA_INTERNAL;
    rows->live_blocks += arena->counts.live_count;
    if (arena->is_lent) {
        rows->lent_bytes += arena->counts.live_bytes;
    } else {
        rows->live_bytes += arena->counts.live_bytes;
        if (arena->counts.area_bytes >= SLICE_SIZE) { /* else cells, which are not looked at */
            rows->untouched_bytes += arena_chunk_untouched(arena->chunks);
        }
    }
    if (rows->row_count < rows->room) {
        fill_row(&rows->rows[rows->row_count++], arena);
    }
}

PRIM_COLD void heap_rows_take(struct heap_rows *rows) {
    arena_for_each(add_row, rows);
}

PRIM_COLD struct heap_row heap_row_of(struct arena *arena) {
    struct heap_row row;
    thread_cache_nest();
    lock_acquire(&arena->lock, LOCK_ARENA);
    fill_row(&row, arena);
    lock_release(&arena->lock, LOCK_ARENA);
    thread_cache_leave();
    return row;
}
