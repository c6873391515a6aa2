/* slab_totals.c - see slab.h: what slabs hold, for statistics. */
#include "objects/slab.h"

#include "objects/slab_set.h"
#include "os/memory.h"
#include "pages/span.h"

static void add_totals(struct shard *shard, unsigned object_class, void *context) {
    struct slab_totals *totals = context;
    struct slab_set *set = &shard->sets[object_class];
    const struct slab_set_rest *rest = &shard->rests[object_class];
    const struct size_class *class = &size_classes[object_class];
    lock_acquire(&set->lock, LOCK_CLASS);
    size_t slab_bytes = (size_t)set->slab_count * class->slices * SLICE_SIZE;
    size_t free_blocks = load_relaxed(&set->free_count) + rest->asleep_count;
    size_t free_bytes = slab_bytes - set->used_count * class->size;
    totals->slab_count += set->slab_count;
    totals->slab_bytes += slab_bytes;
    totals->free_bytes += free_bytes;
    totals->free_blocks += free_blocks;
    totals->used_blocks += set->used_count;
    totals->listed_blocks += load_relaxed(&rest->listed_count);
    totals->uncarved_bytes += free_bytes - free_blocks * class->size;
    totals->asleep_bytes += rest->asleep_page_count * memory_page_size();
    const struct span *carving = set->carving;
    if (carving && slab_set_room_is_absent(carving)) {
        uintptr_t carved_end = carving->address + (size_t)carving->carved_count * class->size;
        totals->untouched_bytes +=
            span_end(carving) -
            bits_min(bits_round_up(carved_end, memory_page_size()), span_end(carving));
    }
    lock_release(&set->lock, LOCK_CLASS);
}

void slab_totals_add(struct slab_totals *totals) {
    slab_set_for_each(add_totals, totals);
}

void slab_totals_add_class(struct slab_totals *totals, unsigned object_class) {
    for (unsigned i = 0; i < SHARD_MAX; i++) {
        struct shard *shard = load_acquire(&slab_shards[i]); /* order pair: shard table */
        if (shard) {
            add_totals(shard, object_class, totals);
        }
    }
}

size_t slab_single_count(unsigned object_class) {
    return slab_set_is_single(object_class) ? slab_count(object_class) : 0;
}

size_t slab_peak_count(unsigned object_class) {
    return load_relaxed(&span_levels[object_class].slice_peak) / size_classes[object_class].slices;
}

size_t slab_total_count(unsigned object_class) {
    return load_relaxed(&span_levels[object_class].total);
}
