/* reserve.c - see reserve.h. */
#include "objects/reserve.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "objects/slow_door.h"
#include "objects/watcher.h"
#include "os/memory.h"

enum { RESERVE_SIZE = 1 << 20, HEADER_SIZE = 16 };

static _Atomic uintptr_t reserve_start; /* (atomic: reserve) 0 until first needed */
static _Atomic uint64_t use; /* (atomic: handed on) how many blocks << 32 | bytes to the end */
_Atomic(void *) reserve_deferred;

static uintptr_t map_once(void) {
    uintptr_t start = load_acquire(&reserve_start); /* order pair: reserve */
    void *fresh = start ? NULL : memory_map(RESERVE_SIZE);
    if (fresh && compare_exchange_release(&reserve_start, &start, /* order pair: reserve */
                                          (uintptr_t)fresh)) {
        return (uintptr_t)fresh;
    }
    if (fresh) {
        memory_unmap(fresh, RESERVE_SIZE);
    }
    return start;
}

PRIM_COLD void *reserve_allocate(size_t size, size_t alignment) {
    uintptr_t start = size <= RESERVE_SIZE && alignment <= RESERVE_SIZE ? map_once() : 0;
    uint64_t before = load_relaxed(&use);
    while (start) {
        uintptr_t block = start + (uint32_t)before + HEADER_SIZE;
        block = bits_round_up(block, bits_max(alignment, HEADER_SIZE));
        size_t usable = bits_round_up(bits_max(size, 1), HEADER_SIZE);
        uint64_t end = block + usable - start;
        if (end > RESERVE_SIZE) {
            break;
        }
        uint64_t after = (((before >> 32) + 1) << 32) | end;
        if (compare_exchange_acquire(&use, &before, after)) { /* order pair: handed on */
            ((size_t *)block)[-1] = usable;
            return (void *)block;
        }
    }
    errno = ENOMEM;
    return NULL;
}

PRIM_COLD size_t reserve_size(const void *block) {
    uintptr_t start = load_acquire(&reserve_start); /* order pair: reserve */
    bool is_inside = start && (uintptr_t)block - start < RESERVE_SIZE;
    return is_inside ? ((const size_t *)block)[-1] : 0;
}

PRIM_COLD void *reserve_move(void *block, size_t size) {
    void *target = allocate_slow(size);
    if (target) {
        memcpy(target, block, bits_min(reserve_size(block), size));
        reserve_release(block);
    }
    return target;
}

PRIM_COLD bool reserve_release(void *block) {
    size_t size = reserve_size(block);
    if (size == 0) {
        return false;
    }
    uint64_t place = (uintptr_t)block - load_acquire(&reserve_start); /* order pair: reserve */
    uint64_t before = load_relaxed(&use);
    uint64_t after;
    do {
        after = before - ((uint64_t)1 << 32);
        if ((uint32_t)before == place + size) { /* the last one */
            after += place - HEADER_SIZE - (uint32_t)before;
        }
        after = after >> 32 ? after : 0;
        /* order pair: handed on */
    } while (!compare_exchange_release(&use, &before, after));
    return true;
}

PRIM_COLD void reserve_defer(void *block) {
    if (!block || reserve_release(block) || watcher_is_any() ||
        usable_size(block) < sizeof(void *)) { /* a guarded one, whose end is looked at */
        return;
    }
    void *first = load_relaxed(&reserve_deferred);
    do {
        *(void **)block = first;
        /* order pair: deferred */
    } while (!compare_exchange_release(&reserve_deferred, &first, block));
}

PRIM_COLD void reserve_drain(void) {
    void *block = exchange_acquire(&reserve_deferred, NULL); /* order pair: deferred */
    while (block) {
        void *next = *(void **)block;
        release_slow(block);
        block = next;
    }
}
