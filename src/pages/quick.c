/* quick.c - see quick.h. */
#include "pages/quick.h"

#include "base/assert.h"
#include "base/bits.h"

PRIM_INLINE size_t list_of(size_t slice_count) {
    return slice_count <= QUICK_MAX ? slice_count : 0;
}

void quick_insert(struct quick_lists *lists, struct span *span) {
    size_t list = list_of(span->slice_count);
    span->next = lists->newest[list];
    lists->newest[list] = span;
    lists->occupied |= (uint64_t)1 << list;
    lists->slice_count += span->slice_count;
    lists->span_count++;
}

/* The newest of a list that is not empty. */
static struct span *pop(struct quick_lists *lists, size_t list) {
    struct span *span = lists->newest[list];
    lists->newest[list] = span->next;
    if (!span->next) {
        lists->occupied &= ~((uint64_t)1 << list);
    }
    lists->slice_count -= span->slice_count;
    lists->span_count--;
    return span;
}

struct span *quick_take(struct quick_lists *lists, size_t slice_count, size_t alignment) {
    size_t list = list_of(slice_count);
    struct span *span = lists->newest[list];
    if (!span || span->slice_count != slice_count || span->address & (alignment - 1)) {
        return NULL;
    }
    return pop(lists, list);
}

struct span *quick_evict(struct quick_lists *lists) {
    PRIM_ASSERT(lists->occupied);
    uint64_t rest = lists->occupied >> lists->hand << lists->hand;
    lists->hand = bits_lowest(rest ? rest : lists->occupied);
    struct span *span = pop(lists, lists->hand);
    lists->hand = (lists->hand + 1) & QUICK_MAX;
    return span;
}
