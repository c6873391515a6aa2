/* arena.c - see arena.h: arenas, and which memory they are made of. */
#include "objects/arena.h"

#include <errno.h>
#include <string.h>

#include "objects/allocate.h"
#include "objects/arena_cell.h"
#include "objects/arena_chunk.h"
#include "objects/arena_find.h"
#include "objects/call_counts.h"
#include "objects/foreign.h"
#include "objects/heap.h"
#include "objects/large.h"
#include "objects/thread_sampler.h"
#include "pages/metadata.h"
#include "pages/lent.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"

static struct {
    struct lock lock;
    struct arena *all; /* (lock: ARENAS) deleted ones as well */
} arenas;

_Atomic size_t arena_space_bytes;

_Static_assert(sizeof(struct arena) + (ARENA_CLASS_LAST + 1) * sizeof(struct arena_block *) <= 704,
               "an empty heap takes as little as primalloc.h says");

static void copy_name(struct arena *arena, const char *name) {
    size_t length = strnlen(name, ARENA_NAME_SIZE - 1);
    memcpy(arena->name, name, length);
    arena->name[length] = '\0';
}

static size_t size_of(unsigned class_last) {
    return sizeof(struct arena) + (class_last + 1) * sizeof(struct arena_block *);
}

/* Makes an arena of zeroed memory and puts it into the list, whose lock is held. */
static void enlist(struct arena *arena, enum arena_kind kind, const char *name,
                   unsigned class_last) {
    arena->class_last = (uint8_t)class_last;
    arena->kind = (uint8_t)kind;
    copy_name(arena, name);
    arena->counts.limit = SIZE_MAX;
    arena->next = arenas.all;
    if (arena->next) {
        arena->next->previous = arena;
    }
    arenas.all = arena;
}

static struct arena *create(unsigned class_last, bool is_lent) {
    heap_ensure();
    struct arena *arena = allocate(size_of(class_last));
    if (!arena) {
        return NULL;
    }
    memset(arena, 0, size_of(class_last));
    arena->is_lent = is_lent;
    thread_cache_nest();
    lock_acquire(&arenas.lock, LOCK_ARENAS);
    enlist(arena, ARENA_HEAP, "", class_last);
    lock_release(&arenas.lock, LOCK_ARENAS);
    thread_cache_leave();
    return arena;
}

struct arena *arena_create(void) {
    return create(ARENA_CLASS_LAST, false);
}

struct arena *arena_at(_Atomic(struct arena *) *place, enum arena_kind kind, const char *name,
                       bool is_sampled) {
    struct arena *there = load_acquire(place); /* order pair: shared arena */
    if (there) {
        return there;
    }
    heap_ensure();
    if (!thread_cache_enter()) { /* a signal handler asks, and its thread may have the locks */
        errno = ENOMEM;
        return NULL;
    }
    lock_acquire(&arenas.lock, LOCK_ARENAS);
    there = load_relaxed(place);
    if (!there) { /* no block of the heap: it would count as the program's, and as not freed */
        there = metadata_allocate(size_of(ARENA_CLASS_LAST), _Alignof(struct arena));
        if (there) {
            enlist(there, kind, name, ARENA_CLASS_LAST);
            there->is_sampled = is_sampled;
            store_release(place, there); /* order pair: shared arena */
        }
    }
    lock_release(&arenas.lock, LOCK_ARENAS);
    thread_cache_leave();
    if (!there) {
        errno = ENOMEM;
    }
    return there;
}

struct arena *arena_unnamed(void) {
    static _Atomic(struct arena *) unnamed; /* (atomic: shared arena) */
    return arena_at(&unnamed, ARENA_INTERNAL, "aligned at an offset", false);
}

/* Who looks at all arenas may already see this one. */
static void insert_chunk(struct arena *arena, void *memory, size_t size, bool is_zero) {
    struct arena_chunk *chunk = arena_chunk_create(arena, memory, size, is_zero);
    lock_acquire(&arena->lock, LOCK_ARENA);
    arena_chunk_insert(arena, chunk);
    lock_release(&arena->lock, LOCK_ARENA);
}

struct arena *arena_create_lent(void *memory, size_t size) {
    uintptr_t end = bits_round_down((uintptr_t)memory + size, SLICE_SIZE);
    uintptr_t start = bits_round_up((uintptr_t)memory, SLICE_SIZE);
    size_t most = bits_round_down((size_t)UINT32_MAX * ARENA_GRANULE, SLICE_SIZE);
    bool is_range = memory && start >= (uintptr_t)memory && end > start &&
                    end <= (uintptr_t)1 << PRIM_ADDRESS_BITS;
    if (!is_range || large_around(start) || !arena_is_foreign(start, end)) {
        errno = EINVAL;
        return NULL;
    }
    struct arena *arena = create(MEDIUM_CLASS_LAST, true);
    if (!arena) {
        return NULL;
    }
    size = bits_min(end - start, most);
    thread_cache_nest();
    struct span *span = lent_span(start, size);
    if (span) {
        span->bucket = ARENA_LENT;
        insert_chunk(arena, (void *)start, size, false);
        span_publish(span, SPAN_SLAB, CLASS_ARENA);
    }
    thread_cache_leave();
    if (!span) {
        arena_destroy(arena);
        errno = ENOMEM;
        return NULL;
    }
    return arena;
}

static void free_span(struct span *span) {
    span_withdraw(span);
    subtract_relaxed(&arena_space_bytes, span_size(span));
    purge_free(span, SPAN_DIRTY);
}

static void free_chunk(struct arena_chunk *chunk) {
    struct span *span = span_of_block(chunk);
    if (span->bucket == ARENA_CELLS) {
        arena_cell_release(chunk);
        return;
    }
    if (span->bucket == ARENA_LENT) {
        span_withdraw(span);
        for (uintptr_t at = span->address; at < span_end(span); at += SLICE_SIZE) {
            span_of_heap_slice(at)->head_offset = 0; /* the heap may grow into a part of it */
        }
        span_set_state(span, SPAN_NONE);
    } else {
        free_span(span);
    }
}

void arena_destroy(struct arena *arena) {
    thread_cache_nest();
    lock_acquire(&arenas.lock, LOCK_ARENAS);
    if (arena->next) {
        arena->next->previous = arena->previous;
    }
    if (arena->previous) {
        arena->previous->next = arena->next;
    } else {
        arenas.all = arena->next;
    }
    lock_release(&arenas.lock, LOCK_ARENAS);
    if (PRIM_UNLIKELY(options.stats)) {
        call_counts_frees(CLASS_ARENA, arena->counts.live_count);
    }
    for (struct arena_chunk *chunk = arena->chunks; chunk;) {
        struct arena_chunk *next = chunk->next;
        free_chunk(chunk);
        chunk = next;
    }
    for (struct span *span = arena->large; span;) {
        struct span *next = span->next;
        free_span(span);
        span = next;
    }
    thread_cache_leave();
    release(arena);
}

void arena_delete(struct arena *arena) {
    thread_cache_nest();
    lock_acquire(&arena->lock, LOCK_ARENA);
    store_relaxed(&arena->is_deleted, true);
    bool is_empty = arena->counts.live_count == 0;
    lock_release(&arena->lock, LOCK_ARENA);
    thread_cache_leave();
    if (is_empty) {
        arena_destroy(arena);
    }
}

/* With the lock held: whether so many bytes more are within the limit. */
static bool may_have(const struct arena *arena, size_t bytes) {
    const struct arena_counts *counts = &arena->counts;
    return bytes <= counts->limit && counts->live_bytes + arena->growing <= counts->limit - bytes;
}

static void count(struct arena *arena, size_t bytes, size_t blocks) {
    struct arena_counts *counts = &arena->counts;
    counts->live_bytes += bytes;
    counts->live_count += blocks;
    counts->total_bytes += bytes;
    counts->total_count += blocks;
    counts->peak_bytes = bits_max(counts->peak_bytes, counts->live_bytes);
}

/* With the lock held: true if the arena ends with this. */
static bool uncount(struct arena *arena, size_t bytes, size_t blocks) {
    arena->counts.live_bytes -= bytes;
    arena->counts.live_count -= blocks;
    return arena->counts.live_count == 0 && load_relaxed(&arena->is_deleted);
}

/* Gets the arena another chunk that a block of this size fits in. */
static bool add_chunk(struct arena *arena, size_t block_size) {
    size_t bytes = arena_chunk_bytes_for(block_size);
    lock_acquire(&arena->lock, LOCK_ARENA);
    size_t grown = arena->counts.area_bytes / ARENA_GROWTH_DIVISOR;
    bool is_cell =
        !arena->is_lent && bytes <= ARENA_CELL_SIZE && arena->cell_count < ARENA_CELLS_MAX;
    arena->cell_count += is_cell;
    lock_release(&arena->lock, LOCK_ARENA);
    void *memory = NULL;
    bool is_zero = false;
    if (is_cell) {
        memory = arena_cell_take();
        bytes = ARENA_CELL_SIZE;
    } else if (!arena->is_lent) {
        size_t slices = bits_min(grown / SLICE_SIZE, ARENA_CHUNK_SLICES_MAX);
        slices = bits_max(slices, bits_round_up(bytes, SLICE_SIZE) / SLICE_SIZE);
        struct span *span = page_heap_allocate(slices, 0);
        if (span) {
            memory = (void *)span->address;
            bytes = slices * SLICE_SIZE;
            is_zero = span->is_zero;
            span->bucket = ARENA_CHUNK;
            add_relaxed(&arena_space_bytes, bytes);
            span_publish(span, SPAN_SLAB, CLASS_ARENA);
        }
    }
    if (!memory) {
        return false;
    }
    insert_chunk(arena, memory, bytes, is_zero);
    return true;
}

static void *allocate_in_chunk(struct arena *arena, const struct arena_fit *fit, bool *is_zero) {
    size_t bytes = size_classes[fit->object_class].size - fit->shift;
    for (;;) {
        lock_acquire(&arena->lock, LOCK_ARENA);
        bool is_allowed = may_have(arena, bytes);
        void *block = is_allowed ? arena_chunk_take(arena, fit, is_zero) : NULL;
        if (PRIM_LIKELY(block != NULL)) {
            count(arena, bytes, 1);
        }
        lock_release(&arena->lock, LOCK_ARENA);
        if (PRIM_LIKELY(block != NULL)) {
            return block;
        }
        size_t searched = size_classes[fit->search_class].size;
        if (!is_allowed ||
            (!add_chunk(arena, searched) && (arena->is_lent || !make_room(searched)))) {
            return NULL;
        }
    }
}

static void *allocate_large(struct arena *arena, const struct arena_request *request,
                            bool *is_zero) {
    size_t alignment = bits_max(request->alignment, 1);
    size_t offset = (0 - request->offset) & (alignment - 1);
    if (arena->is_lent || request->size > PTRDIFF_MAX || offset > PTRDIFF_MAX) {
        return NULL;
    }
    size_t size = bits_max(request->size, 1) + offset;
    struct span *span;
    do {
        span = large_take(size, alignment, is_zero);
    } while (PRIM_UNLIKELY(!span) && make_room(bits_max(size, alignment)));
    if (!span) {
        return NULL;
    }
    span->bucket = ARENA_LARGE;
    span->arena = arena;
    span->block_offset = offset;
    span->leaves_at_free = false;
    add_relaxed(&arena_space_bytes, span_size(span));
    lock_acquire(&arena->lock, LOCK_ARENA);
    bool is_allowed = may_have(arena, arena_large_size(span));
    if (is_allowed) {
        count(arena, arena_large_size(span), 1);
        span_link(&arena->large, span);
        arena->counts.area_bytes += span_size(span);
    }
    lock_release(&arena->lock, LOCK_ARENA);
    /* The slices up to the block's own, so that its address leads to the span's head. */
    span_publish(span, offset < SLICE_SIZE ? SPAN_LARGE : SPAN_SLAB, CLASS_ARENA);
    if (!is_allowed) {
        free_span(span);
        return NULL;
    }
    return (void *)(span->address + offset);
}

/* Blocks that belong to no heap of the program's are sampled as those of the default heap are. */
static bool is_watched(const struct arena *arena) {
    return sampler_was_started() && arena->kind != ARENA_HEAP;
}

void *arena_allocate(struct arena *arena, struct arena_request request, bool *is_zero) {
    struct arena_fit fit;
    void *block = arena_chunk_fit(arena, &request, &fit) ? allocate_in_chunk(arena, &fit, is_zero)
                                                         : allocate_large(arena, &request, is_zero);
    if (block && PRIM_UNLIKELY(options_see_every_call()) && !arena->is_sampled) {
        see_allocation(block, request.size, is_zero ? 0 : arena_usable_size(block));
    }
    if (block && is_watched(arena) && !arena->is_sampled) {
        thread_sampler_see_large(block, request.size, request.alignment);
    }
    return block;
}

void arena_release(void *block) {
    struct arena_found place = arena_find(block);
    struct arena *arena = place.arena;
    if (PRIM_UNLIKELY(!arena)) {
        foreign_release(block);
        return;
    }
    if (is_watched(arena)) {
        sampler_end(block, 0);
    }
    bool is_unused = false;
    lock_acquire(&arena->lock, LOCK_ARENA);
    if (place.chunk) {
        bool is_empty = arena_chunk_give_back(arena, place.chunk, place.granule);
        is_unused = is_empty && place.chunk->previous;
        if (is_unused) {
            arena_chunk_remove(arena, place.chunk);
        }
    } else {
        span_unlink(&arena->large, place.span);
        arena->counts.area_bytes -= span_size(place.span);
    }
    bool is_last = uncount(arena, place.usable, 1);
    lock_release(&arena->lock, LOCK_ARENA);
    if (is_unused) {
        free_chunk(place.chunk);
    } else if (!place.chunk) {
        free_span(place.span);
    }
    if (is_last) { /* from outside: what is freed inside must wait, and is lost where one watches */
        thread_cache_leave();
        arena_destroy(arena);
        thread_cache_nest();
    }
}

/* A large block grows or shrinks where it is. */
static bool resize_large(const struct arena_found *found, size_t size) {
    struct arena *arena = found->arena;
    struct span *span = found->span;
    if (span->block_offset || size > PTRDIFF_MAX) {
        return false;
    }
    size_t before = span_size(span);
    size_t wanted = bits_round_up(size, SLICE_SIZE);
    size_t growth = wanted > before ? wanted - before : 0;
    lock_acquire(&arena->lock, LOCK_ARENA);
    bool is_allowed = growth == 0 || may_have(arena, growth); /* a lower limit may stand now */
    if (is_allowed) {
        arena->growing += growth; /* others may not have it meanwhile */
    }
    lock_release(&arena->lock, LOCK_ARENA);
    if (!is_allowed) {
        return false;
    }
    bool is_done = large_resize(span, size);
    size_t change = span_size(span) - before;
    struct arena_counts *counts = &arena->counts;
    add_relaxed(&arena_space_bytes, change);
    lock_acquire(&arena->lock, LOCK_ARENA);
    arena->growing -= growth;
    counts->live_bytes += change;
    counts->total_bytes += growth ? change : 0;
    counts->area_bytes += change;
    counts->peak_bytes = bits_max(counts->peak_bytes, counts->live_bytes);
    lock_release(&arena->lock, LOCK_ARENA);
    return is_done;
}

void *arena_reallocate(void *block, size_t size) {
    enum { SLACK = 64, SLACK_OF_CLASSES = 16 }; /* bytes that are not worth a copy */
    struct arena_found found = arena_find(block);
    if (!found.arena) {
        return foreign_reallocate(block, size);
    }
    bool is_sampled = found.arena->is_sampled;
    size_t slack = is_sampled ? SLACK_OF_CLASSES : SLACK; /* it does as those it stands for */
    if (size <= found.usable && (size >= found.usable / 2 || found.usable <= slack)) {
        if (is_watched(found.arena)) {
            sampler_end(block, size);
        }
        return block;
    }
    thread_cache_nest();
    bool is_done = !is_sampled && !found.chunk && resize_large(&found, size);
    if (is_done && is_watched(found.arena)) { /* another one, to those who sample */
        sampler_end(block, 0);
        thread_sampler_see_large(block, size, 0);
    }
    bool leaves = is_sampled || load_relaxed(&found.arena->is_deleted);
    struct arena_request request = {.size = size};
    void *target = is_done || leaves ? NULL : arena_allocate(found.arena, request, NULL);
    thread_cache_leave();
    if (is_done) {
        return block;
    }
    if (leaves) {
        target = allocate_slow(size);
    } else if (!target && size > found.usable) { /* else the block will do: nobody is told */
        return fail_allocation(size);
    }
    return move_to(target, block, found.usable, size);
}

bool arena_expand(void *block, size_t size) {
    struct arena_found found = arena_find(block);
    return found.arena && (size <= found.usable || (!found.chunk && resize_large(&found, size)));
}

PRIM_COLD void arena_set_name(struct arena *arena, const char *name) {
    thread_cache_nest();
    lock_acquire(&arena->lock, LOCK_ARENA);
    copy_name(arena, name);
    lock_release(&arena->lock, LOCK_ARENA);
    thread_cache_leave();
}

PRIM_COLD void arena_for_each(arena_visitor *visitor, void *argument) {
    thread_cache_nest();
    lock_acquire(&arenas.lock, LOCK_ARENAS);
    for (struct arena *arena = arenas.all; arena; arena = arena->next) {
        lock_acquire(&arena->lock, LOCK_ARENA);
        visitor(arena, argument);
        lock_release(&arena->lock, LOCK_ARENA);
    }
    lock_release(&arenas.lock, LOCK_ARENAS);
    thread_cache_leave();
}

void arena_fork_prepare(void) {
    lock_acquire_unranked(&arenas.lock);
    for (struct arena *arena = arenas.all; arena; arena = arena->next) {
        lock_acquire_unranked(&arena->lock);
    }
    arena_cell_fork_prepare();
}

void arena_fork_parent(void) {
    arena_cell_fork_parent();
    for (struct arena *arena = arenas.all; arena; arena = arena->next) {
        lock_release_unranked(&arena->lock);
    }
    lock_release_unranked(&arenas.lock);
}

void arena_fork_child(void) {
    arena_cell_fork_child();
    for (struct arena *arena = arenas.all; arena; arena = arena->next) {
        lock_reset(&arena->lock);
        arena->growing = 0;
    }
    lock_reset(&arenas.lock);
}
