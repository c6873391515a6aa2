/* atomics.h - atomic operations whose order stands in the name; there is no default order.
 *
 * An acquire and the release it pairs with carry the same tag in a comment at both places. */
#ifndef PRIM_BASE_ATOMICS_H
#define PRIM_BASE_ATOMICS_H

#include <stdatomic.h>

#include "base/compiler.h"

#define load_relaxed(target) atomic_load_explicit((target), memory_order_relaxed)
#define load_acquire(target) atomic_load_explicit((target), memory_order_acquire)
#define store_relaxed(target, value) atomic_store_explicit((target), (value), memory_order_relaxed)
#define store_release(target, value) atomic_store_explicit((target), (value), memory_order_release)
#define add_relaxed(target, value) \
    atomic_fetch_add_explicit((target), (value), memory_order_relaxed)
#define add_release(target, value) \
    atomic_fetch_add_explicit((target), (value), memory_order_release)
#define subtract_relaxed(target, value) \
    atomic_fetch_sub_explicit((target), (value), memory_order_relaxed)
#define or_relaxed(target, value) atomic_fetch_or_explicit((target), (value), memory_order_relaxed)
#define and_relaxed(target, value) \
    atomic_fetch_and_explicit((target), (value), memory_order_relaxed)
/* Of four bytes at least: for less riscv64's GCC calls libatomic. */
#define exchange_acquire(target, value) \
    atomic_exchange_explicit((target), (value), memory_order_acquire)
#define exchange_release(target, value) \
    atomic_exchange_explicit((target), (value), memory_order_release)
#define exchange_both(target, value) \
    atomic_exchange_explicit((target), (value), memory_order_acq_rel)
#define compare_exchange_acquire(target, expected, value)                                        \
    atomic_compare_exchange_strong_explicit((target), (expected), (value), memory_order_acquire, \
                                            memory_order_relaxed)
#define compare_exchange_release(target, expected, value)                                        \
    atomic_compare_exchange_strong_explicit((target), (expected), (value), memory_order_release, \
                                            memory_order_relaxed)
#define compare_exchange_relaxed(target, expected, value)                                        \
    atomic_compare_exchange_strong_explicit((target), (expected), (value), memory_order_relaxed, \
                                            memory_order_relaxed)

/* For a signal handler of the same thread, what stands before this is before what stands behind. */
#define order_for_handlers() atomic_signal_fence(memory_order_seq_cst)

#endif
