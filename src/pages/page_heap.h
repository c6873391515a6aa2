/* page_heap.h - the address space of the process's heap, in spans of 16 KiB slices.
 *
 * One lock (PAGE_HEAP) protects all of it. Free spans are CLEAN or DIRTY, coalesce with free
 * neighbours of the same state, and are reused best-fit, lowest address first; DIRTY ones first,
 * because their pages are resident already; from 1 to 8 MiB neighbours of both kinds serve together
 * (free_run.h) before a CLEAN one does. How long DIRTY spans stay resident is purge.h's.
 *
 * Where blocks stay untouched inside (sparse.h), spans freed of late wait unjoined in quick lists,
 * for requests of just their size. */
#ifndef PRIM_PAGES_PAGE_HEAP_H
#define PRIM_PAGES_PAGE_HEAP_H

#include "os/lock.h"
#include "pages/extent_set.h"
#include "pages/limits.h"
#include "pages/quick.h"

struct page_heap {
    struct lock lock;
    struct extent_set clean;      /* (lock: PAGE_HEAP) CLEAN spans */
    struct extent_set dirty;      /* (lock: PAGE_HEAP) DIRTY spans; counts the quick ones as well */
    struct quick_lists quick;     /* (lock: PAGE_HEAP) DIRTY spans freed of late, BUSY */
    size_t dirty_low_water;       /* (lock: PAGE_HEAP) least dirty slices since the epoch began */
    size_t refused_slices;        /* (lock: PAGE_HEAP) dirty ones the kernel would not take last */
    _Atomic size_t mapped_slices; /* (atomic: counter, written under the lock) all address space */
    uintptr_t newest_address;     /* (lock: PAGE_HEAP) where the newest mapping begins; 0: none */
    size_t span_count;            /* (lock: PAGE_HEAP) spans in use, lent memory not included */
    size_t span_peak;             /* (lock: PAGE_HEAP) most of them at a time */
    uint64_t span_total;          /* (lock: PAGE_HEAP) that ever were */
    uint64_t search_count;        /* (lock: PAGE_HEAP) looks for a free extent that fits */
};

extern PRIM_HIDDEN struct page_heap page_heap;

/* The spans that serve one class of blocks: counted here, where the lock is held anyway. */
struct span_level { /* (atomic: hints; written under PAGE_HEAP) */
    _Atomic uint32_t count;
    _Atomic uint32_t slice_count; /* in all of them */
    _Atomic uint32_t slice_peak;  /* most of these */
    _Atomic size_t total;         /* spans that ever were */
};

/* By class; what others than slabs and large blocks add to theirs means nothing. */
extern PRIM_HIDDEN struct span_level span_levels[UINT8_MAX + 1];

/* A BUSY span of slice_count slices whose address is a multiple of alignment (a power of two, in
 * bytes), or NULL when there is no memory; to be published with this class, or 0: any. It has so
 * many more slices of room, or fewer where a DIRTY one fits that has not. For slabs: others call
 * limits_look() after it. */
struct span *page_heap_allocate_for(size_t slice_count, size_t room, size_t alignment,
                                    unsigned object_class);

PRIM_INLINE struct span *page_heap_allocate(size_t slice_count, size_t alignment) {
    struct span *span = page_heap_allocate_for(slice_count, 0, alignment, 0);
    limits_look();
    return span;
}

/* Takes a span back, BUSY or as it was published; as CLEAN only if its pages are known to have
 * gone. */
void page_heap_free(struct span *span, enum span_state state);

/* Grows a LARGE span in place, into a free neighbour, and returns what that was: CLEAN or DIRTY, or
 * NONE if it does not fit. */
enum span_state page_heap_grow(struct span *span, size_t slice_count);

/* Moves the cut between a span in use and a BUSY one behind it, both the caller's and counted: the
 * latter is new, or ends. */
void page_heap_cut(struct span *span, size_t slice_count);

/* Counts a published span among those of its class, or no longer: for one that stays a span while
 * its block comes and goes. */
void page_heap_count(const struct span *span, bool is_new);

/* With the lock held: puts the quick spans to the others. */
void page_heap_settle(void);

/* Bytes in free spans, clean and dirty, and bytes that may be resident, of some recent moment. */
size_t page_heap_free_bytes(void);
size_t page_heap_resident_bytes(void);

/* With the lock held: whether so many clean slices may come into use. A process that they would
 * press is refused once as well, unless it was before: so its dirty slices go back first. */
bool page_heap_may_touch(size_t slice_count, bool *is_refused);

/* With the lock held: to be called after every operation that takes dirty slices for good. */
void page_heap_note_low_water(void);

/* With the lock held: puts a BUSY span into the set of the given state, joined with its
 * neighbours, and returns the joint span; takes a span out of its set and makes it BUSY; cuts off a
 * BUSY span's end. */
struct span *page_heap_insert(struct span *span, enum span_state state);
void page_heap_remove(struct span *span);
struct span *page_heap_split(struct span *span, size_t slice_count);

#endif
