/* watcher.h - who looks at every call of the program's, and may change what it does.
 *
 * Nothing below src/watch knows who watches. A watcher stands in a chain, outermost first by rank;
 * each of its functions does its part and passes on to the next (watcher_pass_allocate and so on);
 * behind the last the plain allocator is. A watcher must fill in all four functions; most pass on
 * what they get.
 *
 * While the chain is not empty, each thread's visible cache is the empty one (thread_cache.h), so
 * the calls of the program come here through front_door.h, with what the program said and where it
 * said it. What the library allocates for itself does not. While it is empty, the price is a test
 * behind the fast path.
 *
 * When a watcher is registered: at start (watchers_begin), while there is one thread, it sees every
 * call from then on. Later, the calling thread's calls are seen at once, those of another thread
 * from its next refill or overflow of a bin on. Therefore
 *   each watcher meets blocks that it never saw allocated: it passes them on as they are;
 *   only one registered at start may give out pointers that the plain allocator does not know, or
 *   such for which the address map sends every free by the slow door.
 * Removing one is possible at any time: calls under way end in it. It must stay in memory.
 *
 * Recursion: a watcher that may call the program's code, or libc's, which may allocate, brackets
 * that with watcher_enter and watcher_leave, and passes straight on where it is inside already. The
 * mark belongs to the thread, goes along into a fork's child, and also holds in a signal handler
 * that interrupts the watcher. */
#ifndef PRIM_OBJECTS_WATCHER_H
#define PRIM_OBJECTS_WATCHER_H

#include "base/atomics.h"

struct arena;

enum call {
    CALL_MALLOC,
    CALL_CALLOC,
    CALL_REALLOC,
    CALL_ALIGNED, /* aligned_alloc, posix_memalign, memalign, valloc, pvalloc */
    CALL_NEW,
    CALL_NEW_ARRAY,
    CALL_FREE,
    CALL_DELETE,
    CALL_DELETE_ARRAY,
    CALL_COUNT
};

#define SIZE_NOT_STATED SIZE_MAX

/* What the program asks for, or says of the block that it frees. */
struct request {
    size_t size;        /* of the new block */
    size_t alignment;   /* asked for or stated; 0: none */
    bool is_zeroed;     /* the new block must be zero */
    size_t stated_size; /* by sized frees; else SIZE_NOT_STATED */
    enum call call;
    const void *caller;  /* where the call returns to */
    struct arena *arena; /* that the new block is to be in; NULL: malloc's choice */
    size_t offset;       /* so many bytes into the block it is aligned; with an arena only */
};

/* What checks keep of freed blocks, and put around others, does not concern a search for leaks. */
enum watcher_rank { RANK_HOOKS, RANK_PROFILE, RANK_CHECKS, RANK_COUNT };

/* Beside a mark for each of them (thread_cache_exchange_mark): the thread is inside the program's
 * function that frees, or the one that hears of errors. */
enum { MARK_DEFERRED_FREE = RANK_COUNT, MARK_COMPLAINT, THREAD_MARK_COUNT };

/* Bytes of a freed block that are wiped, so that a search for leaks meets no old pointers. */
enum { WIPED_MOST = 1 << 20 };

struct watcher {
    /* NULL with errno ENOMEM when memory is out. */
    void *(*allocate)(const struct watcher *self, const struct request *request);
    /* Any pointer; size 0 frees a block and gives NULL. */
    void *(*reallocate)(const struct watcher *self, void *block, const struct request *request);
    /* Any pointer. errno is restored behind it. */
    void (*release)(const struct watcher *self, void *block, const struct request *request);
    size_t (*usable_size)(const struct watcher *self, const void *block);
    enum watcher_rank rank;
    _Atomic(const struct watcher *) next; /* (atomic: watchers, written under WATCHERS) */
};

extern PRIM_HIDDEN _Atomic(const struct watcher *) watcher_first; /* (atomic: watchers) */

PRIM_INLINE bool watcher_is_any(void) {
    return load_relaxed(&watcher_first) != NULL;
}

/* A pointer of somebody's who says no more than by setting it that there is to be a watcher, which
 * the grant then registers; calls of malloc that the fast path does not serve look at it. */
typedef uintptr_t __attribute__((may_alias)) watcher_word;
struct watcher_wish {
    const volatile watcher_word *word; /* (const) */
    void (*grant)(void);               /* (const) */
};
extern PRIM_HIDDEN _Atomic(const struct watcher_wish *) watcher_wish; /* (atomic: wish) */

PRIM_INLINE bool watcher_is_wished(void) {
    return *load_acquire(&watcher_wish)->word != 0; /* order pair: wish */
}

/* Pass a call on to whoever stands behind. These read the link once: another thread may be changing
 * it, and one watcher's function must not get another watcher. */
void *watcher_pass_allocate(const struct watcher *self, const struct request *request);
void *watcher_pass_reallocate(const struct watcher *self, void *block,
                              const struct request *request);
void watcher_pass_release(const struct watcher *self, void *block, const struct request *request);
size_t watcher_pass_usable_size(const struct watcher *self, const void *block);

/* Puts a watcher into the chain, or takes it out; does nothing if that is so already. */
void watcher_register(struct watcher *watcher);
void watcher_unregister(struct watcher *watcher);

/* Keeps others from changing who watches, or is called now and then (deferred_free.h), for a few
 * steps; a signal's handler meets the thread inside. */
void watchers_hold(void);
void watchers_let_go(void);

/* Passes a call of the program to the chain. */
void *watcher_allocate(const struct request *request);
void *watcher_reallocate(void *block, const struct request *request);
void watcher_release(void *block, const struct request *request);
size_t watcher_usable_size(const void *block);

/* Marks the calling thread as being inside the watcher; false if it was so already. */
bool watcher_enter(const struct watcher *self);
void watcher_leave(const struct watcher *self);

/* Registers those that the options ask for, once, as soon as the options are read. Defined at the
 * top of the layers, by a file that knows the observers or by one that knows there are none. */
void watchers_begin(void);

void watcher_fork_prepare(void);
void watcher_fork_parent(void);
void watcher_fork_child(void);

#endif
