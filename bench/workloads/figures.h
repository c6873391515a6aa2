/* Figures about the process itself, for the workloads whose rows ask for exact numbers.
 *
 * Each is printed as one line "figure <name> <value>", after all that is measured: printing may
 * allocate. Everything else here makes system calls only, so that measuring calls no malloc.
 */
#ifndef FIGURES_H
#define FIGURES_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "workload.h"

#define PAGE_BYTES ((size_t)4096)
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

__attribute__((unused)) static void figure_print(const char *name, double value) {
    printf("figure %s %.6g\n", name, value);
}

/* ---- what the kernel counts ---- */

/* Up to now: minor faults of the calling thread, whose turns are counted (a thread of the
 * allocator's own has faults of its own, a few in its life), voluntary switches and processor time
 * of all threads. */
struct usage {
    long faults;
    long switches;
    double cpu_s;
};

static inline struct usage usage_now(void) {
    struct rusage now;
    struct rusage own;
    getrusage(RUSAGE_SELF, &now);
    getrusage(RUSAGE_THREAD, &own);
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct usage){own.ru_minflt, now.ru_nvcsw,
                          (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9};
}

static inline void pause_us(uint64_t microseconds) {
    struct timespec left = {(time_t)(microseconds / 1000000),
                            (long)(microseconds % 1000000 * 1000)};
    while (nanosleep(&left, &left) != 0) continue;
}

/* ---- files of /proc/self ---- */

/* The contents of a file, which ends with 0 and is valid until the next call. */
__attribute__((unused)) static const char *file_read(const char *path) {
    static char text[1 << 20];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) workload_fail("cannot open %s: %s", path, strerror(errno));
    size_t length = 0;
    ssize_t got;
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += (size_t)got;
    if (got < 0) workload_fail("cannot read %s: %s", path, strerror(errno));
    close(file);
    text[length] = 0;
    return text;
}

/* The number behind "<label>" in a text of lines "<label> <number>". */
__attribute__((unused)) static uint64_t labelled_number(const char *text, const char *label) {
    const char *found = strstr(text, label);
    if (!found) workload_fail("no line '%s' where one was expected", label);
    uint64_t number = 0;
    const char *digit = found + strlen(label);
    while (*digit == ' ' || *digit == '\t') digit++;
    for (; *digit >= '0' && *digit <= '9'; digit++) number = 10 * number + (uint64_t)(*digit - '0');
    return number;
}

/* Resident bytes by a walk over the page tables: /proc/self/statm sums per-processor counters,
 * which may be off by some hundred KiB. */
__attribute__((unused)) static size_t resident_bytes(void) {
    return labelled_number(file_read("/proc/self/smaps_rollup"), "\nRss:") * KIB;
}

/* The same without pages of files: which of a library's the kernel maps beside those that are
 * needed, 64 KiB at a time, is chance. */
__attribute__((unused)) static size_t anonymous_bytes(void) {
    return labelled_number(file_read("/proc/self/smaps_rollup"), "\nAnonymous:") * KIB;
}

__attribute__((unused)) static uint64_t thread_count(void) {
    return labelled_number(file_read("/proc/self/status"), "\nThreads:");
}

/* ---- memory that is no malloc's ---- */

/* Zeroed pages from the kernel for the workload's own tables, all resident from the start, so that
 * they can be taken off a resident size exactly. */
__attribute__((unused)) static void *pages_new(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED) workload_fail("no pages for %zu bytes", bytes);
    return pages;
}

/* Writes one byte of every page of a block, and its last. */
__attribute__((unused)) static void block_touch(unsigned char *block, size_t bytes,
                                                unsigned char value) {
    for (size_t b = 0; b < bytes; b += PAGE_BYTES) ((volatile unsigned char *)block)[b] = value;
    ((volatile unsigned char *)block)[bytes - 1] = value;
}

#endif
