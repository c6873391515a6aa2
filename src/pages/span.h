/* span.h - descriptors of our address space.
 *
 * The heap consists of slices of 16 KiB. A span is a run of slices with one purpose; each slice
 * has a descriptor of one cache line, and that of a span's first slice, its head, describes the
 * span. Descriptors live outside the heap in chunks that cover 256 MiB each, found through a flat
 * table; they cost 0.4 % of the heap and are touched only where spans begin or end.
 *
 * States of a span, and who owns its fields:
 *   NONE   not our address space (anymore)
 *   CLEAN  free, reads as zero, holds no physical pages    page heap
 *   DIRTY  free, may hold physical pages and old contents  page heap
 *   BUSY   neither: on its way, in a quick list, a guard   who took it; quick.h, large_guard.h
 *   SLAB   cut into blocks of one size class               slab.c: shard's class lock
 *   LARGE  one block, large or medium                      whoever holds the block
 *
 * A span becomes CLEAN or DIRTY, or stops being it, under the page heap's lock only; the other
 * states change hands without it, so neighbours may see any of those, and care for none.
 *
 * Invariants:
 *   the descriptor of a span's last slice has head_offset = slice_count - 1 (the boundary tag);
 *   every slice of a slab has its head_offset and object_class;
 *   object_class != 0 only in slices of slabs and in the head of a large span;
 *   for a slab: used_count + free_count + asleep_count = carved_count <= capacity of its class;
 *   a slab's block is asleep if any page that it lies in is; it then is in no list. */
#ifndef PRIM_PAGES_SPAN_H
#define PRIM_PAGES_SPAN_H

#include "base/atomics.h"
#include "pages/address_map.h"

enum span_state { SPAN_NONE, SPAN_CLEAN, SPAN_DIRTY, SPAN_BUSY, SPAN_SLAB, SPAN_LARGE };

/* The last: in the place of a block of a class, hence of that one's size (sampler.h). */
enum span_sampled { SPAN_UNSAMPLED, SPAN_SAMPLED, SPAN_SAMPLED_OF_CLASS };

struct span {
    uintptr_t address; /* (const while in use) of the first byte */
    union {
        struct { /* (lock: PAGE_HEAP) CLEAN, DIRTY: node of a tree of extents */
            struct span *left;
            struct span *right;
        };
        struct { /* (lock: that of the list) others: span_link, quick.h */
            struct span *next;
            struct span *previous;
        };
    };
    union {
        void *free_blocks;   /* (lock: CLASS) linked through their first word; or hardened_slab.h */
        struct arena *arena; /* (const while in use) of a large block in one */
    };
    uint32_t slice_count; /* (const while in use) */
    uint32_t head_offset; /* (const while in use) slices back to the head */
    union {
        uint64_t asleep_pages;       /* (lock: CLASS) system pages given back, one bit each */
        size_t block_offset;         /* (const while in use) of a large block in an arena */
        _Atomic uint64_t used_cells; /* (atomic: hint, written under CELLS) arena_cell.h */
    };
    /* Those that change together are not neighbours: GCC would add them in vector registers. */
    union {
        uint16_t used_count; /* (lock: CLASS) blocks handed out to thread caches */
        bool has_guard;      /* (const while in use) LARGE: large_guard.h */
    };
    union {
        uint16_t settled_count; /* (lock: CLASS) free_count when the slab was marked as settled */
        uint16_t bare_frees;    /* (const while in use) LARGE: that take it for bare unseen */
    };
    uint16_t free_count;   /* (lock: CLASS) blocks in free_blocks */
    uint16_t asleep_count; /* (lock: CLASS) free blocks that lie in pages asleep */
    uint16_t carved_count; /* (lock: CLASS) blocks that ever existed */
    _Atomic uint8_t state; /* (atomic: state) enum span_state; CLEAN, DIRTY: (lock: PAGE_HEAP) */
    uint8_t object_class;  /* (const while in use) 0 in slices without blocks that start there */
    _Atomic uint8_t shard; /* (atomic: shard) written under the old shard's class lock */
    union {
        uint8_t bucket;  /* (lock: CLASS) list the slab is in, and marks of the purge; or, const
                            while in use, enum arena_place, HARDENED_BUCKET */
        uint8_t sampled; /* (const while in use) LARGE, outside of arenas: enum span_sampled */
    };
    bool is_zero;        /* (const while in use) CLEAN when it was taken */
    bool leaves_at_free; /* (const while in use) LARGE: its pages go back when it is freed */
};

/* Slices that follow each other in a span. */
struct span_part {
    uintptr_t start;
    size_t slices;
};

_Static_assert(sizeof(struct span) <= PRIM_CACHE_LINE, "a descriptor fills one cache line");

union span_slot { /* the descriptor's place: one cache line */
    struct span span;
    char line[PRIM_CACHE_LINE];
};

enum {
    CHUNK_SHIFT = 28,
    CHUNK_SLICES = 1 << (CHUNK_SHIFT - SLICE_SHIFT),
    HUGE_SHIFT = 21, /* 2 MiB, what a huge page holds */
    HUGE_SIZE = 1 << HUGE_SHIFT,
    CHUNK_HUGE = 1 << (CHUNK_SHIFT - HUGE_SHIFT),
    CHUNK_COUNT = 1 << (PRIM_ADDRESS_BITS - CHUNK_SHIFT),
};

/* What is known of each 2 MiB of the heap. */
enum span_mark {
    MARK_HUGE,   /* may hold a huge page, which is resident as a whole: huge.h */
    MARK_ASKED,  /* the kernel's khugepaged may make it one: huge.h */
    MARK_POOL,   /* a huge page of the system's pool: huge.h */
    MARK_HIDDEN, /* kept out of core dumps: mapping.h */
    MARK_COUNT
};

struct span_chunk {
    union span_slot slots[CHUNK_SLICES];
    _Atomic uint64_t cuts[CHUNK_SLICES / 64]; /* (atomic: bits of the slices' owners) mapping.h */
    _Atomic uint64_t marks[MARK_COUNT][CHUNK_HUGE / 64]; /* (atomic: hints about each 2 MiB) */
    struct span_chunk *next;                             /* (const) the one that came before */
    size_t number;                                       /* (const) its place in the table */
};

/* What is known of each 256 MiB of address space. Reserved read-only like the address map, a page
 * is made writable when the heap reaches what it describes: a variable of this size would count
 * as the process's data and be locked with it, and collectors would look for pointers in it. */
struct span_table {
    _Atomic(struct span_chunk *) chunks[CHUNK_COUNT];      /* (atomic: chunk) */
    _Atomic(struct hardened_states *) states[CHUNK_COUNT]; /* (atomic: hardened states) */
};

/* Both (const after initialisation), as the address map is: */
extern PRIM_HIDDEN struct span_table *span_table;
extern PRIM_HIDDEN uintptr_t span_chunk_count; /* CHUNK_COUNT, or 0 without a table */

extern PRIM_HIDDEN _Atomic(struct span_chunk *) span_newest_chunk; /* (atomic: chunk list) */

/* Reserves the table; called once, at initialisation. */
void span_initialise(void);

/* The descriptor of the slice that holds address, or NULL where the heap never was. */
PRIM_INLINE struct span *span_of_slice(uintptr_t address) {
    uintptr_t chunk = address >> CHUNK_SHIFT;
    if (PRIM_UNLIKELY(chunk >= span_chunk_count)) {
        return NULL;
    }
    struct span_chunk *found = load_acquire(&span_table->chunks[chunk]); /* order pair: chunk */
    if (PRIM_UNLIKELY(!found)) {
        return NULL;
    }
    return &found->slots[(address >> SLICE_SHIFT) & (CHUNK_SLICES - 1)].span;
}

/* The word that holds the bit of a slice of the heap: mapping.h knows what it means. */
PRIM_INLINE _Atomic uint64_t *span_cut_bits(uintptr_t address) {
    struct span_chunk *chunk = load_relaxed(&span_table->chunks[address >> CHUNK_SHIFT]);
    return &chunk->cuts[((address >> SLICE_SHIFT) & (CHUNK_SLICES - 1)) / 64];
}

PRIM_INLINE uint64_t span_mark_bit(uintptr_t address) {
    return (uint64_t)1 << (address >> HUGE_SHIFT) % 64;
}

PRIM_INLINE _Atomic uint64_t *span_mark_word(uintptr_t address, enum span_mark mark) {
    struct span_chunk *chunk = load_relaxed(&span_table->chunks[address >> CHUNK_SHIFT]);
    return &chunk->marks[mark][((address >> HUGE_SHIFT) & (CHUNK_HUGE - 1)) / 64];
}

/* Whether the 2 MiB around an address of the heap have the mark. */
PRIM_INLINE bool span_has_mark(uintptr_t address, enum span_mark mark) {
    return load_relaxed(span_mark_word(address, mark)) & span_mark_bit(address);
}

/* The descriptor of a slice of the heap. */
PRIM_INLINE struct span *span_of_heap_slice(uintptr_t address) {
    struct span_chunk *chunk = load_relaxed(&span_table->chunks[address >> CHUNK_SHIFT]);
    return &chunk->slots[(address >> SLICE_SHIFT) & (CHUNK_SLICES - 1)].span;
}

/* The span of a block that we handed out. No branch waits for the slice's descriptor, which may be
 * in no cache: so those of a list's blocks come together. */
PRIM_INLINE struct span *span_of_block(const void *block) {
    uint32_t offset = span_of_heap_slice((uintptr_t)block)->head_offset;
    return span_of_heap_slice((uintptr_t)block - (uintptr_t)offset * SLICE_SIZE);
}

unsigned span_class_unmapped(const void *pointer);

/* The class of any pointer at all, 0 if it is no block of ours: what the address map says, or the
 * descriptors where there is no map. */
PRIM_INLINE unsigned span_class_of(const void *pointer) {
    return PRIM_LIKELY(address_map_mask != 0) ? address_map_class(pointer)
                                              : span_class_unmapped(pointer);
}

PRIM_INLINE enum span_state span_state(const struct span *span) {
    return (enum span_state)load_relaxed(&span->state);
}

PRIM_INLINE void span_set_state(struct span *span, enum span_state state) {
    store_relaxed(&span->state, (uint8_t)state);
}

/* The span that ends where this address begins, or NULL. */
PRIM_INLINE struct span *span_before(uintptr_t address) {
    const struct span *last = span_of_slice(address - SLICE_SIZE);
    return last ? span_of_slice(address - (last->head_offset + (uintptr_t)1) * SLICE_SIZE) : NULL;
}

PRIM_INLINE uintptr_t span_end(const struct span *span) {
    return span->address + (uintptr_t)span->slice_count * SLICE_SIZE;
}

PRIM_INLINE size_t span_size(const struct span *span) {
    return (size_t)span->slice_count * SLICE_SIZE;
}

/* A list of spans, linked both ways. */
PRIM_INLINE void span_link(struct span **list, struct span *span) {
    span->previous = NULL;
    span->next = *list;
    if (span->next) {
        span->next->previous = span;
    }
    *list = span;
}

PRIM_INLINE void span_unlink(struct span **list, struct span *span) {
    if (span->previous) {
        span->previous->next = span->next;
    } else {
        *list = span->next;
    }
    if (span->next) {
        span->next->previous = span->previous;
    }
}

/* Makes descriptors for new address space, and the address map's bytes for it writable; false when
 * the system has no memory for them. Called with the page heap's lock held. */
bool span_cover(uintptr_t address, size_t size);

/* Touches the pages of descriptors of fresh address space: one call, which is rare, waits for them
 * then, and not many for one each. */
void span_touch(uintptr_t start, uintptr_t end);

/* Makes an entry of the table writable. */
bool span_commit_entry(void *entry);

/* How many bytes of the descriptors, and of the address map beside them, hold physical pages. */
size_t span_resident_bytes(void);

/* Sets or clears a mark on all of [start, end), whole 2 MiB of the heap. */
void span_set_marks(uintptr_t start, uintptr_t end, enum span_mark mark, bool value);

/* Gives back the pages of descriptors that describe nothing but the inner slices of a BUSY span
 * without pages: they read as zero from then on. */
void span_forget_inner(uintptr_t start, uintptr_t end);

/* Writes head and boundary tag of a span whose slices the caller owns. */
struct span *span_create(uintptr_t address, size_t slice_count, enum span_state state);

/* Announces the span's blocks: sets the class of its first slice (LARGE) or of all (SLAB). */
void span_publish(struct span *span, enum span_state state, unsigned object_class);

/* The same for a LARGE one. */
PRIM_INLINE void span_publish_large(struct span *span, unsigned object_class) {
    span_set_state(span, SPAN_LARGE);
    span->object_class = (uint8_t)object_class;
    address_map_set(span->address, object_class);
}

/* Takes the announcement back before the span is freed. */
void span_withdraw(struct span *span);

#endif
