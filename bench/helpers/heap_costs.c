/*
 * What bench/heaps measures: heaps of one's own and the snapshot of statistics.
 *
 *   heap_costs WORK COUNT
 *
 *   cycle      COUNT times: a heap, 10 blocks in it, the heap ends with them
 *   destroy    a heap with COUNT blocks ends
 *   free       a heap's COUNT blocks are freed one by one
 *   free-plain COUNT blocks of malloc are freed one by one
 *   empty      COUNT heaps without a block: resident bytes of one
 *   snapshot   COUNT snapshots of 1 GiB in blocks while 64 threads allocate and free
 *   no-snapshot  the same without: a sleep in each one's place
 *
 * Heaps are those of the preloaded library: primalloc's or mimalloc's. Prints "name value" lines.
 * section_boundary() is called before and after what is measured, so that callgrind can count it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCKS_A_HEAP = 10,
    BLOCK_SIZE = 64,
    THREADS = 64,
    HELD_BLOCKS = 64,
    WARM_CYCLES = 1000,
    GIB_BLOCK_SIZE = 1024,
    PAUSE_NS = 20 * 1000 * 1000,
    BOUND_NS = 5 * 1000 * 1000, /* that a snapshot may take */
    EXIT_USAGE = 2,
};

typedef void heap;
static heap *(*heap_new)(void);
static void *(*heap_malloc)(heap *, size_t);
static void (*heap_destroy)(heap *);
static size_t (*stats_get)(void *, size_t);

__attribute__((noinline)) void section_boundary(void) {
    __asm__ volatile("" ::: "memory");
}

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double started;

static void begin(void) {
    section_boundary();
    started = now(CLOCK_THREAD_CPUTIME_ID);
}

static void end(double count) {
    double ended = now(CLOCK_THREAD_CPUTIME_ID);
    section_boundary();
    printf("cpu_ns %.2f\n", (ended - started) / count);
}

static void *find(const char *ours, const char *theirs) {
    void *function = dlsym(RTLD_DEFAULT, ours);
    return function ? function : dlsym(RTLD_DEFAULT, theirs);
}

static void cycles(long count) {
    for (long i = 0; i < count; i++) {
        heap *one = heap_new();
        for (int k = 0; k < BLOCKS_A_HEAP; k++) {
            *(volatile char *)heap_malloc(one, BLOCK_SIZE) = 1;
        }
        heap_destroy(one);
    }
}

static void measure_cycle(long count) {
    cycles(WARM_CYCLES);
    begin();
    cycles(count);
    end((double)count);
}

/* Blocks of the heap, or with NULL of malloc; what the array itself takes is not measured. */
static void **make_blocks(heap *from, long count) {
    void **blocks = malloc((size_t)count * sizeof *blocks);
    for (long i = 0; i < count; i++) {
        blocks[i] = from ? heap_malloc(from, BLOCK_SIZE) : malloc(BLOCK_SIZE);
        if (!blocks[i]) {
            abort();
        }
        *(volatile char *)blocks[i] = 1;
    }
    return blocks;
}

static void measure_destroy(long count) {
    heap *one = heap_new();
    free(make_blocks(one, count));
    begin();
    heap_destroy(one);
    end(1);
}

static void measure_free(long count, heap *from) {
    void **blocks = make_blocks(from, count);
    begin();
    for (long i = 0; i < count; i++) {
        free(blocks[i]);
    }
    end(1);
    free(blocks);
}

static long resident_bytes(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2) {
        abort();
    }
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static void measure_empty(long count) {
    heap **all = calloc((size_t)count, sizeof *all);
    memset(all, 1, (size_t)count * sizeof *all);
    heap_destroy(heap_new());
    long before = resident_bytes();
    for (long i = 0; i < count; i++) {
        all[i] = heap_new();
        if (!all[i]) {
            abort();
        }
    }
    printf("bytes %.1f\n", (double)(resident_bytes() - before) / (double)count);
}

static _Atomic int is_over;
static _Atomic long waits; /* voluntary switches of the threads: each is a wait for a lock */

static long voluntary_switches(void) {
    char line[128];
    long switches = -1;
    FILE *file = fopen("/proc/thread-self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "voluntary_ctxt_switches: %ld", &switches);
    }
    if (file) {
        fclose(file);
    }
    return switches;
}

static void *work(void *seed) {
    void *held[HELD_BLOCKS] = {0};
    unsigned long random = (unsigned long)seed;
    long before = voluntary_switches();
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        void **slot = &held[random >> 58];
        free(*slot);
        *slot = malloc((random >> 40) % 1000 + 1);
    }
    for (int i = 0; i < HELD_BLOCKS; i++) {
        free(held[i]);
    }
    atomic_fetch_add(&waits, voluntary_switches() - before);
    return NULL;
}

/* So long was the calling thread ready to run, and no processor was free for it. */
static double queued(void) {
    double run = 0, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file || fscanf(file, "%lf %lf", &run, &waited) != 2) {
        abort();
    }
    fclose(file);
    return waited;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void print_spread(const char *name, double *values, long count) {
    long within = 0;
    qsort(values, (size_t)count, sizeof *values, ascending);
    while (within < count && values[within] <= BOUND_NS) {
        within++;
    }
    printf("%s_median_us %.1f\n%s_worst_us %.1f\n%s_within %ld\n", name, values[count / 2] / 1e3,
           name, values[count - 1] / 1e3, name, within);
}

static void measure_snapshot(long count, int is_taken) {
    uint64_t figures[128];
    pthread_t threads[THREADS];
    double *elapsed = calloc((size_t)count, sizeof *elapsed);
    double *processor = calloc((size_t)count, sizeof *processor);
    double *unqueued = calloc((size_t)count, sizeof *unqueued);
    for (long i = 0; i < (1L << 30) / GIB_BLOCK_SIZE; i++) {
        memset(malloc(GIB_BLOCK_SIZE), 1, GIB_BLOCK_SIZE); /* lives as long as the process */
    }
    for (long i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    }
    for (long i = 0; i < count; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        double waited = queued();
        double wall = now(CLOCK_MONOTONIC);
        double cpu = now(CLOCK_THREAD_CPUTIME_ID);
        if (is_taken) {
            stats_get(figures, sizeof figures);
        }
        processor[i] = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
        elapsed[i] = now(CLOCK_MONOTONIC) - wall;
        unqueued[i] = elapsed[i] - (queued() - waited);
        unqueued[i] = unqueued[i] > processor[i] ? unqueued[i] : processor[i];
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    print_spread("cpu", processor, count);
    print_spread("elapsed", elapsed, count);
    print_spread("unqueued", unqueued, count);
    printf("waits %ld\n", atomic_load(&waits));
}

int main(int argc, char **argv) {
    const char *work_name = argc == 3 ? argv[1] : "";
    long count = argc == 3 ? atol(argv[2]) : 0;
    *(void **)&heap_new = find("prim_heap_new", "mi_heap_new");
    *(void **)&heap_malloc = find("prim_heap_malloc", "mi_heap_malloc");
    *(void **)&heap_destroy = find("prim_heap_destroy", "mi_heap_destroy");
    *(void **)&stats_get = dlsym(RTLD_DEFAULT, "prim_stats_get");
    if (!heap_new || !heap_malloc || !heap_destroy) {
        fprintf(stderr, "heap_costs: the preloaded library has no heaps\n");
        return EXIT_FAILURE;
    }
    if (count > 0 && !strcmp(work_name, "cycle")) {
        measure_cycle(count);
    } else if (count > 0 && !strcmp(work_name, "destroy")) {
        measure_destroy(count);
    } else if (count > 0 && !strcmp(work_name, "free")) {
        measure_free(count, heap_new());
    } else if (count > 0 && !strcmp(work_name, "free-plain")) {
        measure_free(count, NULL);
    } else if (count > 0 && !strcmp(work_name, "empty")) {
        measure_empty(count);
    } else if (count > 0 && stats_get && strstr(work_name, "snapshot")) {
        measure_snapshot(count, !strcmp(work_name, "snapshot"));
    } else {
        fprintf(stderr, "usage: heap_costs cycle|destroy|free|free-plain|empty|snapshot|"
                        "no-snapshot COUNT\n");
        return EXIT_USAGE;
    }
    return EXIT_SUCCESS;
}
