/* heaps.c - the first-class heaps of primalloc.h. NULL is the default heap throughout. */
#include "api/family.h"
#include "api/watched.h"
#include "objects/arena.h"
#include "objects/maintenance.h"
#include "primalloc.h"

static struct arena *arena_from(prim_heap_t *heap) {
    return (struct arena *)heap;
}

static prim_heap_t *name_of(struct arena *arena) {
    return (prim_heap_t *)arena;
}

PRIM_EXPORT prim_heap_t *prim_heap_new(void) {
    return name_of(arena_create());
}

PRIM_EXPORT prim_heap_t *prim_heap_new_in(void *memory, size_t size) {
    return name_of(arena_create_lent(memory, size));
}

PRIM_EXPORT void prim_heap_delete(prim_heap_t *heap) {
    if (heap) {
        arena_delete(arena_from(heap));
    }
}

PRIM_EXPORT void prim_heap_destroy(prim_heap_t *heap) {
    if (heap) {
        watched_end_heap(arena_from(heap));
        arena_destroy(arena_from(heap));
        maintenance_consider(__builtin_return_address(0), true);
    }
}

PRIM_EXPORT void prim_heap_set_limit(prim_heap_t *heap, size_t bytes) {
    if (heap) {
        arena_set_limit(arena_from(heap), bytes ? bytes : SIZE_MAX);
    }
}

PRIM_EXPORT void prim_heap_set_name(prim_heap_t *heap, const char *name) {
    if (heap && name) {
        arena_set_name(arena_from(heap), name);
    }
}

PRIM_INLINE void *allocate_in(struct arena *arena, struct arena_request wanted, enum call call,
                              const void *caller) {
    if (PRIM_UNLIKELY(watcher_is_any())) {
        return front_allocate_watched(arena, wanted, call, caller);
    }
    if (!arena) {
        return call == CALL_CALLOC ? allocate_zeroed(wanted.size, wanted.alignment)
                                   : allocate_aligned(wanted.size, wanted.alignment);
    }
    return call == CALL_CALLOC ? arena_allocate_zeroed(arena, wanted)
                               : arena_allocate_entering(arena, wanted, NULL);
}

PRIM_EXPORT void *prim_heap_malloc(prim_heap_t *heap, size_t size) {
    return heap ? allocate_in(arena_from(heap), (struct arena_request){.size = size}, CALL_MALLOC,
                              __builtin_return_address(0))
                : family_malloc(size);
}

PRIM_EXPORT void *prim_heap_calloc(prim_heap_t *heap, size_t count, size_t size) {
    size_t total;
    if (!heap || __builtin_mul_overflow(count, size, &total)) {
        return family_calloc(count, size);
    }
    return allocate_in(arena_from(heap), (struct arena_request){.size = total}, CALL_CALLOC,
                       __builtin_return_address(0));
}

/* Samplers may have placed blocks of nothing; all others have room. */
static bool is_block(const void *pointer) {
    return usable_size(pointer) || span_class_of(pointer) == CLASS_PLACED;
}

PRIM_EXPORT void *prim_heap_realloc(prim_heap_t *heap, void *block, size_t size) {
    if (!block) {
        return prim_heap_malloc(heap, size);
    }
    bool moves = size != 0 && prim_heap_of(block) != heap;
    size_t old_size = moves ? front_usable_size(block) : 0;
    if (!moves || (old_size == 0 && !is_block(watched_place(block)))) {
        return family_realloc(block, size); /* which refuses what is none */
    }
    void *target = prim_heap_malloc(heap, size);
    if (target) {
        memcpy(target, block, bits_min(old_size, size));
        family_free(block);
    }
    return target;
}

PRIM_EXPORT void *prim_heap_aligned_alloc(prim_heap_t *heap, size_t alignment, size_t size) {
    return prim_heap_malloc_aligned_at(heap, size, alignment, 0);
}

PRIM_EXPORT char *prim_heap_strndup(prim_heap_t *heap, const char *text, size_t most) {
    size_t length = strnlen(text, most);
    char *copy = prim_heap_malloc(heap, length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

PRIM_EXPORT char *prim_heap_strdup(prim_heap_t *heap, const char *text) {
    return prim_heap_strndup(heap, text, PTRDIFF_MAX);
}

PRIM_EXPORT prim_heap_t *prim_heap_of(const void *block) {
    return name_of(arena_of(watched_place(block)));
}

PRIM_EXPORT bool prim_heap_contains(const prim_heap_t *heap, const void *block) {
    return heap && prim_heap_of(block) == heap;
}

PRIM_EXPORT void prim_heap_counts(prim_heap_t *heap, struct prim_heap_counts *result) {
    struct arena_counts counts = arena_counts(arena_from(heap));
    *result = (struct prim_heap_counts){
        .bytes = counts.live_bytes,
        .blocks = counts.live_count,
        .peak_bytes = counts.peak_bytes,
        .area_bytes = counts.area_bytes,
        .limit = counts.limit == SIZE_MAX ? 0 : counts.limit,
    };
}

/* The caller's visitor and what it is called with. */
struct visit {
    prim_heap_t *heap;
    prim_heap_area_visitor *area;
    prim_heap_block_visitor *block;
    void *argument;
};

static bool show_area(const struct arena_area *area, void *argument) {
    const struct visit *visit = argument;
    struct prim_heap_area shown = {area->address, area->size, area->used_count};
    return visit->area(visit->heap, &shown, visit->argument);
}

static bool show_block(void *block, size_t size, void *argument) {
    const struct visit *visit = argument;
    size_t shown_size = 0;
    void *shown = watched_show(block, size, &shown_size);
    return visit->block(visit->heap, shown, shown_size, visit->argument);
}

PRIM_EXPORT bool prim_heap_visit_areas(prim_heap_t *heap, prim_heap_area_visitor *visitor,
                                       void *argument) {
    struct visit visit = {.heap = heap, .area = visitor, .argument = argument};
    return arena_visit_areas(arena_from(heap), show_area, &visit);
}

PRIM_EXPORT bool prim_heap_visit_blocks(prim_heap_t *heap, prim_heap_block_visitor *visitor,
                                        void *argument) {
    struct visit visit = {.heap = heap, .block = visitor, .argument = argument};
    return arena_visit_blocks(arena_from(heap), show_block, &visit);
}

/* Slabs know no offsets: what needs one comes from an arena, whose blocks free finds as well. */
static void *allocate_aligned_at(struct arena *arena, struct arena_request wanted, enum call call,
                                 const void *caller) {
    if (!bits_is_power_of_two(wanted.alignment)) {
        errno = EINVAL;
        return NULL;
    }
    wanted.offset &= wanted.alignment - 1;
    if (!arena && wanted.offset) {
        arena = arena_unnamed();
        if (!arena) {
            return NULL; /* with errno: there was no memory for it */
        }
    }
    return allocate_in(arena, wanted, call, caller);
}

PRIM_EXPORT void *prim_heap_malloc_aligned_at(prim_heap_t *heap, size_t size, size_t alignment,
                                              size_t offset) {
    return allocate_aligned_at(arena_from(heap), (struct arena_request){size, alignment, offset},
                               CALL_ALIGNED, __builtin_return_address(0));
}

PRIM_EXPORT void *prim_malloc_aligned_at(size_t size, size_t alignment, size_t offset) {
    return prim_heap_malloc_aligned_at(NULL, size, alignment, offset);
}

PRIM_EXPORT void *prim_calloc_aligned_at(size_t count, size_t size, size_t alignment,
                                         size_t offset) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate_aligned_at(NULL, (struct arena_request){total, alignment, offset}, CALL_CALLOC,
                               __builtin_return_address(0));
}

PRIM_EXPORT void *prim_rezalloc(void *block, size_t old_size, size_t size) {
    if (!block) {
        return family_calloc(1, size);
    }
    char *result = front_reallocate(block, size, __builtin_return_address(0));
    size_t kept = bits_min(old_size, size);
    if (result) {
        memset(result + kept, 0, size - kept);
    }
    return result;
}

PRIM_EXPORT void *prim_recalloc(void *block, size_t old_count, size_t count, size_t size) {
    size_t total;
    size_t old_total;
    if (__builtin_mul_overflow(count, size, &total) ||
        __builtin_mul_overflow(old_count, size, &old_total)) {
        errno = ENOMEM;
        return NULL;
    }
    return prim_rezalloc(block, old_total, total);
}

PRIM_EXPORT void *prim_expand(void *block, size_t size) {
    return front_expand(block, size) ? block : NULL;
}

PRIM_EXPORT size_t prim_good_size(size_t size) {
    return good_size(size);
}
