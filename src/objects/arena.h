/* arena.h - first-class heaps (prim_heap_t): blocks that belong together and may end together.
 *
 * An arena is made of chunks. A chunk is cut into blocks of any size class, in granules of 16
 * bytes; a byte for each granule, in the chunk's head, tells which blocks begin there and whether
 * they are free. So one chunk serves all classes, and an arena with ten small blocks needs no more
 * than one cell: 1 KiB of a slice that sixteen arenas share. Greater arenas have chunks of whole
 * slices, which grow with them; blocks above ARENA_SIZE_MAX have spans of their own. An arena in
 * lent memory has one chunk, the caller's.
 *
 * Free blocks are in lists by class, linked both ways, so that a chunk whose last block ends can
 * take its blocks out of the lists and go back. A request takes a free block of its class, else
 * carves what was never used, else cuts a greater free block. Blocks are not joined again.
 *
 * Slices of arenas have CLASS_ARENA in the address map. No thread cache has room for that class, so
 * free comes here by the slow door, whoever calls it, and finds the arena through the block's chunk
 * or span. The default heap's fast paths know nothing of this.
 *
 * A deleted arena lives on, without a name, until its last block is freed; so blocks keep an owner
 * that free can lock. An arena destroyed gives back its chunks without a look at its blocks.
 *
 * Locks: ARENA, one in each, under which no other is taken; ARENAS, the list of all of them, under
 * which METADATA is for a shared one, and each ARENA by who looks at all. Fork takes them all. */
#ifndef PRIM_OBJECTS_ARENA_H
#define PRIM_OBJECTS_ARENA_H

#include "objects/size_class.h"
#include "os/lock.h"
#include "pages/span.h"

enum {
    ARENA_GRANULE = 16,
    ARENA_CELL_SIZE = 1024,
    ARENA_CELLS_MAX = 4,         /* cells of one arena; then it gets slices */
    ARENA_SIZE_MAX = 16 * 1024,  /* of a block in a chunk of our own */
    ARENA_CLASS_LAST = 65,       /* its class */
    ARENA_ALIGNMENT_MAX = 4096,  /* of a block in a chunk */
    ARENA_CHUNK_SLICES_MAX = 64, /* 1 MiB */
    ARENA_GROWTH_DIVISOR = 8,    /* the next chunk, as a part of the arena */
    ARENA_USED = 0x80,           /* in the byte of a granule: a live block begins here */
    ARENA_NAME_SIZE = 48,        /* of a name, the zero included */
};

/* Who has the arena: the program, which knows it as a heap; or we, for ever. */
enum arena_kind { ARENA_HEAP, ARENA_TAG, ARENA_INTERNAL };

/* What a span with CLASS_ARENA holds: span.bucket. */
enum arena_place { ARENA_CELLS, ARENA_CHUNK, ARENA_LENT, ARENA_LARGE };

struct arena_chunk {
    struct arena *arena;          /* (const) */
    struct arena_chunk *next;     /* (lock: ARENA) */
    struct arena_chunk *previous; /* (lock: ARENA) */
    uint32_t granule_count;       /* (const) of all the chunk, its head included */
    uint32_t first_granule;       /* (const) behind the head */
    uint32_t next_granule;        /* (lock: ARENA) the first one never carved */
    uint32_t used_count;          /* (lock: ARENA) live blocks */
    uint32_t touched_granule;     /* (lock: ARENA) from here on no life of it carved: all zero */
    uint8_t map[]; /* (lock: ARENA) 0, or the class of the block that begins here, and ARENA_USED;
                      in the second granule of a live block: how far behind the first one's start
                      its pointer lies, which only alignment at an offset asks for */
};

struct arena_block { /* while it is free */
    struct arena_block *next;
    struct arena_block *previous;
};

_Static_assert(sizeof(struct arena_block) <= ARENA_GRANULE, "a free block has room for its links");

struct arena_counts {
    size_t live_bytes; /* of blocks, as rounded up */
    size_t live_count;
    size_t peak_bytes;
    size_t total_bytes; /* of blocks that ever were */
    size_t total_count;
    size_t area_bytes; /* of chunks and large spans */
    size_t limit;      /* of live_bytes; SIZE_MAX: none */
};

struct arena {
    struct lock lock;
    _Atomic bool is_deleted;    /* (atomic: hint, written under the lock) has no name anymore */
    bool is_lent;               /* (const) over the caller's memory */
    uint8_t kind;               /* (const) enum arena_kind */
    uint8_t class_last;         /* (const) of blocks in chunks */
    bool is_sampled;            /* (const) its blocks are samples, no others are */
    unsigned cell_count;        /* (lock: ARENA) ever taken */
    struct arena *next;         /* (lock: ARENAS) */
    struct arena *previous;     /* (lock: ARENAS) */
    struct arena_chunk *chunks; /* (lock: ARENA) the first one is carved */
    struct span *large;         /* (lock: ARENA) spans of one block */
    struct arena_counts counts; /* (lock: ARENA) */
    size_t growing;             /* (lock: ARENA) bytes that large blocks are to become greater by */
    uint64_t filled[2];         /* (lock: ARENA) one bit a class: its list is not empty */
    char name[ARENA_NAME_SIZE]; /* (lock: ARENA) for statistics; empty: none */
    struct arena_block *free_blocks[]; /* (lock: ARENA) by class */
};

/* Where a block is to begin: address + offset is a multiple of alignment, a power of two or 0. */
struct arena_request {
    size_t size;
    size_t alignment;
    size_t offset;
};

/* Address space of the heap that arenas have, in whole slices: without lent memory. */
extern PRIM_HIDDEN _Atomic size_t arena_space_bytes; /* (atomic: counter) */

/* Without memory: NULL. */
struct arena *arena_create(void);

/* The arena that several threads share at this place, made there if there is none yet. It never
 * ends. Blocks of one for samples stay in it only as long as they stay where they are. NULL, with
 * errno, without memory, and where a signal handler that interrupted the library would make it. */
struct arena *arena_at(_Atomic(struct arena *) *place, enum arena_kind kind, const char *name,
                       bool is_sampled);

/* Over the whole slices of the caller's memory; NULL with errno EINVAL if there is none. */
struct arena *arena_create_lent(void *memory, size_t size);

/* The arena, without a name, of blocks of the default heap that no slab can hold; never ends. NULL
 * without memory. */
struct arena *arena_unnamed(void);

/* Takes its name away: it ends with its last block. */
void arena_delete(struct arena *arena);

/* Ends it with all its blocks, which nobody may use at the same time. */
void arena_destroy(struct arena *arena);

/* A block, or NULL. Tells, if asked, whether it is known to be zero. From inside the slow door. */
void *arena_allocate(struct arena *arena, struct arena_request request, bool *is_zero);

/* The same for those who come from outside; NULL with errno ENOMEM. */
void *arena_allocate_entering(struct arena *arena, struct arena_request request, bool *is_zero);
void *arena_allocate_zeroed(struct arena *arena, struct arena_request request);

/* For any pointer into slices with CLASS_ARENA; such that are no blocks count as foreign. */
void arena_release(void *block);
size_t arena_usable_size(const void *block);
void *arena_reallocate(void *block, size_t size); /* a deleted arena's moves to the default heap */
bool arena_expand(void *block, size_t size);      /* in place, or false */

/* The arena of a live block, of any pointer; NULL if it belongs to none that has a name. With tags:
 * where the block stays when realloc moves it. */
struct arena *arena_of(const void *block);
struct arena *arena_or_tag_of(const void *block);

void arena_set_limit(struct arena *arena, size_t limit);
void arena_set_name(struct arena *arena, const char *name); /* as much of it as there is room for */
/* All zero in a signal handler that interrupted us. */
struct arena_counts arena_counts(struct arena *arena);

/* Shows each arena that exists, deleted ones as well, with its lock held and that of their list. */
typedef void arena_visitor(struct arena *arena, void *argument);
void arena_for_each(arena_visitor *visitor, void *argument);

struct arena_area {
    void *address;
    size_t size;
    size_t used_count;
};

/* Both walk until the visitor returns false, and return what it returned last. No lock is held
 * while it runs: it may free the block that it is shown; nobody else may use the arena. */
typedef bool arena_area_visitor(const struct arena_area *area, void *argument);
typedef bool arena_block_visitor(void *block, size_t size, void *argument);
bool arena_visit_areas(struct arena *arena, arena_area_visitor *visitor, void *argument);
bool arena_visit_blocks(struct arena *arena, arena_block_visitor *visitor, void *argument);

void arena_fork_prepare(void);
void arena_fork_parent(void);
void arena_fork_child(void);

#endif
