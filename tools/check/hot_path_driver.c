/* The pairs of calls whose instructions tools/check/hot_path.py counts. For each pair, callgrind's
 * record has what measure_NAME spent inside the library; warm_NAME runs before it, uncounted, so
 * that the thread's cache holds a block of the size. Every call goes through the global offset
 * table directly: no linkage stub is counted. */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

enum { PAIRS = 1000 };

void *operator_new(size_t size) __asm__("_Znwm");
void operator_delete_sized(void *block, size_t size) __asm__("_ZdlPvm");

static inline __attribute__((always_inline)) void free_unsized(void *block, size_t size) {
    (void)size;
    free(block);
}

static inline __attribute__((always_inline)) void free_asked(void *block, size_t size) {
    if (malloc_usable_size(block) >= size) free(block);
}

static inline __attribute__((always_inline)) void *no_block(size_t size) {
    (void)size;
    return NULL;
}

static inline __attribute__((always_inline)) void *grown(size_t size) {
    return realloc(malloc(size / 2), size);
}

static inline __attribute__((always_inline)) void pairs(void *(*allocate)(size_t),
                                                        void (*release)(void *, size_t),
                                                        size_t size) {
    for (int i = 0; i < PAIRS; i++) {
        void *block = allocate(size);
        __asm__ volatile("" : "+r"(block) : : "memory");
        release(block, size);
    }
}

#define PAIR(name, allocate, release, size)                      \
    static __attribute__((noinline)) void warm_##name(void) {    \
        pairs(allocate, release, size);                          \
    }                                                            \
    static __attribute__((noinline)) void measure_##name(void) { \
        pairs(allocate, release, size);                          \
    }
#include "hot_path_pairs.def"
#undef PAIR

int main(void) {
#define PAIR(name, allocate, release, size) \
    warm_##name();                          \
    measure_##name();
#include "hot_path_pairs.def"
    return 0;
}
