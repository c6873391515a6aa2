/* quick.c - see quick.h. */
#include "pages/quick.h"

#include "base/assert.h"
#include "base/bits.h"

enum { TRIED = 32 }; /* of a list, under the page heap's lock */

struct span *quick_take_from(struct quick_lists *lists, size_t list, size_t slice_count,
                             size_t alignment) {
    struct span **link = &lists->newest[list];
    for (unsigned i = 0; i < TRIED && *link; i++) {
        struct span *span = *link;
        if (span->slice_count == slice_count && (span->address & (alignment - 1)) == 0) {
            *link = span->next; /* to the front, from where it is taken */
            span->next = lists->newest[list];
            lists->newest[list] = span;
            return quick_pop(lists, list);
        }
        link = &span->next;
    }
    return NULL;
}

struct span *quick_evict(struct quick_lists *lists) {
    PRIM_ASSERT(lists->occupied);
    uint64_t rest = lists->occupied >> lists->hand << lists->hand;
    lists->hand = bits_lowest(rest ? rest : lists->occupied);
    struct span *span = quick_pop(lists, lists->hand);
    lists->hand = (lists->hand + 1) & QUICK_MAX;
    return span;
}
