/* libc_heap.c - see libc_heap.h. */
#include "os/libc_heap.h"

#if defined __GLIBC__

#include <dlfcn.h>
#include <elf.h>
#include <sys/auxv.h>

#include "base/atomics.h"
#include "base/bits.h"
#include "os/confined.h"
#include "os/memory.h"
#include "os/readable.h"

enum {
    PREV_INUSE = 1,
    IS_MMAPPED = 2,
    NON_MAIN_ARENA = 4,
    FLAGS = 7,
    UNIT = 16, /* alignment of blocks, size of a header */
    CHUNK_MIN = 32,
    HEAP_MAX = 64 << 20, /* of an arena: aligned to its size */
};

#pragma weak dlsym /* absent from static programs, which have no other heap */
extern void *__curbrk __attribute__((weak)); /* where libc thinks that its heap ends */

typedef void release_function(void *block);
typedef void *reallocate_function(void *block, size_t size);

/* Asked for when the first such block is met: our own names come before libc's. */
static _Atomic(release_function *) libc_release;       /* (atomic: hint) */
static _Atomic(reallocate_function *) libc_reallocate; /* (atomic: hint) */

/* What stands before a block; the first word belongs to the block before, if that is in use. */
struct chunk {
    size_t before;
    size_t head;
};

/* What an arena's heaps begin with. */
struct heap {
    const char *arena; /* lies behind the first heap's header */
    const struct heap *previous;
    size_t size;
};

static PRIM_READS_STRANGERS size_t size_of(const struct chunk *chunk) {
    return chunk->head & ~(size_t)FLAGS;
}

/* The heap of brk begins somewhere behind the program; but anywhere below it, with nothing else
 * there, where the loader was told to start the program, for the kernel knew of the loader only. */
static uintptr_t program_end(void) {
    const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
    uintptr_t base = 0;
    uintptr_t end = 0;
    for (unsigned long i = 0, count = header ? getauxval(AT_PHNUM) : 0; i < count; i++) {
        if (header[i].p_type == PT_PHDR) {
            base = (uintptr_t)header - header[i].p_vaddr;
        } else if (header[i].p_type == PT_LOAD) {
            end = bits_max(end, header[i].p_vaddr + header[i].p_memsz);
        }
    }
    return end ? base + end : UINTPTR_MAX;
}

/* Whether a chunk in use can be here, with another one behind it, before the heap ends. */
static PRIM_READS_STRANGERS bool is_in_use(const struct chunk *chunk, uintptr_t heap_end) {
    size_t size = size_of(chunk);
    uintptr_t room = heap_end - (uintptr_t)chunk;
    if (size < CHUNK_MIN || room < UNIT || size > room - UNIT) {
        return false;
    }
    const struct chunk *next = (const struct chunk *)((uintptr_t)chunk + size);
    return readable_page((uintptr_t)&next->head) && next->head & PREV_INUSE;
}

static PRIM_READS_STRANGERS bool is_in_arena(const struct chunk *chunk) {
    const struct heap *heap = (const struct heap *)((uintptr_t)chunk & ~(uintptr_t)(HEAP_MAX - 1));
    if (!readable_page((uintptr_t)heap)) {
        return false;
    }
    uintptr_t arena = (uintptr_t)heap->arena;
    const struct heap *first = (const struct heap *)(arena & ~(uintptr_t)(HEAP_MAX - 1));
    bool is_heap = heap->size <= HEAP_MAX && (uintptr_t)chunk - (uintptr_t)heap < heap->size;
    return is_heap && arena - (uintptr_t)first < (uintptr_t)memory_page_size() &&
           readable_page((uintptr_t)first) && (uintptr_t)first->arena == arena &&
           is_in_use(chunk, (uintptr_t)heap + heap->size);
}

/* The mapping begins and ends with pages; an aligned block may begin behind its first one. */
static PRIM_READS_STRANGERS bool is_mapping(const struct chunk *chunk) {
    size_t page = memory_page_size();
    size_t total = chunk->before + size_of(chunk);
    size_t offset = ((uintptr_t)chunk + UNIT) & (page - 1);
    return (chunk->head & FLAGS) == IS_MMAPPED && total > chunk->before && total % page == 0 &&
           (uintptr_t)chunk > chunk->before && ((uintptr_t)chunk - chunk->before) % page == 0 &&
           (offset & (offset - 1)) == 0;
}

static PRIM_READS_STRANGERS bool is_block(uintptr_t address) {
    uintptr_t brk_end = (uintptr_t)__curbrk;
    uintptr_t end = program_end();
    bool is_by_brk = address < brk_end && (address > end || brk_end < end);
    if (!readable_page(address - UNIT)) {
        return false;
    }
    const struct chunk *chunk = (const struct chunk *)(address - UNIT);
    if (chunk->head & IS_MMAPPED) {
        return is_mapping(chunk);
    }
    return chunk->head & NON_MAIN_ARENA ? is_in_arena(chunk)
                                        : is_by_brk && is_in_use(chunk, brk_end);
}

static bool knows_libc(void) {
    if (!load_relaxed(&libc_release) || !load_relaxed(&libc_reallocate)) {
        store_relaxed(&libc_reallocate, (reallocate_function *)dlsym(RTLD_NEXT, "__libc_realloc"));
        store_relaxed(&libc_release, (release_function *)dlsym(RTLD_NEXT, "__libc_free"));
    }
    return load_relaxed(&libc_release) && load_relaxed(&libc_reallocate);
}

PRIM_READS_STRANGERS size_t libc_heap_usable_size(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    if (!dlsym || !&__curbrk || address % UNIT || is_confined() || !is_block(address) ||
        !knows_libc()) {
        return 0;
    }
    const struct chunk *chunk = (const struct chunk *)(address - UNIT);
    return size_of(chunk) - (chunk->head & IS_MMAPPED ? sizeof *chunk : sizeof chunk->head);
}

void libc_heap_release(void *block) {
    load_relaxed (&libc_release)(block);
}

void *libc_heap_reallocate(void *block, size_t size) {
    return load_relaxed(&libc_reallocate)(block, size);
}

#else

size_t libc_heap_usable_size(const void *pointer) {
    (void)pointer;
    return 0;
}

void libc_heap_release(void *block) {
    (void)block;
}

void *libc_heap_reallocate(void *block, size_t size) {
    (void)block;
    (void)size;
    return NULL;
}

#endif
