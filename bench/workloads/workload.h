/* What every workload shares: the command line, random numbers, time, threads and marked blocks.
 *
 * A workload is a program for any malloc. It does a fixed, seeded amount of work, so that its wall
 * time compares allocators; it marks its blocks and checks the marks before it frees them, so that
 * a broken allocator ends it with a message and exit status 1; a wrong command line ends it with 2.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- failure ---- */

static const char *workload_name = "workload";

/* One write, so that the messages of several failing threads do not run into each other. */
__attribute__((noreturn, format(printf, 2, 3), unused)) static void workload_stop(
    int status, const char *format, ...) {
    char message[512];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    dprintf(STDERR_FILENO, "%s: %s\n", workload_name, message);
    _exit(status);
}

#define workload_fail(...) workload_stop(1, __VA_ARGS__)
#define workload_misuse(...) workload_stop(2, __VA_ARGS__)

/* ---- command line ----
 * Each argument has a name and a place: `churn 1000 --seed=7` and `churn --live=1000 --seed 7` say
 * the same. An argument is either a whole number between least and most, or one of the words. */

struct argument {
    const char *name;
    const char *help;
    uint64_t value; /* the default before parsing; for words, an index into them */
    uint64_t least;
    uint64_t most;
    const char *const *words; /* ends with NULL; NULL for a number */
};

static void arguments_print(const char *summary, const struct argument *table, size_t count) {
    printf("usage: %s", workload_name);
    for (size_t i = 0; i < count; i++) printf(" [%s]", table[i].name);
    printf("\n%s\n\nEach argument can also be given as --name=value.\n", summary);
    for (size_t i = 0; i < count; i++) {
        const struct argument *a = &table[i];
        printf("  %-12s %s (", a->name, a->help);
        if (a->words) {
            for (size_t w = 0; a->words[w]; w++) printf("%s%s", w ? "|" : "", a->words[w]);
            printf(", default %s)\n", a->words[a->value]);
        } else {
            printf("%llu to %llu, default %llu)\n", (unsigned long long)a->least,
                   (unsigned long long)a->most, (unsigned long long)a->value);
        }
    }
}

static void argument_set(struct argument *a, const char *text) {
    if (a->words) {
        for (size_t w = 0; a->words[w]; w++) {
            if (strcmp(text, a->words[w]) == 0) {
                a->value = w;
                return;
            }
        }
        workload_misuse("%s: '%s' is not one of its words (see --help)", a->name, text);
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno == ERANGE)
        workload_misuse("%s: '%s' is not a whole number", a->name, text);
    if (number < a->least || number > a->most)
        workload_misuse("%s: %llu is not between %llu and %llu", a->name, number,
                        (unsigned long long)a->least, (unsigned long long)a->most);
    a->value = number;
}

/* Handles one `--name=value` or `--name value` at words[0]; returns how many words it took. */
static int argument_named(struct argument *table, size_t count, char **words) {
    const char *name = words[0] + 2;
    size_t length = strcspn(name, "=");
    for (size_t i = 0; i < count; i++) {
        if (strlen(table[i].name) != length || strncmp(name, table[i].name, length) != 0) continue;
        if (name[length] == '=') {
            argument_set(&table[i], name + length + 1);
            return 1;
        }
        if (!words[1]) workload_misuse("--%s needs a value", table[i].name);
        argument_set(&table[i], words[1]);
        return 2;
    }
    workload_misuse("'%s' is not an option (see --help)", words[0]);
}

__attribute__((unused)) static void arguments_parse(int argc, char **argv, const char *summary,
                                                    struct argument *table, size_t count) {
    const char *slash = strrchr(argv[0], '/');
    workload_name = slash ? slash + 1 : argv[0];
    size_t place = 0;
    for (int i = 1; i < argc;) {
        if (strcmp(argv[i], "--help") == 0) {
            arguments_print(summary, table, count);
            exit(0);
        }
        if (strncmp(argv[i], "--", 2) == 0) {
            i += argument_named(table, count, argv + i);
            continue;
        }
        if (place == count) workload_misuse("'%s' is one argument too many (see --help)", argv[i]);
        argument_set(&table[place++], argv[i++]);
    }
}

/* ---- random numbers: xorshift64*, a stream for each seed ---- */

struct random_stream {
    uint64_t state;
};

static inline uint64_t random_next(struct random_stream *r) {
    uint64_t x = r->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    r->state = x;
    return x * 0x2545F4914F6CDD1Du;
}

static inline struct random_stream random_seeded(uint64_t seed) {
    /* One step of splitmix64 keeps neighbouring seeds apart; the state must not be 0. */
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    struct random_stream r = {(z ^ (z >> 31)) | 1};
    return r;
}

/* Uniform in [0, bound); bound up to 2^32. */
static inline uint64_t random_below(struct random_stream *r, uint64_t bound) {
    return ((random_next(r) >> 32) * bound) >> 32;
}

/* Uniform in [least, most]. */
static inline uint64_t random_between(struct random_stream *r, uint64_t least, uint64_t most) {
    return least + random_below(r, most - least + 1);
}

/* ---- time ---- */

static inline double time_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The only line a workload prints: what it did and how fast, one operation = one allocation. */
__attribute__((unused)) static void report_print(uint64_t operations, double started_s) {
    double elapsed_s = time_now_s() - started_s;
    printf("%s: %llu operations in %.3f s, %.0f operations/s\n", workload_name,
           (unsigned long long)operations, elapsed_s, (double)operations / elapsed_s);
}

/* ---- threads ---- */

static inline pthread_t thread_start(void *(*body)(void *), void *context) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, context);
    if (error) workload_fail("cannot start a thread: %s", strerror(error));
    return thread;
}

static inline void thread_join(pthread_t thread) {
    int error = pthread_join(thread, NULL);
    if (error) workload_fail("cannot join a thread: %s", strerror(error));
}

#define THREADS_MOST 1024

/* Runs body once for each of count contexts, side by side, and waits for all of them. */
__attribute__((unused)) static void threads_run(size_t count, void *(*body)(void *), void *contexts,
                                                size_t context_bytes) {
    pthread_t threads[THREADS_MOST];
    for (size_t i = 0; i < count; i++)
        threads[i] = thread_start(body, (char *)contexts + i * context_bytes);
    for (size_t i = 0; i < count; i++) thread_join(threads[i]);
}

/* ---- marked blocks ----
 * The mark is a function of address and size: the first word (when it fits) and the last byte.
 * A block handed out twice, moved without its contents or cut short loses its mark. */

static inline uint64_t block_mark(const void *block, size_t bytes) {
    return ((uint64_t)(uintptr_t)block ^ (uint64_t)bytes << 44) * 0x9E3779B97F4A7C15u;
}

static inline void block_write(void *block, size_t bytes) {
    uint64_t mark = block_mark(block, bytes);
    if (bytes > sizeof mark) memcpy(block, &mark, sizeof mark);
    if (bytes) ((unsigned char *)block)[bytes - 1] = (unsigned char)(mark >> 56);
}

static inline void block_verify(const void *block, size_t bytes) {
    uint64_t mark = block_mark(block, bytes);
    uint64_t found = mark;
    if (bytes > sizeof mark) memcpy(&found, block, sizeof found);
    if (found != mark || (bytes && ((const unsigned char *)block)[bytes - 1] != mark >> 56))
        workload_fail("block %p of %zu bytes lost its contents", block, bytes);
}

static inline void *block_found(void *block, size_t bytes) {
    if (!block) workload_fail("no memory for %zu bytes", bytes);
    return block;
}

static inline void *block_new(size_t bytes) {
    void *block = block_found(malloc(bytes), bytes);
    block_write(block, bytes);
    return block;
}

static inline void block_delete(void *block, size_t bytes) {
    block_verify(block, bytes);
    free(block);
}

/* Blocks of at least 16 bytes that know their size, for those who pass them on. */
#define SIZED_LEAST 16

static inline void *sized_new(size_t bytes) {
    uint64_t *block = (uint64_t *)block_found(malloc(bytes), bytes);
    block[0] = bytes;
    block[1] = block_mark(block, bytes);
    return block;
}

static inline void sized_delete(void *block) {
    uint64_t *words = (uint64_t *)block;
    if (words[1] != block_mark(block, words[0])) workload_fail("block %p lost its contents", block);
    free(block);
}

/* Log-uniform in [2^least, 2^(most + 1)): every power of two is equally likely. */
static inline uint64_t random_size_log(struct random_stream *r, unsigned least, unsigned most) {
    uint64_t power = (uint64_t)1 << random_between(r, least, most);
    return power + random_below(r, power);
}

/* Zeroed memory for the workload's own tables. */
static inline void *table_new(size_t count, size_t bytes) {
    return block_found(calloc(count, bytes), count * bytes);
}

#endif
