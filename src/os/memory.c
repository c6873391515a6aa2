/* memory.c - see memory.h.
 *
 * All calls go through kernel_call: wrappers of mmap and its family, which other libraries
 * define and that may allocate, would otherwise run under our locks (trap T01). */
#include "os/memory.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "os/kernel.h"

/* Constants that the oldest supported headers lack; the kernel refuses what it does not know. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { VAST_SIZE = 1 << 30 }; /* of a mapping that counts against the system's memory */

enum { HUGE_SHIFT = 21 }; /* huge pages of 2 MiB, not of the system's default size */

size_t memory_page_size(void) {
    static _Atomic size_t page_size; /* (atomic: any thread computes the same value) */
    size_t size = load_relaxed(&page_size);
    if (PRIM_UNLIKELY(size == 0)) {
        size = (size_t)getauxval(AT_PAGESZ);
        if (size == 0) {
            size = PAGE_LEAST;
        }
        store_relaxed(&page_size, size);
    }
    return size;
}

bool memory_is_limited(size_t size) {
    struct rlimit limit;
    int saved_errno = errno;
    bool known = kernel_ask(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) == 0;
    errno = saved_errno;
    return known ? limit.rlim_cur < size : size == SIZE_MAX;
}

struct memory_counts memory_counts;

static void *map_any(void *address, size_t size, int protection, int flags, int file) {
    int saved_errno = errno;
#if defined(__s390x__) /* which has room for five arguments in registers */
    long words[] = {(long)address, (long)size, protection, MAP_PRIVATE | flags, file, 0};
    long result = kernel_call(SYS_mmap, words);
#else
    long result =
        kernel_call(SYS_mmap, address, size, protection, MAP_PRIVATE | flags, file, (off_t)0);
#endif
    errno = saved_errno;
    return result == -1 ? NULL : (void *)result;
}

static void *map_uncounted(void *address, size_t size, int protection, int flags) {
    return map_any(address, size, protection, MAP_ANONYMOUS | flags, -1);
}

/* What is asked for in one piece shall be refused if the system has not as much at all. */
static void *map(void *address, size_t size, int protection, int flags) {
    bool is_vast = size >= VAST_SIZE && protection & PROT_WRITE;
    add_relaxed(&memory_counts.map_calls, 1);
    return map_uncounted(address, size, protection, (is_vast ? 0 : MAP_NORESERVE) | flags);
}

void *memory_map_near(void *address, size_t size) {
    return map(address, size, PROT_READ | PROT_WRITE, 0);
}

void *memory_map(size_t size) {
    return memory_map_near(NULL, size);
}

/* A call about a range that only tells whether it was done; what, as each calls it. */
static PRIM_NOINLINE bool ask(long call, void *address, size_t size, int what) {
    int saved_errno = errno;
    bool done = kernel_call(call, address, size, what) == 0;
    errno = saved_errno;
    return done;
}

static bool advise(void *address, size_t size, int advice) {
    return ask(SYS_madvise, address, size, advice);
}

/* Before 4.19 MAP_FIXED_NOREPLACE looks only at where the range begins, so that it may replace what
 * lies behind; as a hint the address is right there. A kernel that knows MADV_COLD (5.4) is new
 * enough. */
void *memory_map_at(void *address, size_t size) {
    int flags = advise(address, 0, MADV_COLD) ? MAP_FIXED_NOREPLACE : 0;
    void *result = map(address, size, PROT_READ | PROT_WRITE, flags);
    if (result && result != address) {
        memory_unmap(result, size);
        return NULL;
    }
    return result;
}

PRIM_COLD bool memory_is_emulated(void) {
    return advise(NULL, memory_page_size(), -1);
}

void *memory_reserve(size_t size) {
    void *result = map(NULL, size, PROT_READ, 0);
    if (result) {
        advise(result, size, MADV_DONTDUMP);
    }
    return result;
}

bool memory_commit(void *address, size_t size) {
    return ask(SYS_mprotect, address, size, PROT_READ | PROT_WRITE);
}

bool memory_forbid(void *address, size_t size) {
    bool done = ask(SYS_mprotect, address, size, PROT_NONE);
    advise(address, size, MADV_DONTNEED);
    return done;
}

PRIM_COLD bool memory_guard(void *address, size_t size) {
    return !memory_is_emulated() && advise(address, size, MADV_GUARD_INSTALL);
}

bool memory_unguard(void *address, size_t size) {
    return advise(address, size, MADV_GUARD_REMOVE);
}

/* ThreadSanitizer must see that what comes to lie here next is other memory. */
static void unmap(void *address, size_t size) {
#ifdef PRIM_TSAN
    munmap(address, size);
#else
    ask(SYS_munmap, address, size, 0);
#endif
}

void memory_unmap(void *address, size_t size) {
    unmap(address, size);
    add_relaxed(&memory_counts.unmap_calls, 1);
}

/* Whether pages that are given back leave: qemu's user mode before 7.2 says so, and keeps them.
 * What is locked, as all memory may be, is refused each time. */
static PRIM_COLD bool do_pages_leave(void) {
    size_t size = memory_page_size();
    volatile char *page = memory_map(size);
    if (!page) {
        return true;
    }
    *page = 1;
    bool do_leave = !advise((void *)page, size, MADV_DONTNEED) || *page == 0;
    memory_unmap((void *)page, size);
    return do_leave;
}

bool memory_purge(void *address, size_t size) {
    static _Atomic uint32_t answer; /* (atomic: any thread finds the same) 0 unknown, 1 no, 2 yes */
    if (PRIM_UNLIKELY(load_relaxed(&answer) == 0)) {
        store_relaxed(&answer, 1 + do_pages_leave());
    }
    bool done = load_relaxed(&answer) == 2 && advise(address, size, MADV_DONTNEED);
    add_relaxed(&memory_counts.purge_calls, 1);
    add_relaxed(&memory_counts.purged_bytes, done ? size : 0);
    return done;
}

_Atomic bool memory_is_blind;

/* Only the kernel itself says that there is no mapping; any other refusal is a filter's. */
static bool look(void *address, size_t size, unsigned char *pages) {
    errno = 0;
    bool is_known = kernel_ask(SYS_mincore, address, size, pages) == 0;
    if (!is_known && errno != ENOMEM) {
        store_relaxed(&memory_is_blind, true);
    }
    return is_known;
}

size_t memory_samples(void *address, size_t size, size_t step) {
    /* A byte for each of the smallest pages: an emulator of larger ones fills in so many. */
    enum { PART_MAX = 512 * PAGE_LEAST };
    unsigned char pages[PART_MAX / PAGE_LEAST]; /* the stack may be small */
    size_t page_size = memory_page_size();
    bool is_fine = step < MEMORY_STEP_COARSE;
    size_t stride = is_fine ? PART_MAX : step; /* from call to call */
    size_t most = is_fine ? PART_MAX : page_size;
    unsigned page_shift = bits_lowest(page_size); /* a division for each page takes longer */
    size_t resident = 0;
    int saved_errno = errno;
    for (size_t done = 0; done < size; done += stride) {
        size_t part = size - done < most ? size - done : most;
        if (look((char *)address + done, part, pages)) {
            for (size_t i = 0; i < part; i += step) {
                resident += pages[i >> page_shift] & 1;
            }
        }
    }
    errno = saved_errno;
    return resident;
}

size_t memory_resident(void *address, size_t size) {
    return memory_samples(address, size, memory_page_size()) * memory_page_size();
}

bool memory_is_pinned(void *address) {
    return !advise(address, memory_page_size(), MADV_COLD);
}

_Atomic bool memory_loses_source;

static bool remap(void *from, void *to, size_t size, int flags) {
    return kernel_call(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) ==
           (long)to;
}

/* valgrind dies of some questions about a place without a mapping. */
static PRIM_COLD bool is_mapped(void *address) {
    unsigned char page;
    return look(address, 1, &page) || load_relaxed(&memory_is_blind);
}

/* Asks for growth to the end of address space, which always fails, for the stack is there: for want
 * of room, unless the range leaves its mapping, which the kernel looks at first. A filter says
 * anything else. */
PRIM_COLD bool memory_is_one_mapping(void *start, size_t size) {
    size_t rest = ((size_t)1 << PRIM_ADDRESS_BITS) - (uintptr_t)start;
    int saved_errno = errno;
    bool is_one = is_mapped(start) && (kernel_call(SYS_mremap, start, size, rest, 0) != -1 ||
                                       errno == ENOMEM || errno == EAGAIN); /* of locked pages */
    errno = saved_errno;
    return is_one;
}

/* The kernel unmaps the target first, and leaves a hole where it then refuses: beyond a limit that
 * was lowered. A source of two mappings, which the program may have made, it refuses before 6.17,
 * and another thread's mapping could come to lie in the hole; later ones move the first and then
 * may refuse the second. So none is tried. qemu's user mode takes the source for a hole that system
 * calls refuse. */
PRIM_COLD bool memory_move(void *from, void *to, size_t size) {
    int saved_errno = errno;
    void *filler = memory_is_one_mapping(from, size) ? memory_map(size) : NULL;
    bool is_moved = filler && remap(from, to, size, MREMAP_DONTUNMAP);
    void *hole = to;
    if (is_moved) {
        add_relaxed(&memory_counts.moved_bytes, size);
        hole = is_mapped(from) ? NULL : from;
        store_relaxed(&memory_loses_source, hole != NULL);
    }
    if (filler && !(hole && remap(filler, hole, size, 0))) {
        memory_unmap(filler, size);
    }
    errno = saved_errno;
    add_relaxed(&memory_counts.move_calls, 1);
    return is_moved;
}

bool memory_dump(void *address, size_t size, bool wanted) {
    return advise(address, size, wanted ? MADV_DODUMP : MADV_DONTDUMP);
}

void memory_name(void *address, size_t size, const char *name) {
    static _Atomic bool is_refused; /* (atomic: hint) the kernel has no names */
    if (!load_relaxed(&is_refused)) {
        int saved_errno = errno;
        if (kernel_ask(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, address, size, name) != 0) {
            store_relaxed(&is_refused, true);
        }
        errno = saved_errno;
    }
}

const void *memory_map_file(int file, size_t size) {
    return map_any(NULL, size, PROT_READ, 0, file);
}

void *memory_map_pool(size_t size) {
    return map_uncounted(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_HUGETLB | (HUGE_SHIFT << MAP_HUGE_SHIFT));
}

bool memory_advise_huge(void *address, size_t size, bool wanted) {
    return advise(address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}
