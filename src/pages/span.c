/* span.c - see span.h. */
#include "pages/span.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/memory.h"
#include "pages/metadata.h"

struct span_table *span_table;
uintptr_t span_chunk_count;

_Atomic(struct span_chunk *) span_newest_chunk;

PRIM_COLD unsigned span_class_unmapped(const void *pointer) {
    struct span *slice = span_of_slice((uintptr_t)pointer);
    return slice ? slice->object_class : 0;
}

void span_initialise(void) {
    span_table = memory_reserve(sizeof *span_table);
    span_chunk_count = span_table ? CHUNK_COUNT : 0;
}

bool span_commit_entry(void *entry) {
    size_t page = memory_page_size();
    return memory_commit((void *)bits_round_down((uintptr_t)entry, page), page);
}

bool span_cover(uintptr_t address, size_t size) {
    for (uintptr_t chunk = address >> CHUNK_SHIFT; chunk <= (address + size - 1) >> CHUNK_SHIFT;
         chunk++) {
        if (chunk >= span_chunk_count) {
            return false;
        }
        if (load_relaxed(&span_table->chunks[chunk])) {
            continue;
        }
        if (!address_map_cover(chunk << CHUNK_SHIFT, 1 << CHUNK_SHIFT) ||
            !span_commit_entry(&span_table->chunks[chunk])) {
            return false;
        }
        struct span_chunk *fresh = metadata_allocate(sizeof *fresh, PRIM_CACHE_LINE);
        if (!fresh) {
            return false;
        }
        fresh->number = chunk;
        fresh->next = load_relaxed(&span_newest_chunk);
        store_release(&span_newest_chunk, fresh);         /* order pair: chunk list */
        store_release(&span_table->chunks[chunk], fresh); /* order pair: chunk */
    }
    return true;
}

size_t span_resident_bytes(void) {
    size_t chunk_size = bits_round_up(sizeof(struct span_chunk), memory_page_size());
    size_t bytes = 0;
    struct span_chunk *chunk = load_acquire(&span_newest_chunk); /* order pair: chunk list */
    for (; chunk; chunk = chunk->next) {
        bytes +=
            memory_resident(chunk, chunk_size) +
            address_map_resident_bytes((uintptr_t)chunk->number << CHUNK_SHIFT, 1 << CHUNK_SHIFT);
    }
    return bytes;
}

void span_set_marks(uintptr_t start, uintptr_t end, enum span_mark mark, bool value) {
    for (uintptr_t at = start; at < end; at += (uintptr_t)1 << HUGE_SHIFT) {
        if (value) {
            or_relaxed(span_mark_word(at, mark), span_mark_bit(at));
        } else {
            and_relaxed(span_mark_word(at, mark), ~span_mark_bit(at));
        }
    }
}

void span_forget_inner(uintptr_t start, uintptr_t end) {
    uintptr_t chunk_end = bits_round_up(start + 1, (uintptr_t)1 << CHUNK_SHIFT);
    for (; start < end; start = chunk_end, chunk_end += (uintptr_t)1 << CHUNK_SHIFT) {
        uintptr_t last = bits_min(end, chunk_end) - SLICE_SIZE;
        uintptr_t low =
            bits_round_up((uintptr_t)(span_of_heap_slice(start) + 1), memory_page_size());
        uintptr_t high = bits_round_down((uintptr_t)span_of_heap_slice(last), memory_page_size());
        if (low < high) {
            memory_purge((void *)low, high - low);
        }
    }
}

void span_touch(uintptr_t start, uintptr_t end) {
    for (; start < end; start += memory_page_size() / sizeof(union span_slot) * SLICE_SIZE) {
        span_of_heap_slice(start)->object_class = 0;
    }
}

struct span *span_create(uintptr_t address, size_t slice_count, enum span_state state) {
    struct span *head = span_of_heap_slice(address);
    head->address = address;
    head->slice_count = (uint32_t)slice_count;
    head->head_offset = 0;
    span_set_state(head, state);
    struct span *last = span_of_heap_slice(address + (slice_count - 1) * SLICE_SIZE);
    last->head_offset = (uint32_t)(slice_count - 1);
    return head;
}

void span_publish(struct span *span, enum span_state state, unsigned object_class) {
    PRIM_ASSERT(span_state(span) == SPAN_BUSY && span->object_class == 0);
    size_t announced = state == SPAN_SLAB ? span->slice_count : 1;
    span_set_state(span, state);
    for (size_t i = 0; i < announced; i++) {
        uintptr_t address = span->address + i * SLICE_SIZE;
        struct span *slice = span_of_heap_slice(address);
        if (i && i + 1 < announced) { /* head and last have theirs, and neighbours read it */
            slice->head_offset = (uint32_t)i;
        }
        slice->object_class = (uint8_t)object_class;
        address_map_set(address, object_class);
    }
}

void span_withdraw(struct span *span) {
    size_t announced = span_state(span) == SPAN_SLAB ? span->slice_count : 1;
    for (size_t i = 0; i < announced; i++) {
        uintptr_t address = span->address + i * SLICE_SIZE;
        span_of_heap_slice(address)->object_class = 0;
        address_map_set(address, 0);
    }
    span_set_state(span, SPAN_BUSY);
}
