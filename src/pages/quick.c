/* quick.c - see quick.h. */
#include "pages/quick.h"

#include "base/assert.h"
#include "base/bits.h"

struct span *quick_evict(struct quick_lists *lists) {
    PRIM_ASSERT(lists->occupied);
    uint64_t rest = lists->occupied >> lists->hand << lists->hand;
    lists->hand = bits_lowest(rest ? rest : lists->occupied);
    struct span *span = quick_pop(lists, lists->hand);
    lists->hand = (lists->hand + 1) & QUICK_MAX;
    return span;
}
