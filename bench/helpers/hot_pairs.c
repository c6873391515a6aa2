/*
 * The loops whose instructions bench/instructions.py counts: for each size, pairs of malloc and
 * free, then for each size pairs of operator new and sized operator delete; or each of the other
 * calls in a loop of its own, whose names are printed.
 *
 *   hot_pairs REPEATS SIZE...
 *   hot_pairs REPEATS others
 *
 * Before every loop section_boundary() is called, where callgrind starts a new count. Each size, or
 * call, has three sections: warming up, REPEATS pairs, and twice as many; the difference of the
 * last two is free of everything that happens once.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMING_PAIRS = 200, SIZES_MOST = 200, EXIT_USAGE = 2 };

static void *(*operator_new)(size_t);
static void (*operator_delete)(void *, size_t);

__attribute__((noinline)) void section_boundary(void) {
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void malloc_pairs(long count, size_t size) {
    for (long i = 0; i < count; i++) {
        free(malloc(size));
    }
}

__attribute__((noinline)) static void new_pairs(long count, size_t size) {
    for (long i = 0; i < count; i++) {
        operator_delete(operator_new(size), size);
    }
}

/* The compiler must not know what a block is. */
static inline void *hidden(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static void *kept; /* realloc_same's block */

#define OTHER(name, ...)                                               \
    __attribute__((noinline)) static void name(long count, size_t n) { \
        for (; count > 0; count--) {                                   \
            __VA_ARGS__;                                               \
        }                                                              \
        (void)n;                                                       \
    }
OTHER(free_null, free(hidden(NULL)))
OTHER(delete_null, operator_delete(hidden(NULL), n))
OTHER(calloc_64, free(hidden(calloc(1, 64))))
OTHER(calloc_2000, free(hidden(calloc(1, 2000))))
OTHER(memalign_64, free(hidden(memalign(64, 100))))
OTHER(aligned_alloc_4096, free(hidden(aligned_alloc(4096, 4096))))
OTHER(usable_size_64, void *block = malloc(64); n += malloc_usable_size(block); free(block))
OTHER(realloc_null_64, free(hidden(realloc(NULL, 64))))
OTHER(realloc_same_64, kept = realloc(hidden(kept), 64))
OTHER(realloc_32_to_64, free(realloc(hidden(malloc(32)), 64)))
OTHER(realloc_1000_to_2000, free(realloc(hidden(malloc(1000)), 2000)))
OTHER(realloc_2000_to_4000, free(realloc(hidden(malloc(2000)), 4000)))
OTHER(realloc_8000_to_16000, free(realloc(hidden(malloc(8000)), 16000)))
OTHER(realloc_1000_to_100, free(realloc(hidden(malloc(1000)), 100)))
#undef OTHER

static const struct {
    const char *name;
    void (*run)(long count, size_t size);
} others[] = {
#define OTHER(name) {#name, name}
    OTHER(free_null),
    OTHER(delete_null),
    OTHER(calloc_64),
    OTHER(calloc_2000),
    OTHER(memalign_64),
    OTHER(aligned_alloc_4096),
    OTHER(usable_size_64),
    OTHER(realloc_null_64),
    OTHER(realloc_same_64),
    OTHER(realloc_32_to_64),
    OTHER(realloc_1000_to_2000),
    OTHER(realloc_2000_to_4000),
    OTHER(realloc_8000_to_16000),
    OTHER(realloc_1000_to_100),
#undef OTHER
};

static void run_sections(void (*pairs)(long, size_t), long repeats, size_t size) {
    section_boundary();
    pairs(WARMING_PAIRS, size);
    section_boundary();
    pairs(repeats, size);
    section_boundary();
    pairs(2 * repeats, size);
}

/* The operators of the preloaded library where it has them, else those of the C++ runtime. */
static int find_operators(void) {
    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
    *(void **)&operator_new = dlsym(RTLD_DEFAULT, "_Znwm");
    *(void **)&operator_delete = dlsym(RTLD_DEFAULT, "_ZdlPvm");
    return runtime != NULL && operator_new != NULL && operator_delete != NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: hot_pairs REPEATS SIZE... | others\n");
        return EXIT_USAGE;
    }
    if (!find_operators()) {
        fprintf(stderr, "hot_pairs: libstdc++.so.6 can't be loaded: %s\n", dlerror());
        return EXIT_FAILURE;
    }
    if (strcmp(argv[2], "others") == 0) {
        long count = atol(argv[1]);
        size_t other_count = sizeof others / sizeof *others;
        for (size_t i = 0; i < other_count; i++) {
            printf("%s\n", others[i].name);
        }
        fflush(stdout);
        for (size_t i = 0; i < other_count; i++) {
            run_sections(others[i].run, count, 64);
        }
        section_boundary();
        return EXIT_SUCCESS;
    }
    // Everything is read before the first section, so that nothing but pairs is counted in one.
    long repeats = atol(argv[1]);
    int size_count = argc - 2 < SIZES_MOST ? argc - 2 : SIZES_MOST;
    size_t sizes[SIZES_MOST];
    for (int i = 0; i < size_count; i++) {
        sizes[i] = (size_t)atol(argv[i + 2]);
    }
    for (int i = 0; i < size_count; i++) {
        run_sections(malloc_pairs, repeats, sizes[i]);
    }
    for (int i = 0; i < size_count; i++) {
        run_sections(new_pairs, repeats, sizes[i]);
    }
    section_boundary();
    return EXIT_SUCCESS;
}
