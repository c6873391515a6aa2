/* What the tests of arenas share. */
#ifndef TESTS_UNIT_ARENA_CHECK_H
#define TESTS_UNIT_ARENA_CHECK_H

#include "objects/allocate.h"
#include "objects/arena.h"
#include "objects/heap.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "unit/unit.h"

/* Slices in use but for what the thread keeps; nobody's blocks are in the slabs of this program. */
static size_t slices_settled(void) {
    thread_cache_flush(thread_cache_own());
    slab_trim();
    return unit_slices_in_use();
}

static void *take(struct arena *arena, size_t size) {
    return arena_allocate_entering(arena, (struct arena_request){.size = size}, NULL);
}

/* Every granule of a chunk belongs to its head, to one block, or was never carved; every free block
 * is in the list of its class, and nothing else is. */
static void check_arena(struct arena *arena) {
    size_t live = 0;
    size_t live_bytes = 0;
    size_t area_bytes = 0;
    size_t free_by_class[CLASS_COUNT + 1] = {0};
    for (struct arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next) {
        size_t used = 0;
        size_t at = chunk->first_granule;
        while (at < chunk->next_granule) {
            unsigned object_class = chunk->map[at] & ~(unsigned)ARENA_USED;
            assert_true(object_class >= CLASS_OF_16 && object_class <= arena->class_last);
            size_t end = at + size_classes[object_class].size / ARENA_GRANULE;
            if (chunk->map[at] & ARENA_USED) {
                used++;
                live_bytes += size_classes[object_class].size;
                if (at + 1 < end && chunk->map[at + 1]) { /* the pointer lies within the granule */
                    assert_true(chunk->map[at + 1] < ARENA_GRANULE);
                    live_bytes -= chunk->map[++at];
                }
            } else {
                free_by_class[object_class]++;
            }
            while (++at < end) {
                assert_int_equal(chunk->map[at], 0);
            }
        }
        assert_int_equal(at, chunk->next_granule);
        assert_true(at <= chunk->granule_count);
        assert_int_equal(used, chunk->used_count);
        assert_ptr_equal(chunk->arena, arena);
        assert_true(!chunk->next || chunk->next->previous == chunk);
        live += used;
        area_bytes += (size_t)chunk->granule_count * ARENA_GRANULE;
    }
    for (struct span *span = arena->large; span; span = span->next) {
        live++;
        live_bytes += span_size(span) - span->block_offset;
        area_bytes += span_size(span);
    }
    for (unsigned i = 0; i <= arena->class_last; i++) {
        size_t listed = 0;
        struct arena_block *previous = NULL;
        for (struct arena_block *block = arena->free_blocks[i]; block; block = block->next) {
            assert_ptr_equal(block->previous, previous);
            previous = block;
            listed++;
        }
        assert_int_equal(listed, free_by_class[i]);
        assert_int_equal(listed != 0, arena->filled[i / 64] >> i % 64 & 1);
    }
    struct arena_counts counts = arena_counts(arena);
    assert_int_equal(counts.live_count, live);
    assert_int_equal(counts.live_bytes, live_bytes);
    assert_int_equal(counts.area_bytes, area_bytes);
    assert_true(counts.peak_bytes >= live_bytes);
}

#endif
