/* lock.c - the contended half of lock.h. */
#include "os/lock.h"

#include <errno.h>

#include "os/futex.h"
#include "os/kernel.h"

/* Critical sections are a few dozen instructions, so a holder that runs is done within this many
 * pauses; a holder that was preempted is not, and its waiters give the processor away. */
enum { LOCK_SPIN_COUNT = 60 };

static void pause_processor(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

void futex_call(_Atomic uint32_t *word, int operation, uint32_t value,
                const struct timespec *time) {
    int saved_errno = errno;
    kernel_call(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, time, NULL, 0);
    errno = saved_errno;
}

PRIM_NOINLINE void lock_wait(struct lock *lock) {
    for (int spin = 0; spin < LOCK_SPIN_COUNT; spin++) {
        uint32_t expected = 0;
        if (load_relaxed(&lock->word) == 0 &&
            compare_exchange_acquire(&lock->word, &expected, 1)) { /* order pair: lock */
            return;
        }
        pause_processor();
    }
    while (exchange_acquire(&lock->word, 2) != 0) { /* order pair: lock */
        futex_call(&lock->word, FUTEX_WAIT, 2, NULL);
    }
}

PRIM_NOINLINE void lock_wake(struct lock *lock) {
    futex_call(&lock->word, FUTEX_WAKE, 1, NULL);
}

void lock_take(struct lock *lock) {
    lock_take_here(lock);
}

void lock_give(struct lock *lock) {
    lock_give_here(lock);
}

#ifdef PRIM_CHECKED
static PRIM_THREAD_LOCAL uint32_t ranks_held; /* one bit a rank */
static bool (*demanded)(void);                /* (const) once main has begun */

void lock_demand(bool (*may_take)(void)) {
    demanded = may_take;
}

void lock_rank_entered(enum lock_rank rank) {
    PRIM_ASSERT((ranks_held >> rank) == 0);
    PRIM_ASSERT(!demanded || demanded());
    ranks_held |= 1u << rank;
}

void lock_rank_left(enum lock_rank rank) {
    PRIM_ASSERT((ranks_held >> rank) == 1);
    ranks_held &= ~(1u << rank);
}
#endif
