/* leak_graph.c - see leak_graph.h. */
#include "watch/leak_graph.h"

#include "base/bits.h"
#include "objects/arena_find.h"
#include "objects/block_bounds.h"
#include "objects/size_class.h"
#include "objects/slow_door.h"
#include "os/memory.h"
#include "os/readable.h"
#include "pages/span.h"

enum { NONE = UINT32_MAX, WORD = sizeof(uintptr_t) };

static size_t graph_bytes(size_t capacity) {
    return (capacity + 1) * sizeof(struct leak_block);
}

static void sift_down(struct leak_block *blocks, size_t root, size_t count) {
    struct leak_block sinking = blocks[root];
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && blocks[child + 1].address > blocks[child].address;
        if (blocks[child].address <= sinking.address) {
            break;
        }
        blocks[root] = blocks[child];
    }
    blocks[root] = sinking;
}

/* Heap sort: in place, without recursion. */
static void sort(struct leak_block *blocks, size_t count) {
    for (size_t i = count / 2; i-- > 0;) {
        sift_down(blocks, i, count);
    }
    while (count > 1) {
        struct leak_block greatest = blocks[0];
        blocks[0] = blocks[--count];
        blocks[count] = greatest;
        sift_down(blocks, 0, count);
    }
}

PRIM_COLD bool leak_graph_make(struct leak_graph *graph, const struct live_table *blocks) {
    *graph = (struct leak_graph){
        .capacity = blocks->count, .pending = NONE, .is_strict = graph->is_strict};
    graph->blocks = memory_map(graph_bytes(graph->capacity));
    for (size_t i = 0; graph->blocks && i < blocks->capacity; i++) {
        const struct live_block *block = &blocks->places[i];
        if (block->address) {
            graph->blocks[graph->count++] = (struct leak_block){.address = block->address,
                                                                .size = block->size,
                                                                .site = block->site,
                                                                .is_ignored = block->is_ignored,
                                                                .next = NONE,
                                                                .holder = NONE};
        }
    }
    if (graph->blocks) {
        sort(graph->blocks, graph->count);
    }
    return graph->blocks != NULL;
}

PRIM_COLD void leak_graph_end(struct leak_graph *graph) {
    memory_unmap(graph->blocks, graph_bytes(graph->capacity));
    live_table_empty(&graph->strangers);
}

/* The block that the address lies in; one byte behind the end of a block without bytes. */
static struct leak_block *block_at(const struct leak_graph *graph, uintptr_t address) {
    size_t low = 0;
    for (size_t length = graph->count; length > 1;) {
        size_t half = length / 2;
        low += graph->blocks[low + half].address <= address ? half : 0;
        length -= half;
    }
    struct leak_block *block = &graph->blocks[low];
    return address - block->address < bits_max(block->size, 1) ? block : NULL;
}

/* A block of the heap that is not recorded, because it is older than the record, or one of a
 * first-class heap: what it holds counts as pointed to. Freed blocks are wiped, so that they hold
 * nothing. */
static void follow_stranger(struct leak_graph *graph, uintptr_t address, enum leak_state state) {
    if (state != LEAK_REACHABLE || !span_class_of((void *)address)) {
        return;
    }
    struct block_bounds place = block_bounds_of((void *)address);
    if (place.size == 0) {
        bool is_in_arena = place.object_class == CLASS_ARENA;
        const void *block = is_in_arena ? arena_block_around((void *)address) : (void *)address;
        place.start = (uintptr_t)block;
        place.size = usable_size(block);
        place.size = address - place.start < place.size ? place.size : 0;
    }
    struct live_block stranger = {
        .address = place.start, .size = place.size, .born = graph->stranger};
    if (place.size && !live_table_find(&graph->strangers, place.start) &&
        live_table_put(&graph->strangers, &stranger)) {
        graph->stranger = place.start;
    }
}

static void reach(struct leak_graph *graph, uintptr_t address, enum leak_state state,
                  uint32_t holder) {
    struct leak_block *block = block_at(graph, address);
    if (!block) {
        follow_stranger(graph, address, state);
        return;
    }
    if (graph->is_strict && address != block->address) {
        block->state = block->state == LEAK_DIRECT ? LEAK_INNER : block->state;
        return;
    }
    if (block->state < state || (state == LEAK_INDIRECT && block->state == LEAK_INNER)) {
        block->state = (uint8_t)state;
        block->holder = holder;
        block->next = graph->pending;
        graph->pending = (uint32_t)(block - graph->blocks);
    }
}

/* Memory of the program's own may have holes: each page is asked for. */
static PRIM_UNWATCHED void scan(struct leak_graph *graph, uintptr_t start, uintptr_t end,
                                enum leak_state state, uint32_t holder) {
    const struct leak_block *last = &graph->blocks[graph->count - 1];
    uintptr_t readable_end = 0;
    for (uintptr_t at = bits_round_up(start, WORD); at + WORD <= end; at += WORD) {
        if (at >= readable_end) {
            readable_end = bits_round_down(at, PAGE_LEAST) + PAGE_LEAST;
            if (!readable_page(at)) {
                at = readable_end - WORD;
                continue;
            }
        }
        uintptr_t word = *(const volatile uintptr_t *)at;
        if (word >= PAGE_LEAST && !(word >> PRIM_ADDRESS_BITS) &&
            (span_class_of((void *)word) ||
             word - graph->blocks[0].address <= last->address + last->size)) {
            reach(graph, word, state, holder);
        }
    }
}

/* A program may fill a block up to its usable size. */
static void scan_pending(struct leak_graph *graph, enum leak_state state) {
    while (graph->pending != NONE || graph->stranger) {
        uintptr_t start = graph->stranger;
        uint32_t holder = NONE;
        size_t size;
        if (start) {
            const struct live_block *stranger = live_table_find(&graph->strangers, start);
            size = stranger->size;
            graph->stranger = stranger->born;
        } else {
            const struct leak_block *block = &graph->blocks[graph->pending];
            start = block->address;
            size = bits_max(block->size, usable_size((void *)start));
            holder = block->holder;
            graph->pending = block->next;
        }
        scan(graph, start, start + size, state, holder);
    }
}

PRIM_COLD void leak_graph_follow(struct leak_graph *graph, uintptr_t start, uintptr_t end,
                                 enum leak_state state) {
    if (graph->count) {
        scan(graph, start, end, state, NONE);
        scan_pending(graph, state);
    }
}

PRIM_COLD void leak_graph_follow_block(struct leak_graph *graph, struct leak_block *block,
                                       enum leak_state state) {
    if (block->state < state) {
        block->state = (uint8_t)state;
        block->next = NONE;
        graph->pending = (uint32_t)(block - graph->blocks);
        scan_pending(graph, state);
    }
}

/* Each block that still counts as direct makes indirect what it leads to. One of a ring comes back
 * to itself in that way, and stays direct. */
PRIM_COLD void leak_graph_divide(struct leak_graph *graph) {
    for (size_t i = 0; i < graph->count; i++) {
        struct leak_block *block = &graph->blocks[i];
        if (block->state == LEAK_DIRECT || (block->state == LEAK_INNER && graph->is_strict)) {
            uint8_t state = block->state;
            block->state = LEAK_DIRECT;
            block->holder = (uint32_t)i;
            leak_graph_follow_block(graph, block, LEAK_INDIRECT); /* which it stays meanwhile */
            block->state = state;
        }
    }
}
