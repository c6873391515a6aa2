/* machine.c - see machine.h.
 *
 * What tools interpose (clock_gettime, sched_getaffinity, getcpu) is asked of the kernel's own
 * functions in our address space or through kernel_call: an interposer that allocates would call us
 * back (trap T02). */
#include "os/machine.h"

#include <errno.h>
#include <time.h>

#include "base/atomics.h"
#include "base/bits.h"
#include "os/cgroup.h"
#include "os/confined.h"
#include "os/kernel.h"
#include "os/process.h"
#include "os/thread.h"
#include "os/vdso.h"

enum {
    PROCESSORS_UNKNOWN = 8, /* how many a confined process is taken to have */
    PROCESSORS_FEW = 4,     /* a quota of them is not worth reading the control group's files */
};

unsigned machine_processor_count(void) {
    static _Atomic unsigned known_count; /* (atomic: any thread computes the same value) */
    unsigned count = load_relaxed(&known_count);
    if (count == 0 && is_confined()) {
        return PROCESSORS_UNKNOWN;
    }
    if (count == 0) {
        unsigned long mask[16384 / 8 / sizeof(unsigned long)]; /* 16,384 processors */
        int saved_errno = errno;
        long bytes = kernel_ask(SYS_sched_getaffinity, process_number(), sizeof mask, mask);
        errno = saved_errno;
        for (long word = 0; word < bytes / (long)sizeof mask[0]; word++) {
            count += bits_count(mask[word]);
        }
        unsigned quota = count > PROCESSORS_FEW ? cgroup_processor_count("") : 0;
        count = quota && quota < count ? quota : count;
        count = count ? count : 1;
        store_relaxed(&known_count, count);
    }
    return count;
}

uint64_t machine_random(void) {
    enum { NO_WAIT = 1 };
    static _Atomic uint64_t calls; /* (atomic: counter) */
    uint64_t random = 0;
    int saved_errno = errno;
    if (kernel_ask(SYS_getrandom, &random, sizeof random, NO_WAIT) != sizeof random) {
        random = ((uintptr_t)&random ^ machine_clock_ms() << 32) * 0x9e3779b97f4a7c15u;
    }
    errno = saved_errno;
    return random + add_relaxed(&calls, 1);
}

/* A function of the kernel's, looked for once; where there is none, `missing` stands for it. */
static void *kernel_function(_Atomic(void *) *known, const char *name, void *missing) {
    void *function = load_relaxed(known);
    if (!function) {
        function = vdso_function(name);
        function = function ? function : missing;
        store_relaxed(known, function);
    }
    return function;
}

typedef int getcpu_function(unsigned *processor, unsigned *node, void *unused);

static int getcpu_by_call(unsigned *processor, unsigned *node, void *unused) {
    return (int)kernel_ask(SYS_getcpu, processor, node, unused);
}

static unsigned processor_from_kernel(void) {
    static _Atomic(void *) known; /* (atomic: any thread finds the same) */
    unsigned processor = 0;
    int saved_errno = errno;
    getcpu_function *get =
        (getcpu_function *)kernel_function(&known, "getcpu", (void *)getcpu_by_call);
    if (get(&processor, NULL, NULL) != 0) {
        processor = 0;
    }
    errno = saved_errno;
    return processor;
}

#ifdef __GLIBC__
/* glibc 2.35 and later registers a restartable-sequences area for each thread and tells where it
 * lies; its second word is the processor number, kept up to date by the kernel. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

unsigned machine_processor(void) {
    if (&__rseq_offset && &__rseq_size && __rseq_size) {
        const volatile uint32_t *area =
            (const volatile uint32_t *)(thread_mark() + (uintptr_t)__rseq_offset);
        uint32_t processor = area[1];
        if ((int32_t)processor >= 0) {
            return processor;
        }
    }
    return processor_from_kernel();
}
#else
unsigned machine_processor(void) {
    return processor_from_kernel();
}
#endif

typedef int clock_function(clockid_t clock, struct timespec *now);

static int clock_by_call(clockid_t clock, struct timespec *now) {
    return (int)kernel_ask(SYS_clock_gettime, clock, now);
}

/* The coarse clocks never need a system call, the others may. Without the kernel's function a
 * confined process has none, and time stands still. */
static struct timespec read_clock(clockid_t clock, clockid_t coarse) {
    static _Atomic(void *) known; /* (atomic: any thread finds the same) */
    struct timespec now = {0, 0};
    int saved_errno = errno;
    clock_function *read =
        (clock_function *)kernel_function(&known, "clock_gettime", (void *)clock_by_call);
    read(is_confined() ? coarse : clock, &now);
    errno = saved_errno;
    return now;
}

uint64_t machine_clock_ms(void) {
    struct timespec now = read_clock(CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_COARSE);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#if !defined(__x86_64__) && !defined(__aarch64__)
uint64_t machine_ticks_by_clock(void) {
    struct timespec now = read_clock(CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
#endif

static PRIM_NOINLINE uint64_t clock_us(clockid_t clock) {
    struct timespec now = read_clock(clock, CLOCK_MONOTONIC_COARSE);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t machine_clock_us(void) {
    return clock_us(CLOCK_MONOTONIC);
}

uint64_t machine_thread_time_us(void) {
    return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t machine_process_time_us(void) {
    return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t machine_time_ns(void) {
    struct timespec now = read_clock(CLOCK_REALTIME, CLOCK_REALTIME_COARSE);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
