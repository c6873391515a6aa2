/* primalloc.h - the public interface of primalloc, a memory allocator for Linux.
 *
 * libprimalloc.so and libprimalloc.a also define malloc, free and their family, so that a program
 * that is linked with them, or preloads the former, needs nothing from this header.
 * libprimalloc_prefixed.a defines only what stands here, for programs that keep their libc's
 * malloc beside it.
 *
 * docs/reference is made of these comments. What a section says under Sizes, Alignment and Threads
 * is true of all its functions that do not say otherwise; what can go wrong stands at each. No
 * function may be called from a signal handler; all may be before main and in the child of a fork.
 * src/api/exports.def tells where each comes from. */
#ifndef PRIMALLOC_H
#define PRIMALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
/* Some structs have a function of their name, as glibc's mallinfo. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#define PRIM_VERSION_STRING "0.1.0"

/* == The library ==
 * Threads: any, at any time. */

/* The version of the library in use, like "0.1.0".
 * Errors: none. */
const char *prim_version(void);

/* Sets the library up now rather than at the first call. Harmless to repeat.
 * Errors: none. */
void prim_init(void);

/* == malloc and its family ==
 * What malloc, calloc, realloc and free do, under names that no other library has.
 *
 * Blocks of glibc's own malloc go to glibc in a dynamic program, as far as they are recognised
 * (docs/compatibility.md). Any other pointer is not ours: what becomes of it stands at each
 * function, but under the options check and hardened it may end the program.
 * Sizes: bytes, up to PTRDIFF_MAX. The block has at least so many; prim_malloc_usable_size tells
 *     how many.
 * Alignment: 8 for at most 8 bytes, 16 for more; with the option min_align=16 always 16.
 * Threads: any, at any time; a block may be freed by another thread than the one that got it. */

/* A block, whose contents are not defined. A size of 0 gives a unique block.
 * Errors: NULL with ENOMEM. */
void *prim_malloc(size_t size);

/* A block of count * size bytes, all zero.
 * Errors: NULL with ENOMEM, also if count * size overflows. */
void *prim_calloc(size_t count, size_t size);

/* Gives the block another size, elsewhere if need be; keeps the contents up to the smaller size. A
 * NULL block is malloc; size 0 frees the block and returns NULL, as glibc does.
 * Alignment: as prim_malloc's; but a block that was asked for at an offset
 *     (prim_malloc_aligned_at) may stay where it is.
 * Errors: NULL with ENOMEM, also for a pointer that is not ours; the old block is as it was. */
void *prim_realloc(void *block, size_t size);

/* prim_realloc to count * size bytes.
 * Errors: as prim_realloc; NULL with ENOMEM if count * size overflows. */
void *prim_reallocarray(void *block, size_t count, size_t size);

/* Frees a block. NULL is ignored, and so is a pointer that is not ours, which is counted.
 * Errors: none; errno stays as it was. */
void prim_free(void *block);

/* prim_free, told the size and the alignment that were asked for.
 * Errors: none; errno stays as it was. */
void prim_free_sized(void *block, size_t size);
void prim_free_aligned_sized(void *block, size_t alignment, size_t size);

/* A block aligned as wanted, to any power of two up to 64 GiB. The size need not be its multiple.
 * Alignment: as asked for.
 * Errors: NULL with ENOMEM, or with EINVAL for an alignment that is no power of two. */
void *prim_aligned_alloc(size_t alignment, size_t size);

/* The same, with the block in *result, which is set on success only. Returns 0 then.
 * Alignment: as asked for.
 * Errors: returns ENOMEM, or EINVAL if alignment is no power of two times sizeof(void *); errno
 *     stays as it was. */
int prim_posix_memalign(void **result, size_t alignment, size_t size);

/* The same, with an alignment that is no power of two rounded up to one.
 * Alignment: as asked for.
 * Errors: NULL with ENOMEM, or with EINVAL for an alignment beyond all powers of two. */
void *prim_memalign(size_t alignment, size_t size);

/* Blocks that begin at a page; prim_pvalloc also rounds the size up to whole pages.
 * Alignment: the system's page size.
 * Errors: NULL with ENOMEM. */
void *prim_valloc(size_t size);
void *prim_pvalloc(size_t size);

/* == glibc's extensions ==
 * Threads: any, at any time. */

/* The bytes that may be used from the block's beginning on: at least the size asked for, and the
 * same until the block is resized.
 * Errors: 0 for NULL and for a pointer that is neither ours nor a block of glibc's malloc. */
size_t prim_malloc_usable_size(void *block);

/* Gives free memory but pad bytes back to the system; 1 if any went, else 0.
 * Errors: none. */
int prim_malloc_trim(size_t pad);

/* Sets one of glibc's parameters; docs/options.md lists them. 1 if there is such a parameter.
 * Errors: returns 0 for a parameter that is not glibc's, and for M_MXFAST above 160. */
int prim_mallopt(int parameter, int value);

/* What mallinfo(3) tells, field for field; an int that is too small wraps around. */
struct prim_mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* The same with fields that are large enough. */
struct prim_mallinfo2 {
    size_t arena;    /* address space of the heap, in bytes */
    size_t ordblks;  /* free blocks in slabs */
    size_t smblks;   /* free blocks in threads' caches */
    size_t hblks;    /* 0 */
    size_t hblkhd;   /* 0 */
    size_t usmblks;  /* 0 */
    size_t fsmblks;  /* bytes in free blocks in threads' caches */
    size_t uordblks; /* bytes in blocks that the program holds */
    size_t fordblks; /* all other bytes of arena */
    size_t keepcost; /* bytes in free extents that malloc_trim(0) could return */
};

/* Where the memory is, in glibc's terms; prim_stats_get tells more.
 * Errors: all zero in a signal handler that interrupted us. */
struct prim_mallinfo prim_mallinfo(void);
struct prim_mallinfo2 prim_mallinfo2(void);

/* Writes an XML document to the stream, and returns 0.
 * Errors: -1 with EINVAL if form is not 0, ENOMEM, or EAGAIN in a signal handler that interrupted
 *     us. */
int prim_malloc_info(int form, FILE *stream);

/* Prints a summary on standard error.
 * Errors: none. */
void prim_malloc_stats(void);

/* == Options ==
 * docs/options.md lists them: the environment sets each before the program starts, and those
 * that it says can change are set here while threads run.
 * Threads: any, at any time. The calling thread sees a change at once, others at their next slow
 *     call. */

#define PRIM_OPTION_AUTO UINT64_MAX /* the value of an AUTO_SIZE left to the library */

/* What values an option may have. */
enum prim_option_type {
    PRIM_OPTION_BOOL,      /* 0 or 1 */
    PRIM_OPTION_SIZE,      /* a number; of bytes if the unit says so */
    PRIM_OPTION_AUTO_SIZE, /* the same, or PRIM_OPTION_AUTO */
    PRIM_OPTION_TIME_MS,   /* milliseconds */
    PRIM_OPTION_CHOICE,    /* an index into the words of the unit, which bars separate */
    PRIM_OPTION_TEXT       /* has no number */
};

/* Who set an option. */
enum prim_option_source {
    PRIM_OPTION_FROM_DEFAULT,
    PRIM_OPTION_FROM_GLIBC_VARIABLE, /* MALLOC_... */
    PRIM_OPTION_FROM_GLIBC_TUNABLES,
    PRIM_OPTION_FROM_LIST,     /* PRIMALLOC_OPTIONS */
    PRIM_OPTION_FROM_VARIABLE, /* PRIMALLOC_NAME */
    PRIM_OPTION_FROM_MALLOPT,
    PRIM_OPTION_FROM_PROGRAM /* prim_option_set */
};

/* An option as it is now. */
struct prim_option {
    const char *name;
    const char *unit;
    const char *sentence; /* what it does */
    enum prim_option_type type;
    enum prim_option_source source;
    int can_change; /* not 0: prim_option_set may set it */
    uint64_t value, initial, minimum, maximum;
    const char *text; /* the value of a TEXT, or NULL */
};

/* Is shown one option after the other; must not keep the pointer. */
typedef void prim_option_visit(const struct prim_option *option, void *context);

/* The value of an option as a number, and changing it. Return 0 on success.
 * Errors: -1 with ENOENT (no such option), EINVAL (no such value, or an option that is a text)
 *     or, when setting, EPERM (this option is only read at start, or confined stays). */
int prim_option_get(const char *name, uint64_t *value);
int prim_option_set(const char *name, uint64_t value);

/* The value as a person writes it: "64 MiB", "auto", "not set". What does not fit into size
 * bytes, the closing zero included, is cut off. Setting takes what the environment takes: "64M",
 * "on".
 * Errors: -1 with ENOENT, EINVAL or EPERM, as above. */
int prim_option_get_text(const char *name, char *text, size_t size);
int prim_option_set_text(const char *name, const char *text);

/* Calls visit, if it is not NULL, for each option in the order of the table; returns their number.
 * The texts live as long as the process.
 * Errors: none. */
size_t prim_option_list(prim_option_visit *visit, void *context);

/* == Messages ==
 * Threads: any, but before other threads print or fail. */

/* Takes a piece of text, which does not end in a zero. An exception of C++ out of it would end the
 * program. */
typedef void prim_output(const char *text, size_t length, void *context);

/* Says where statistics are printed instead of standard error; NULL: there again.
 * Errors: none. */
void prim_output_set(prim_output *output, void *context);

/* Hears of an error: ENOMEM when memory ran out or a heap is full, EINVAL for a pointer that is not
 * ours, with one line of text. It may allocate; what fails in it is not told. */
typedef void prim_error(int error, const char *message, void *context);

/* Says who hears of errors instead of standard error (option show_errors); NULL: nobody.
 * Errors: none. */
void prim_error_set(prim_error *error, void *context);

/* == Deferred free ==
 * A program can free large structures lazily: it keeps what is to be freed in a list of its own and
 * frees a portion of it whenever it is called.
 * Threads: any. */

/* Is called by allocating threads: when a thread's own blocks of a size are used up, and for large
 * blocks; and with force when memory runs out. heartbeat counts the calls in the process. It frees
 * as much as it likes, with force all it can, and returns whether it freed anything: forced, the
 * allocation is tried again as long as it does. No lock of ours is held, but the program's and
 * libc's may be: it should take none that is held around malloc. It may allocate; it is not called
 * again inside itself, nor by a thread at its end. Several threads may be inside at a time. */
typedef bool prim_deferred_free(bool force, uint64_t heartbeat, void *context);

/* Says who frees; NULL: nobody. Calls under way in other threads may still end later.
 * Errors: none. */
void prim_deferred_free_set(prim_deferred_free *function, void *context);

/* == Hooks ==
 * The program sees the calls of malloc's family, or serves them itself. While no hooks are set they
 * cost nothing; while some are, each call takes the slow path.
 * Threads: any, at any time. */

/* What the program asks for, or says of the block that it frees. */
struct prim_hook_call {
    size_t size;        /* of the new block; 0 where one is freed */
    size_t alignment;   /* asked for or stated; 0: none */
    size_t stated_size; /* by who frees with a size; else SIZE_MAX */
    const void *caller; /* where the program's call returns to */
};

/* A function that is NULL leaves its calls to the allocator. on_allocate and on_reallocate give NULL with
 * errno ENOMEM when memory is out; on_reallocate gets NULL for a new block, and frees and gives NULL
 * at size 0; on_release gets NULL, too, as free does; what calloc asked for is cleared behind
 * on_allocate. Whoever hands out memory of his own fills in all four, and meets blocks of the
 * allocator's among his own.
 *
 * What a hook itself allocates and frees goes to the allocator: so a hook that only looks calls the
 * function that it was called for. It may be in several threads at a time, and must return. */
struct prim_hooks {
    void *(*on_allocate)(const struct prim_hook_call *call, void *context);
    void *(*on_reallocate)(void *block, const struct prim_hook_call *call, void *context);
    void (*on_release)(void *block, const struct prim_hook_call *call, void *context);
    size_t (*on_usable_size)(const void *block, void *context);
    void *context;
};

/* Sets hooks, of which it keeps a copy for good, or none (NULL). The calling thread's next call
 * goes there, another's as soon as a list of its free blocks is used up or full. Returns what was
 * in force before, or NULL: hooks that go on to those call its functions, with its context; set
 * again, they are in force again. Calls under way in other threads may still end in hooks that were
 * taken away.
 * Errors: ENOMEM in errno, which is left alone else: there is no memory for the copy. Nothing
 *   changes then. */
const struct prim_hooks *prim_hooks_set(const struct prim_hooks *hooks);

/* == Statistics ==
 * Where the memory is. Taken without stopping any thread; costs malloc and free nothing. Exact
 * while no thread is inside the library; else each figure was true of late. What the other threads
 * of a process held in their caches when it forked counts as live in the child. docs/statistics.md
 * says more, what a call takes included.
 * Threads: any, at any time. */

/* All of the process. live_bytes to clean_bytes, heap_bytes and heap_free_bytes add up to
 * mapped_bytes. New figures come at the end. */
struct prim_stats {
    uint64_t live_bytes;      /* blocks that the program holds, rounded up to classes */
    uint64_t large_bytes;     /* larger blocks that it holds, rounded up to 16 KiB */
    uint64_t cached_bytes;    /* free blocks in threads' caches */
    uint64_t partial_bytes;   /* free blocks of slabs in use */
    uint64_t uncarved_bytes;  /* in slabs, not cut into blocks yet or too little for one */
    uint64_t asleep_bytes;    /* pages of slabs in use that went back */
    uint64_t dirty_bytes;     /* free extents that may be resident */
    uint64_t clean_bytes;     /* free extents that are not resident */
    uint64_t mapped_bytes;    /* address space of the heap: the sum of the above */
    uint64_t untouched_bytes; /* of uncarved_bytes and heap_free_bytes, never touched yet */
    uint64_t metadata_bytes, metadata_resident_bytes; /* of our own structures; resident */
    uint64_t resident_bytes;  /* mapped less clean, asleep and untouched, with resident metadata */
    uint64_t held_peak_bytes; /* most that held_bytes ever was */
    uint64_t huge_bytes,
        huge_unused_bytes; /* where huge pages were asked for; of clean_bytes, resident in such */
    uint64_t pool_bytes;   /* huge pages of the system's pool */
    uint64_t live_blocks, large_blocks, cached_blocks,
        partial_blocks;              /* the blocks that these bytes are; free ones asleep or not */
    uint64_t slabs, threads;         /* slabs; threads that have a cache */
    uint64_t slow_events;            /* times a thread's bin was empty or full */
    uint64_t foreign_pointers;       /* pointers given to free or realloc that are not ours */
    uint64_t map_calls, unmap_calls; /* system calls that map memory, and unmap it */
    uint64_t purge_calls,
        purged_bytes; /* system calls that give pages back; address space whose pages went */
    uint64_t move_calls,
        moved_bytes; /* system calls that move pages; address space whose pages were moved */
    uint64_t allocations, frees, reallocations, requested_bytes; /* calls; what was asked for */
    uint64_t elapsed_ms, user_ms, system_ms; /* since the process started; processor time */
    uint64_t minor_faults, major_faults;     /* page faults; those that read a disk */
    uint64_t rss_bytes, rss_peak_bytes,
        virtual_bytes;                    /* all of the process: resident, at most; address space */
    uint64_t heap_bytes, heap_free_bytes; /* blocks of heaps and tags; the rest of their areas */
    uint64_t held_bytes;                  /* in use, dirty or metadata: what limits count */
    uint64_t lent_bytes;                  /* blocks in memory lent to heaps, not in mapped_bytes */
    uint64_t heap_blocks, heaps;          /* blocks of these heaps and tags; how many there are */
    uint64_t slabs_peak, threads_peak;    /* most at a time, slabs by class */
    uint64_t spans,
        spans_peak; /* extents in use: slabs, large blocks, areas of heaps; most at a time */
    uint64_t slabs_made, threads_seen, spans_taken;              /* that ever were */
    uint64_t searches;                                           /* looks for a free extent */
    uint64_t heap_allocations, heap_frees, heap_requested_bytes; /* calls, of heaps and tags */
    uint64_t double_frees;       /* blocks that came back to their slab twice; docs/checks.md */
    uint64_t needed_again_bytes; /* in use again within a second, at most */
};

/* Of one size class; the last is that of the large blocks, with block_bytes 0. */
struct prim_class_stats {
    uint64_t block_bytes;                   /* size of a block */
    uint64_t live_blocks, live_bytes;       /* blocks that the program holds */
    uint64_t cached_blocks, cached_bytes;   /* free blocks in threads' caches */
    uint64_t partial_blocks, partial_bytes; /* free blocks of slabs in use; but for pages asleep */
    uint64_t uncarved_bytes, asleep_bytes;  /* as above, of its slabs */
    uint64_t slabs;                         /* slabs of the class */
    uint64_t allocations, frees, requested_bytes; /* calls; bytes that they asked for */
    uint64_t peak_bytes, slabs_made; /* most that its slabs took at a time; that ever were */
    uint64_t peak_blocks;            /* most that live_blocks ever was */
};

/* Fills the first size bytes of *stats, zeros where this library knows no figure; size is that of
 * the caller's struct. Returns the size of the library's own.
 * Errors: 0 in a signal handler that interrupted us. */
size_t prim_stats_get(struct prim_stats *stats, size_t size);

/* The same for the first count classes, each of size bytes. Returns how many classes there are.
 * Errors: 0 without memory, and in a signal handler that interrupted us. */
size_t prim_stats_classes(struct prim_class_stats *classes, size_t count, size_t size);

/* Prints them for a person: by class and in all. With stats=full a verdict says for each class and
 * for all whether what was allocated is freed: "ok" or "not all freed".
 * Errors: none. */
void prim_stats_print(void);

/* How they are written: for a person, as JSON, as malloc_info's XML, as OpenMetrics. */
enum prim_stats_form { PRIM_STATS_TEXT, PRIM_STATS_JSON, PRIM_STATS_XML, PRIM_STATS_OPENMETRICS };

/* Writes them in the form of choice: calls output with pieces of whole lines. Returns 0.
 * Errors: -1 with EINVAL (no such form), ENOMEM, or EAGAIN in a signal handler that interrupted us. */
int prim_stats_write(enum prim_stats_form form, prim_output *output, void *context);

/* == Heap profiles ==
 * Which stacks the memory in use came from, estimated from samples at a price that one can always
 * pay, or exactly (rate=1). Heaps of one's own are not in them: they count for themselves.
 * docs/profiling.md tells how to read them; the environment variable PRIMALLOC_PROFILE starts one
 * with the process.
 * Threads: any, at any time. */

/* Starts one. settings: "PATH,rate=BYTES,budget=PERCENT,bytes=BYTES,seconds=N,signal=NAME,peak", of
 * which everything may be left out; what is before the first comma is the path: with an empty one, as
 * in "" and ",rate=64K", only prim_profile_dump writes files. Starting again forgets what was known.
 * Returns 0.
 * Errors: -1 with EINVAL (a setting that is none), ENOMEM, or EAGAIN in a signal handler that
 *   interrupted us. */
int prim_profile_start(const char *settings);

/* Takes no more samples. What is known can still be written: of samples what is in use then, of an
 * exact profile (rate=1) what was in use when it stopped, as nobody sees frees any more. In a signal
 * handler that interrupted us nothing is done.
 * Errors: none. */
void prim_profile_stop(void);

/* Writes what is known now to this file, or with NULL to PATH with the next number. Returns 0.
 * Errors: -1 with EIO: the file could not be written, there was no profile or no path, or a signal
 *     handler asked that interrupted the allocator. */
int prim_profile_dump(const char *path);

/* == Leaks ==
 * Blocks that nothing points to, if PRIMALLOC_LEAK_CHECK was set at the start: docs/leaks.md.
 * Threads: any, at any time. */

/* Looks now and prints what it finds. Returns how many blocks leaked so far.
 * Errors: -1 with ENOTSUP: the check is off, there is no memory or no /proc for it, or a signal
 *     handler asked that interrupted the allocator. */
long prim_leak_check(void);

/* The block, and what only it leads to, is no leak. Nor is what the calling thread allocates
 * between the other two, which may be nested.
 * Errors: none. */
void prim_leak_ignore(const void *block);
void prim_leak_disable(void);
void prim_leak_enable(void);

/* == Heaps of one's own ==
 * Blocks that belong together, that can be counted and limited together, and that can all end at
 * once. After mimalloc's heaps.
 *
 * NULL means the default heap, malloc's, wherever a heap is asked for, unless stated. free,
 * prim_free, realloc and malloc_usable_size take blocks of every heap, from any thread; realloc
 * leaves a block in its heap.
 *
 * An empty heap takes 704 bytes; its first blocks come from up to four pieces of 1 KiB that serve
 * all sizes, later ones from areas of 16 KiB to 1 MiB; of those above 16 KiB each has an area of its
 * own. Memory of freed blocks is for the same heap, until a whole area is free; the newest area for
 * several blocks stays. In a fork's child all heaps are as the forking thread would find them.
 * Sizes: bytes, up to PTRDIFF_MAX. The block has at least so many; prim_malloc_usable_size tells
 *     how many.
 * Alignment: 16, also of small blocks.
 * Threads: any thread may use any heap; each has one lock. */

/* A heap. */
typedef struct prim_heap prim_heap_t;

/* A new heap.
 * Errors: NULL with ENOMEM. */
prim_heap_t *prim_heap_new(void);

/* A heap that lives in the caller's memory, and only there: a static array, mapped or shared
 * memory, huge pages; not a block of this allocator. It uses the whole 16 KiB units in [memory,
 * memory + size), up to 64 GiB, a sixteenth of it for itself, for blocks of up to 256 KiB, or of
 * up to 240 KiB where they are aligned to more than 16, to 4096 at most; at an offset up to 15
 * bytes less. All else is ENOMEM. The memory must stay until the heap is destroyed, or deleted and
 * its last block freed. Of processes that share it only one may use the heap: behind a fork the
 * parent or the child.
 * Errors: NULL with ENOMEM, or with EINVAL if there is no whole unit, or one is in use by a
 *     heap or, as far as that is seen, lies in a block. */
prim_heap_t *prim_heap_new_in(void *memory, size_t size);

/* Takes the heap away, but not its blocks: they belong to the default heap from now on, and their
 * memory goes back as they are freed. Other threads may free them meanwhile. NULL is ignored.
 * Errors: none. */
void prim_heap_delete(prim_heap_t *heap);

/* Takes the heap away with all its blocks, without a look at them: the time does not depend on
 * their number, but on the areas. NULL is ignored.
 * Threads: any, but no other may use the heap or a block of it meanwhile.
 * Errors: none. */
void prim_heap_destroy(prim_heap_t *heap);

/* From now on all blocks of the heap together, sizes rounded up as prim_malloc_usable_size tells,
 * hold at most so many bytes: beyond, NULL with ENOMEM. 0: no limit, as at first. Blocks that exist
 * stay. One that realloc makes greater elsewhere counts twice meanwhile. Ignored for NULL.
 * Errors: none. */
void prim_heap_set_limit(prim_heap_t *heap, size_t bytes);

/* As malloc, calloc, strdup(3), strndup(3).
 * Errors: NULL with ENOMEM, also beyond the heap's limit. */
void *prim_heap_malloc(prim_heap_t *heap, size_t size);
void *prim_heap_calloc(prim_heap_t *heap, size_t count, size_t size);
char *prim_heap_strdup(prim_heap_t *heap, const char *text);
char *prim_heap_strndup(prim_heap_t *heap, const char *text, size_t most);

/* As prim_realloc; the result is a block of this heap, whichever the old one belonged to.
 * Errors: NULL with ENOMEM, also beyond the heap's limit; the old block is as it was. */
void *prim_heap_realloc(prim_heap_t *heap, void *block, size_t size);

/* As prim_aligned_alloc. And so that the address offset bytes into the block is aligned: the
 * block itself may then be aligned to nothing, and stays so where realloc leaves it in its place.
 * Alignment: as asked for; realloc does not keep it.
 * Errors: NULL with ENOMEM, also beyond the heap's limit, or with EINVAL for an alignment that
 *     is no power of two. */
void *prim_heap_aligned_alloc(prim_heap_t *heap, size_t alignment, size_t size);
void *prim_heap_malloc_aligned_at(prim_heap_t *heap, size_t size, size_t alignment, size_t offset);

/* The heap that a block belongs to; NULL if it is the default heap, or not a block of ours.
 * Errors: none. */
prim_heap_t *prim_heap_of(const void *block);

/* Whether the pointer is a block of this heap, which must not be NULL.
 * Errors: none. */
bool prim_heap_contains(const prim_heap_t *heap, const void *block);

/* What a heap holds. */
struct prim_heap_counts {
    size_t bytes;      /* in blocks, sizes rounded up */
    size_t blocks;     /* how many there are */
    size_t peak_bytes; /* the most that bytes ever was */
    size_t area_bytes; /* of its areas, with what it keeps at their beginnings */
    size_t limit;      /* of bytes; 0: none */
};

/* What a heap, not NULL, holds now; exact.
 * Errors: all zero in a signal handler that interrupted us. */
void prim_heap_counts(prim_heap_t *heap, struct prim_heap_counts *result);

/* A name for statistics, of which 47 characters are kept. Ignored if either is NULL.
 * Errors: none. */
void prim_heap_set_name(prim_heap_t *heap, const char *name);

/* Statistics of one heap; prim_stats_write tells of all. */
struct prim_heap_stats {
    uint64_t live_bytes,
        live_blocks;     /* in blocks that the program holds, rounded up; these blocks */
    uint64_t peak_bytes; /* most that live_bytes ever was */
    uint64_t total_bytes, total_blocks; /* in blocks that ever were */
    uint64_t freed_bytes, freed_blocks; /* of these, freed */
    uint64_t area_bytes, free_bytes;    /* memory for blocks; what of it is in no block */
    uint64_t limit_bytes;               /* what live_bytes may be at most; 0: no limit */
};

/* Fills the first size bytes as prim_stats_get does, exactly, of a heap that is not NULL. Prints
 * them for a person, with a verdict: "ok" if all blocks are freed, else "not all freed".
 * Errors: of the first, 0 in a signal handler that interrupted us. */
size_t prim_heap_stats_get(prim_heap_t *heap, struct prim_heap_stats *stats, size_t size);
void prim_heap_stats_print(prim_heap_t *heap);

/* A piece of memory that blocks of a heap lie in, without what the heap keeps at its beginning. */
struct prim_heap_area {
    void *address;
    size_t size;
    size_t blocks; /* in use */
};

/* Are shown one area or block after the other; false ends the visit. An exception of C++ out of one
 * would end the program. */
typedef bool prim_heap_area_visitor(const prim_heap_t *heap, const struct prim_heap_area *area,
                                    void *argument);
typedef bool prim_heap_block_visitor(const prim_heap_t *heap, void *block, size_t size,
                                     void *argument);

/* Shows the visitor each area, or each block in use with its usable size, in no order, until it
 * returns false; the result is what it returned last, or true. The visitor may free the block
 * that it is shown. The heap must not be NULL.
 * Threads: any, but nobody may use the heap meanwhile.
 * Errors: none. */
bool prim_heap_visit_areas(prim_heap_t *heap, prim_heap_area_visitor *visitor, void *argument);
bool prim_heap_visit_blocks(prim_heap_t *heap, prim_heap_block_visitor *visitor, void *argument);

/* == Thread tags ==
 * Memory attributed to a part of the program. While a tag is in force, what the calling thread
 * allocates by malloc and its family, new included, is counted under its name: prim_stats_write
 * tells of each tag what it tells of a heap, and a profile has it as a label. Who frees a block,
 * and under which tag, makes no difference; realloc leaves a block under its tag. Heaps of one's
 * own count for themselves.
 *
 * Each call of such a thread takes one lock of the tag's, as with a heap. A block under a tag
 * belongs to no heap, and is aligned to 16. Under the option hardened, tags count nothing.
 * Threads: any; each has its own tags, which end with it. A fork's child keeps those of the thread
 *     that forked. */

/* Puts a tag in force until the prim_tag_pop that belongs to it. 47 characters of the name are kept;
 * the same name is the same tag, in any thread. NULL or "": no tag, whatever is around.
 * Errors: false with ENOMEM: memory is out, there are 256 tags, or 32 in force in the thread, or a
 *     new one is wanted by a signal handler that interrupted the library. The one before stays in
 *     force then, and this call has its prim_tag_pop all the same. */
bool prim_tag_push(const char *name);

/* Takes the last tag back; the one before it is in force again. Nothing if there is none.
 * Errors: none. */
void prim_tag_pop(void);

/* The name of the tag in force; NULL if there is none. It stays for ever.
 * Errors: none. */
const char *prim_tag_current(void);

/* == More than malloc has ==
 * Sizes: bytes, up to PTRDIFF_MAX.
 * Alignment: as malloc's.
 * Threads: any, at any time. */

/* malloc and calloc with the address offset bytes into the block aligned; see
 * prim_heap_malloc_aligned_at.
 * Alignment: as asked for, at the offset; realloc does not keep it.
 * Errors: NULL with ENOMEM, or with EINVAL for an alignment that is no power of two. */
void *prim_malloc_aligned_at(size_t size, size_t alignment, size_t offset);
void *prim_calloc_aligned_at(size_t count, size_t size, size_t alignment, size_t offset);

/* realloc of a block that had old_size bytes, or of old_count elements; what is added is zero. Like
 * OpenBSD's recallocarray they are told the old size, because nothing else knows which bytes of a
 * block were in use.
 * Errors: as prim_realloc; NULL with ENOMEM if a product overflows. */
void *prim_rezalloc(void *block, size_t old_size, size_t size);
void *prim_recalloc(void *block, size_t old_count, size_t count, size_t size);

/* Makes a block at least size bytes where it is, and returns it. Never shrinks one. Under checks,
 * hooks, profiles and guarded sampling it has the room that it has.
 * Alignment: the block's.
 * Errors: NULL, and the block is as it was; errno, too. */
void *prim_expand(void *block, size_t size);

/* What a request for so many bytes is rounded up to at least: asking for that costs no more. The
 * bytes that one has are those asked for, or what prim_malloc_usable_size tells.
 * Errors: none. */
size_t prim_good_size(size_t size);

/* How many faults all blocks have, if option check is on; 0 for a signal handler that interrupted the
 * allocator.
 * Errors: none. */
size_t prim_check_all(void);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
