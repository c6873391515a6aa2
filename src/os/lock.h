/* lock.h - a mutex of one word: spins briefly, then sleeps in the kernel.
 *
 * States of the word: 0 free, 1 held, 2 held and somebody may sleep. Order pair "lock": the
 * exchange that ends with the lock held acquires, the exchange that frees it releases. In a process
 * of one thread there is nobody to keep out, and plain stores do (alone.h). */
#ifndef PRIM_OS_LOCK_H
#define PRIM_OS_LOCK_H

#include "base/assert.h"
#include "os/alone.h"

enum lock_rank {
#define LOCK_RANK(name, protects) LOCK_##name,
#include "os/lock_ranks.def"
#undef LOCK_RANK
};

struct lock {
    _Atomic uint32_t word; /* (atomic: lock) */
};

void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

#ifdef PRIM_CHECKED
void lock_rank_entered(enum lock_rank rank);
void lock_rank_left(enum lock_rank rank);
/* From now on locks are taken only by threads of which this is true. */
void lock_demand(bool (*may_take)(void));
#define LOCK_DEMAND(may_take) lock_demand(may_take)
#else
PRIM_INLINE void lock_rank_entered(enum lock_rank rank) {
    (void)rank;
}
PRIM_INLINE void lock_rank_left(enum lock_rank rank) {
    (void)rank;
}
#define LOCK_DEMAND(may_take) ((void)(may_take)) /* only the shared library does */
#endif

PRIM_INLINE void lock_take_here(struct lock *lock) {
    uint32_t expected = 0;
    if (process_is_alone() && load_relaxed(&lock->word) == 0) {
        store_relaxed(&lock->word, 1);
    } else if (!compare_exchange_acquire(&lock->word, &expected, 1)) { /* order pair: lock */
        lock_wait(lock);
    }
}

PRIM_INLINE void lock_give_here(struct lock *lock) {
    if (process_is_alone()) {
        store_relaxed(&lock->word, 0);
    } else if (exchange_release(&lock->word, 0) == 2) { /* order pair: lock */
        lock_wake(lock);
    }
}

/* The same out of line: the two halves together are a hundred bytes. */
void lock_take(struct lock *lock);
void lock_give(struct lock *lock);

#ifdef __OPTIMIZE_SIZE__
enum { LOCK_IS_CALLED = true };
#else
enum { LOCK_IS_CALLED = false };
#endif

/* Without a rank: only for fork, which takes many locks of one rank, in the table's order. */
PRIM_INLINE void lock_acquire_unranked(struct lock *lock) {
    (LOCK_IS_CALLED ? lock_take : lock_take_here)(lock);
}

PRIM_INLINE void lock_release_unranked(struct lock *lock) {
    (LOCK_IS_CALLED ? lock_give : lock_give_here)(lock);
}

PRIM_INLINE void lock_acquire(struct lock *lock, enum lock_rank rank) {
    lock_rank_entered(rank);
    lock_acquire_unranked(lock);
}

/* Never waits, so it needs no rank. */
PRIM_INLINE bool lock_try_acquire_unranked(struct lock *lock) {
    uint32_t expected = 0;
    return compare_exchange_acquire(&lock->word, &expected, 1); /* order pair: lock */
}

/* For a holder that can do the rest of its work another time. */
PRIM_INLINE bool lock_is_wanted(struct lock *lock) {
    return load_relaxed(&lock->word) == 2;
}

PRIM_INLINE void lock_release(struct lock *lock, enum lock_rank rank) {
    lock_rank_left(rank);
    lock_release_unranked(lock);
}

/* In a fork's child, where nobody else is left to hold it. */
PRIM_INLINE void lock_reset(struct lock *lock) {
    store_relaxed(&lock->word, 0);
}

#endif
