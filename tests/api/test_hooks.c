/* prim_hooks_set: hooks that look, that serve memory of their own, in a chain, and set and taken
 * away while threads allocate. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

enum { THREADS = 4, ROUNDS = 20000, CHANGES = 300, OWN_SIZE = 1 << 16 };

struct counts {
    _Atomic size_t allocated, reallocated, released, asked;
    struct prim_hook_call last;
    const struct prim_hooks *inner;
};

static _Thread_local int depth;

static void *count_allocate(const struct prim_hook_call *call, void *context) {
    struct counts *counts = context;
    CHECK(++depth == 1, "a hook is called inside itself");
    atomic_fetch_add(&counts->allocated, 1);
    void *more = malloc(10); /* goes to the allocator */
    void *block = call->alignment ? aligned_alloc(call->alignment, call->size) : malloc(call->size);
    free(more);
    depth--;
    return block;
}

static void *count_reallocate(void *block, const struct prim_hook_call *call, void *context) {
    atomic_fetch_add(&((struct counts *)context)->reallocated, 1);
    return realloc(block, call->size);
}

static void count_release(void *block, const struct prim_hook_call *call, void *context) {
    (void)call;
    atomic_fetch_add(&((struct counts *)context)->released, 1);
    errno = ERANGE;
    free(block);
}

static size_t count_usable_size(const void *block, void *context) {
    atomic_fetch_add(&((struct counts *)context)->asked, 1);
    return malloc_usable_size((void *)(uintptr_t)block);
}

static struct prim_hooks counting(struct counts *counts) {
    return (struct prim_hooks){count_allocate, count_reallocate, count_release, count_usable_size,
                               counts};
}

static void test_every_call_is_seen(void **state) {
    (void)state;
    static struct counts counts;
    struct prim_hooks hooks = counting(&counts);
    void *before = opaque(malloc(50));
    assert_null(prim_hooks_set(&hooks));
    memset(&hooks, 0xff, sizeof hooks); /* was copied */
    unsigned char *block = opaque(malloc(100));
    unsigned char *zeroed = opaque(calloc(10, 10));
    void *aligned = opaque(aligned_alloc(256, 512));
    assert_int_equal(counts.allocated, 3);
    assert_int_equal((uintptr_t)aligned % 256, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(zeroed[i], 0);
    }
    block = opaque(realloc(block, 1000));
    assert_int_equal(counts.reallocated, 1);
    assert_true(malloc_usable_size(block) >= 1000);
    assert_int_equal(counts.asked, 1);
    errno = EXDEV;
    free(block);
    free(zeroed);
    free(aligned);
    free(before);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(counts.released, 4);
    const struct prim_hooks *old = prim_hooks_set(NULL);
    assert_ptr_equal(old->context, &counts);
    free(opaque(malloc(100)));
    assert_int_equal(counts.allocated, 3);
    assert_null(prim_hooks_set(old)); /* again, the same copy */
    assert_ptr_equal(prim_hooks_set(NULL), old);
}

static char own[OWN_SIZE];
static _Atomic size_t own_used;

static void *own_allocate(const struct prim_hook_call *call, void *context) {
    (void)context;
    size_t size = (call->size + 31) / 16 * 16;
    char *block = own + atomic_fetch_add(&own_used, size) + 16;
    if (block + size > own + OWN_SIZE) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(block - sizeof size, &call->size, sizeof size);
    return block;
}

static bool is_own(const void *block) {
    return (uintptr_t)block - (uintptr_t)own < OWN_SIZE;
}

static size_t own_usable_size(const void *block, void *context) {
    (void)context;
    size_t size;
    if (!is_own(block)) {
        return malloc_usable_size((void *)(uintptr_t)block);
    }
    memcpy(&size, (const char *)block - sizeof size, sizeof size);
    return size;
}

static void own_release(void *block, const struct prim_hook_call *call, void *context) {
    (void)call;
    (void)context;
    if (!is_own(block)) {
        free(block);
    }
}

static void *own_reallocate(void *block, const struct prim_hook_call *call, void *context) {
    void *target = call->size ? own_allocate(call, context) : NULL;
    if (target && block) {
        size_t size = own_usable_size(block, context);
        memcpy(target, block, size < call->size ? size : call->size);
    }
    if (target || call->size == 0) {
        own_release(block, call, context);
    }
    return target;
}

static const struct prim_hooks own_hooks = {own_allocate, own_reallocate, own_release,
                                            own_usable_size, NULL};

static void test_memory_of_its_own(void **state) {
    (void)state;
    char *before = opaque(malloc(20));
    memcpy(before, "from the allocator", 19);
    assert_null(prim_hooks_set(&own_hooks));
    char *block = opaque(malloc(100));
    assert_true(is_own(block));
    assert_int_equal(malloc_usable_size(block), 100);
    before = opaque(realloc(before, 200));
    assert_true(is_own(before));
    assert_string_equal(before, "from the allocator");
    char *zeroed = opaque(calloc(1, 64));
    assert_int_equal(zeroed[63], 0);
    assert_null(opaque(malloc(2 * OWN_SIZE)));
    assert_int_equal(errno, ENOMEM);
    free(zeroed);
    free(before);
    free(block);
    assert_ptr_equal(prim_hooks_set(NULL)->on_allocate, own_allocate);
}

static void *chain_allocate(const struct prim_hook_call *call, void *context) {
    struct counts *counts = context;
    counts->last = *call;
    atomic_fetch_add(&counts->allocated, 1);
    return counts->inner->on_allocate(call, counts->inner->context);
}

/* Hooks that go on to those that were there. What they leave out goes to the allocator. */
static void test_chain(void **state) {
    (void)state;
    static struct counts inner_counts;
    static struct counts outer_counts;
    struct prim_hooks inner = counting(&inner_counts);
    struct prim_hooks outer = {.on_allocate = chain_allocate, .context = &outer_counts};
    prim_hooks_set(&inner);
    outer_counts.inner = prim_hooks_set(&inner); /* is in force already */
    assert_ptr_equal(prim_hooks_set(&outer), outer_counts.inner);
    void *block = opaque(aligned_alloc(128, 256));
    free(block);
    assert_int_equal(inner_counts.allocated, 1);
    assert_int_equal(inner_counts.released, 0);
    assert_int_equal(outer_counts.last.size, 256);
    assert_int_equal(outer_counts.last.alignment, 128);
    assert_non_null(outer_counts.last.caller);
    prim_hooks_set(outer_counts.inner);
    free(opaque(malloc(1)));
    assert_int_equal(inner_counts.allocated, 2);
    assert_int_equal(inner_counts.released, 1);
    prim_hooks_set(NULL);
}

/* A deleted heap ends with its last block, hooks or none, and leaves nothing behind. */
static void test_a_deleted_heap_leaves_nothing(void **state) {
    (void)state;
    static struct counts counts;
    struct prim_hooks hooks = counting(&counts);
    struct prim_stats before;
    struct prim_stats after;
    prim_stats_get(&before, sizeof before);
    prim_hooks_set(&hooks);
    for (size_t i = 0; i < 1000; i++) {
        prim_heap_t *heap = prim_heap_new();
        void *block = prim_heap_malloc(heap, 100);
        prim_heap_delete(heap);
        free(block);
    }
    prim_hooks_set(NULL);
    prim_stats_get(&after, sizeof after);
    assert_int_equal(counts.released, 1000);
    assert_true(after.live_blocks < before.live_blocks + 10);
    assert_int_equal(after.heaps, before.heaps);
}

static void *allocate_much(void *unused) {
    for (size_t i = 0; i < ROUNDS; i++) {
        unsigned char *block = opaque(malloc(i % 3000 + 1));
        CHECK(block != NULL, "no memory");
        block[0] = (unsigned char)i;
        block = opaque(realloc(block, i % 500 + 1));
        CHECK(block && block[0] == (unsigned char)i, "realloc lost a byte");
        free(block);
    }
    return unused;
}

/* Who is inside hooks when they are taken away goes on in them. */
static void test_threads(void **state) {
    (void)state;
    static struct counts counts[2];
    struct prim_hooks hooks[2] = {counting(&counts[0]), counting(&counts[1])};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, allocate_much, NULL) == 0, "pthread_create");
    }
    for (int i = 0; i < CHANGES; i++) {
        prim_hooks_set(i % 3 == 2 ? NULL : &hooks[i % 3]);
        free(opaque(malloc(100)));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    prim_hooks_set(NULL);
    assert_true(counts[0].allocated >= CHANGES / 3);
    assert_true(counts[1].allocated >= CHANGES / 3);
}

int main(void) {
    expect_allocator();
    watchdog_start(100, "hooks");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_seen),
        cmocka_unit_test(test_memory_of_its_own),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_a_deleted_heap_leaves_nothing),
        cmocka_unit_test(test_threads),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    watchdog_stop();
    return failures;
}
