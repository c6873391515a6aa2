/* metadata.c - see metadata.h. */
#include "pages/metadata.h"

#include "base/bits.h"
#include "os/lock.h"
#include "os/memory.h"

enum { BLOCK_SIZE = METADATA_BLOCK_SIZE };

struct metadata_block *metadata_newest;

static struct {
    struct lock lock;
    uintptr_t next;        /* (lock: METADATA) first free byte of the current block */
    uintptr_t end;         /* (lock: METADATA) its end; next <= end */
    _Atomic size_t mapped; /* (atomic: counter) */
} metadata;

/* Far below the library, if there is so much: the kernel's choice is just below the heap, which
 * grows downwards and would not be one piece. */
static void *map_block(size_t size) {
    size_t mapped = bits_round_up(size, memory_page_size());
    uintptr_t below = ((uintptr_t)64 << 30) + load_relaxed(&metadata.mapped) + mapped;
    uintptr_t library = (uintptr_t)&metadata;
    void *block = memory_map_near(library > below ? (void *)(library - below) : NULL, mapped);
    if (block) {
        memory_name(block, mapped, "primalloc metadata");
        add_relaxed(&metadata.mapped, mapped);
    }
    return block;
}

static void *bump(size_t size, size_t alignment) {
    uintptr_t start = bits_round_up(metadata.next, alignment);
    if (metadata.next == 0 || start + size > metadata.end) {
        struct metadata_block *block = map_block(BLOCK_SIZE);
        if (!block) {
            return NULL;
        }
        block->before = metadata_newest;
        metadata_newest = block;
        metadata.end = (uintptr_t)block + BLOCK_SIZE;
        start = bits_round_up((uintptr_t)(block + 1), alignment);
    }
    metadata.next = start + size;
    return (void *)start;
}

void *metadata_allocate(size_t size, size_t alignment) {
    if (size > BLOCK_SIZE / 4) {
        return map_block(size);
    }
    lock_acquire(&metadata.lock, LOCK_METADATA);
    void *result = bump(size, alignment);
    lock_release(&metadata.lock, LOCK_METADATA);
    return result;
}

size_t metadata_mapped_bytes(void) {
    return load_relaxed(&metadata.mapped);
}

size_t metadata_resident(void) {
    lock_acquire(&metadata.lock, LOCK_METADATA);
    struct metadata_block *block = metadata_newest;
    lock_release(&metadata.lock, LOCK_METADATA);
    size_t bytes = 0;
    for (; block; block = block->before) {
        bytes += memory_resident(block, BLOCK_SIZE);
    }
    return bytes;
}

void metadata_fork_prepare(void) {
    lock_acquire_unranked(&metadata.lock);
}

void metadata_fork_parent(void) {
    lock_release_unranked(&metadata.lock);
}

void metadata_fork_child(void) {
    lock_reset(&metadata.lock);
}
