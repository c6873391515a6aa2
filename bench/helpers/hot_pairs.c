/*
 * The loops whose instructions bench/instructions.py counts: for each size, pairs of malloc and
 * free, then for each size pairs of operator new and sized operator delete.
 *
 *   hot_pairs REPEATS SIZE...
 *
 * Before every loop section_boundary() is called, where callgrind starts a new count. Each size has
 * three sections: warming up, REPEATS pairs, and twice as many; the difference of the last two is
 * free of everything that happens once.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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
        fprintf(stderr, "usage: hot_pairs REPEATS SIZE...\n");
        return EXIT_USAGE;
    }
    if (!find_operators()) {
        fprintf(stderr, "hot_pairs: libstdc++.so.6 can't be loaded: %s\n", dlerror());
        return EXIT_FAILURE;
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
