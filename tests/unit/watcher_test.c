#include "objects/watcher.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects/allocate.h"
#include "objects/thread_cache.h"
#include "primalloc.h"
#include "unit/unit.h"

/* What a watcher saw last, and how many calls in all. */
static struct {
    struct request request;
    void *block;
    unsigned count;
    char order[8]; /* letters of the watchers that were asked, in their order */
    unsigned order_length;
} seen;

static void note(const struct request *request, void *block, char letter) {
    seen.request = *request;
    seen.block = block;
    seen.count++;
    seen.order[seen.order_length++ % sizeof seen.order] = letter;
}

static void *record_allocate(const struct watcher *self, const struct request *request) {
    note(request, NULL, self->rank == RANK_HOOKS ? 'a' : 'b');
    return watcher_pass_allocate(self, request);
}

static void *record_reallocate(const struct watcher *self, void *block,
                               const struct request *request) {
    note(request, block, 'r');
    return watcher_pass_reallocate(self, block, request);
}

static void record_release(const struct watcher *self, void *block, const struct request *request) {
    note(request, block, 'f');
    watcher_pass_release(self, block, request);
    errno = 4711; /* the program does not see that */
}

static size_t record_usable_size(const struct watcher *self, const void *block) {
    seen.count++;
    return watcher_pass_usable_size(self, block);
}

static struct watcher recorder = {record_allocate,    record_reallocate, record_release,
                                  record_usable_size, RANK_CHECKS,       NULL};
static struct watcher outer = {record_allocate,    record_reallocate, record_release,
                               record_usable_size, RANK_HOOKS,        NULL};

/* Everything that calls the allocator lies in this section, so that callers can be told. */
#define CALLER_SECTION __attribute__((section("callers"), noinline))
extern const char __start_callers[];
extern const char __stop_callers[];

static void expect_seen(enum call call, size_t size, size_t alignment, size_t stated_size) {
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.request.call, call);
    assert_int_equal(seen.request.size, size);
    assert_int_equal(seen.request.alignment, alignment);
    assert_int_equal(seen.request.stated_size, stated_size);
    assert_int_equal(seen.request.is_zeroed, call == CALL_CALLOC);
    assert_in_range((uintptr_t)seen.request.caller, (uintptr_t)__start_callers,
                    (uintptr_t)__stop_callers);
    seen.count = 0;
}

static void *expect_block(void *block, enum call call, size_t size, size_t alignment) {
    expect_seen(call, size, alignment, SIZE_NOT_STATED);
    assert_non_null(block);
    memset(block, 0x5a, size);
    return block;
}

static void expect_freed(void *block, enum call call, size_t alignment, size_t stated_size) {
    assert_ptr_equal(seen.block, block);
    assert_int_equal(errno, ERRNO_MARK);
    expect_seen(call, 0, alignment, stated_size);
}

/* Small, medium and large: each leaves the fast path in a way of its own. */
static const size_t sizes[] = {0, 1, 24, 1024, 1025, 30000, 262144, 262145, 3000000};

void *operator_new(size_t) __asm__("_Znwm");
void *operator_new_array(size_t) __asm__("_Znam");
void *operator_new_nothrow(size_t, const void *) __asm__("_ZnwmRKSt9nothrow_t");
void *operator_new_array_nothrow(size_t, const void *) __asm__("_ZnamRKSt9nothrow_t");
void *operator_new_aligned(size_t, size_t) __asm__("_ZnwmSt11align_val_t");
void *operator_new_array_aligned(size_t, size_t) __asm__("_ZnamSt11align_val_t");
void *operator_new_aligned_nothrow(size_t, size_t,
                                   const void *) __asm__("_ZnwmSt11align_val_tRKSt9nothrow_t");
void *operator_new_array_aligned_nothrow(size_t, size_t, const void *) __asm__(
    "_ZnamSt11align_val_tRKSt9nothrow_t");
void operator_delete(void *) __asm__("_ZdlPv");
void operator_delete_array(void *) __asm__("_ZdaPv");
void operator_delete_sized(void *, size_t) __asm__("_ZdlPvm");
void operator_delete_array_sized(void *, size_t) __asm__("_ZdaPvm");
void operator_delete_nothrow(void *, const void *) __asm__("_ZdlPvRKSt9nothrow_t");
void operator_delete_array_nothrow(void *, const void *) __asm__("_ZdaPvRKSt9nothrow_t");
void operator_delete_aligned(void *, size_t) __asm__("_ZdlPvSt11align_val_t");
void operator_delete_array_aligned(void *, size_t) __asm__("_ZdaPvSt11align_val_t");
void operator_delete_sized_aligned(void *, size_t, size_t) __asm__("_ZdlPvmSt11align_val_t");
void operator_delete_array_sized_aligned(void *, size_t, size_t) __asm__("_ZdaPvmSt11align_val_t");
void operator_delete_aligned_nothrow(void *, size_t,
                                     const void *) __asm__("_ZdlPvSt11align_val_tRKSt9nothrow_t");
void operator_delete_array_aligned_nothrow(void *, size_t, const void *) __asm__(
    "_ZdaPvSt11align_val_tRKSt9nothrow_t");

void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
void cfree(void *block);
void *memalign(size_t alignment, size_t size);
void *pvalloc(size_t size);
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
int __posix_memalign(void **result, size_t alignment, size_t size);
void __libc_free(void *block);
void __libc_cfree(void *block);

#define TAKEN(expression, call, size, alignment) \
    (block = expect_block(expression, call, size, alignment))
#define FREED(expression, call, alignment, stated_size) \
    (errno = ERRNO_MARK, expression, expect_freed(block, call, alignment, stated_size))

CALLER_SECTION static void call_the_family(size_t size) {
    void *block;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = size ? (size + page - 1) / page * page : page;
    TAKEN(malloc(size), CALL_MALLOC, size, 0);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(calloc(size, 1), CALL_CALLOC, size, 0);
    TAKEN(realloc(block, size + 1), CALL_REALLOC, size + 1, 0);
    TAKEN(reallocarray(block, 2, size + 1), CALL_REALLOC, 2 * (size + 1), 0);
    FREED(assert_null(realloc(block, 0)), CALL_REALLOC, 0, SIZE_NOT_STATED);
    TAKEN(realloc(NULL, size), CALL_REALLOC, size, 0);
    FREED(free_sized(block, size), CALL_FREE, 0, size);
    TAKEN(aligned_alloc(64, size), CALL_ALIGNED, size, 64);
    FREED(free_aligned_sized(block, 64, size), CALL_FREE, 64, size);
    assert_int_equal(posix_memalign(&block, 32, size), 0);
    expect_block(block, CALL_ALIGNED, size, 32);
    FREED(cfree(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(memalign(100, size), CALL_ALIGNED, size, 128);
    FREED(__libc_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(valloc(size), CALL_ALIGNED, size, page);
    FREED(__libc_cfree(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(pvalloc(size), CALL_ALIGNED, pages, page);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
}

CALLER_SECTION static void call_aliases(size_t size) {
    void *block;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = size ? (size + page - 1) / page * page : page;
    TAKEN(__libc_malloc(size), CALL_MALLOC, size, 0);
    TAKEN(__libc_realloc(block, size + 1), CALL_REALLOC, size + 1, 0);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(__libc_calloc(1, size), CALL_CALLOC, size, 0);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(__libc_memalign(256, size), CALL_ALIGNED, size, 256);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(__libc_valloc(size), CALL_ALIGNED, size, page);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(__libc_pvalloc(size), CALL_ALIGNED, pages, page);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    assert_int_equal(__posix_memalign(&block, 16, size), 0);
    expect_block(block, CALL_ALIGNED, size, 16);
    FREED(free(block), CALL_FREE, 0, SIZE_NOT_STATED);
}

CALLER_SECTION static void call_operators(size_t size) {
    void *block;
    TAKEN(operator_new(size), CALL_NEW, size, 0);
    FREED(operator_delete(block), CALL_DELETE, 0, SIZE_NOT_STATED);
    TAKEN(operator_new_nothrow(size, ""), CALL_NEW, size, 0);
    FREED(operator_delete_nothrow(block, ""), CALL_DELETE, 0, SIZE_NOT_STATED);
    TAKEN(operator_new(size), CALL_NEW, size, 0);
    FREED(operator_delete_sized(block, size), CALL_DELETE, 0, size);
    TAKEN(operator_new_aligned(size, 128), CALL_NEW, size, 128);
    FREED(operator_delete_aligned(block, 128), CALL_DELETE, 128, SIZE_NOT_STATED);
    TAKEN(operator_new_aligned_nothrow(size, 32, ""), CALL_NEW, size, 32);
    FREED(operator_delete_sized_aligned(block, size, 32), CALL_DELETE, 32, size);
    TAKEN(operator_new_aligned(size, 64), CALL_NEW, size, 64);
    FREED(operator_delete_aligned_nothrow(block, 64, ""), CALL_DELETE, 64, SIZE_NOT_STATED);
}

CALLER_SECTION static void call_array_operators(size_t size) {
    void *block;
    TAKEN(operator_new_array(size), CALL_NEW_ARRAY, size, 0);
    FREED(operator_delete_array(block), CALL_DELETE_ARRAY, 0, SIZE_NOT_STATED);
    TAKEN(operator_new_array_nothrow(size, ""), CALL_NEW_ARRAY, size, 0);
    FREED(operator_delete_array_nothrow(block, ""), CALL_DELETE_ARRAY, 0, SIZE_NOT_STATED);
    TAKEN(operator_new_array(size), CALL_NEW_ARRAY, size, 0);
    FREED(operator_delete_array_sized(block, size), CALL_DELETE_ARRAY, 0, size);
    TAKEN(operator_new_array_aligned(size, 128), CALL_NEW_ARRAY, size, 128);
    FREED(operator_delete_array_aligned(block, 128), CALL_DELETE_ARRAY, 128, SIZE_NOT_STATED);
    TAKEN(operator_new_array_aligned_nothrow(size, 32, ""), CALL_NEW_ARRAY, size, 32);
    FREED(operator_delete_array_sized_aligned(block, size, 32), CALL_DELETE_ARRAY, 32, size);
    TAKEN(operator_new_array_aligned(size, 64), CALL_NEW_ARRAY, size, 64);
    FREED(operator_delete_array_aligned_nothrow(block, 64, ""), CALL_DELETE_ARRAY, 64,
          SIZE_NOT_STATED);
}

CALLER_SECTION static void call_our_names(size_t size) {
    void *block;
    TAKEN(prim_malloc(size), CALL_MALLOC, size, 0);
    assert_true(prim_malloc_usable_size(block) >= size);
    assert_int_equal(seen.count, 1);
    seen.count = 0;
    FREED(prim_free_sized(block, size), CALL_FREE, 0, size);
    TAKEN(prim_calloc(1, size), CALL_CALLOC, size, 0);
    TAKEN(prim_realloc(block, size + 1), CALL_REALLOC, size + 1, 0);
    TAKEN(prim_rezalloc(block, size + 1, size + 1), CALL_REALLOC, size + 1, 0);
    FREED(prim_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(prim_heap_malloc(NULL, size), CALL_MALLOC, size, 0);
    FREED(prim_free_aligned_sized(block, 16, size), CALL_FREE, 16, size);
    TAKEN(prim_aligned_alloc(64, size), CALL_ALIGNED, size, 64);
    FREED(prim_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
}

CALLER_SECTION static void call_a_heap(size_t size) {
    void *block;
    prim_heap_t *heap = prim_heap_new();
    TAKEN(prim_heap_malloc(heap, size), CALL_MALLOC, size, 0);
    assert_ptr_equal(prim_heap_of(block), heap);
    TAKEN(prim_heap_realloc(heap, block, size + 1), CALL_REALLOC, size + 1, 0);
    assert_ptr_equal(prim_heap_of(block), heap);
    FREED(prim_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    TAKEN(prim_heap_calloc(heap, 1, size), CALL_CALLOC, size, 0);
    FREED(prim_free_sized(block, size), CALL_FREE, 0, size);
    TAKEN(prim_heap_malloc_aligned_at(heap, size, 64, 8), CALL_ALIGNED, size, 64);
    assert_true(((uintptr_t)block + 8) % 64 == 0);
    FREED(prim_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    for (size_t offset = 0; offset <= 8; offset += 8) {
        TAKEN(prim_malloc_aligned_at(size, 64, offset), CALL_ALIGNED, size, 64);
        FREED(prim_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
        TAKEN(prim_calloc_aligned_at(1, size, 64, offset), CALL_CALLOC, size, 64);
        assert_true(((uintptr_t)block + offset) % 64 == 0);
        FREED(prim_free(block), CALL_FREE, 0, SIZE_NOT_STATED);
    }
    prim_heap_destroy(heap);
}

static void test_every_function_is_seen_once(void **state) {
    (void)state;
    watcher_register(&recorder);
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        call_the_family(sizes[i]);
        call_aliases(sizes[i]);
        call_operators(sizes[i]);
        call_array_operators(sizes[i]);
        call_our_names(sizes[i]);
        call_a_heap(sizes[i]);
    }
    watcher_unregister(&recorder);
}

static void test_nothing_is_seen_while_nobody_watches(void **state) {
    (void)state;
    watcher_register(&recorder);
    free(malloc(100));
    watcher_unregister(&recorder);
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        operator_delete_sized(operator_new(sizes[i]), sizes[i]);
        free(realloc(malloc(sizes[i]), 50));
    }
    assert_int_equal(seen.count, 0);
    assert_false(watcher_is_any());
    assert_ptr_equal(thread_cache_visible, thread_cache_own());
}

/* Outermost first, whoever came first; each once, however often it is registered. */
static void test_order_of_the_chain(void **state) {
    (void)state;
    struct watcher *pairs[2][2] = {{&recorder, &outer}, {&outer, &recorder}};
    for (unsigned i = 0; i < 2; i++) {
        watcher_register(pairs[i][0]);
        watcher_register(pairs[i][1]);
        watcher_register(pairs[i][0]);
        memset(&seen, 0, sizeof seen);
        void *block = opaque(malloc(10));
        assert_memory_equal(seen.order, "ab\0", 3);
        watcher_unregister(pairs[i][0]);
        free(block);
        assert_int_equal(seen.count, 3);
        watcher_unregister(pairs[i][1]);
        watcher_unregister(pairs[i][1]);
        assert_false(watcher_is_any());
    }
}

/* A watcher that allocates inside itself, as a hook of the program's would. */
static unsigned depth;
static unsigned depth_most;

static void *nested_allocate(const struct watcher *self, const struct request *request) {
    depth++;
    depth_most = depth > depth_most ? depth : depth_most;
    if (watcher_enter(self)) {
        free(malloc(500));
        watcher_leave(self);
    }
    depth--;
    return watcher_pass_allocate(self, request);
}

static struct watcher nested = {nested_allocate,    record_reallocate, record_release,
                                record_usable_size, RANK_HOOKS,        NULL};

static void allocate_nested(void) {
    depth = depth_most = 0;
    free(opaque(malloc(10)));
    free(opaque(malloc(300000)));
}

static void test_recursion_ends(void **state) {
    (void)state;
    watcher_register(&nested);
    allocate_nested();
    watcher_unregister(&nested);
    assert_int_equal(depth_most, 2);
}

/* A thread that is past its destructors has no cache to keep the mark in. */
static void *run_without_cache(void *unused) {
    (void)unused;
    thread_cache_refuse();
    assert_true(thread_cache_has_ended());
    watcher_register(&nested);
    allocate_nested();
    watcher_unregister(&nested);
    assert_true(thread_cache_has_ended());
    return NULL;
}

static void test_recursion_ends_without_cache(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_without_cache, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(depth_most, 2);
}

/* The child goes on with the forking thread's marks, and with the chain. */
static void test_child_of_a_fork(void **state) {
    (void)state;
    watcher_register(&recorder);
    assert_true(watcher_enter(&recorder));
    pid_t child = fork();
    if (child == 0) {
        bool is_inside = !watcher_enter(&recorder);
        watcher_leave(&recorder);
        memset(&seen, 0, sizeof seen);
        free(opaque(malloc(10)));
        unsigned count = seen.count;
        watcher_unregister(&recorder);
        _exit(is_inside && count == 2 ? 0 : 1);
    }
    watcher_leave(&recorder);
    watcher_unregister(&recorder);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Registered while another thread is on its fast path: that one's calls are seen as soon as a list
 * of its blocks is used up or full, and its blocks of before are passed on. */
static _Atomic bool is_started;
static _Atomic unsigned seen_in_thread;

static void *count_allocate(const struct watcher *self, const struct request *request) {
    add_relaxed(&seen_in_thread, 1);
    return watcher_pass_allocate(self, request);
}

static void pass_release(const struct watcher *self, void *block, const struct request *request) {
    watcher_pass_release(self, block, request);
}

static struct watcher counter = {count_allocate,     record_reallocate, pass_release,
                                 record_usable_size, RANK_PROFILE,      NULL};

static void *run_until_seen(void *unused) {
    (void)unused;
    static void *blocks[20000]; /* more than lists may hold */
    for (unsigned round = 0; round < 20000 && load_relaxed(&seen_in_thread) < 100; round++) {
        for (unsigned i = 0; i < ARRAY_LENGTH(blocks); i++) {
            blocks[i] = malloc(i % 400);
        }
        store_relaxed(&is_started, true);
        for (unsigned i = 0; i < ARRAY_LENGTH(blocks); i++) {
            free(blocks[i]);
        }
    }
    return NULL;
}

static void test_other_threads_follow(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_until_seen, NULL), 0);
    while (!load_relaxed(&is_started)) {
        usleep(1000);
    }
    watcher_register(&counter);
    pthread_join(thread, NULL);
    watcher_unregister(&counter);
    assert_true(load_relaxed(&seen_in_thread) >= 100);
}

/* One that comes and goes while another thread's calls pass on to who stands behind: each function
 * gets its own watcher. */
static struct watcher coming;
static _Atomic bool is_over;
static _Atomic unsigned mistaken;

static void coming_release(const struct watcher *self, void *block, const struct request *request) {
    add_relaxed(&mistaken, self != &coming);
    watcher_pass_release(self, block, request);
}

static struct watcher coming = {watcher_pass_allocate, watcher_pass_reallocate,
                                coming_release,        watcher_pass_usable_size,
                                RANK_PROFILE,          NULL};
static struct watcher staying = {watcher_pass_allocate, watcher_pass_reallocate,
                                 watcher_pass_release,  watcher_pass_usable_size,
                                 RANK_CHECKS,           NULL};

static void *run_until_over(void *unused) {
    while (!load_relaxed(&is_over)) {
        free(opaque(malloc(40)));
    }
    return unused;
}

static void test_each_function_gets_its_watcher(void **state) {
    (void)state;
    static const struct prim_hooks no_hooks; /* whose watcher passes everything on */
    pthread_t thread;
    prim_hooks_set(&no_hooks);
    watcher_register(&staying);
    assert_int_equal(pthread_create(&thread, NULL, run_until_over, NULL), 0);
    for (unsigned round = 0; round < 5000000; round++) {
        watcher_register(&coming);
        watcher_unregister(&coming);
    }
    store_relaxed(&is_over, true);
    pthread_join(thread, NULL);
    watcher_unregister(&staying);
    prim_hooks_set(NULL);
    assert_int_equal(load_relaxed(&mistaken), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_function_is_seen_once),
        cmocka_unit_test(test_nothing_is_seen_while_nobody_watches),
        cmocka_unit_test(test_order_of_the_chain),
        cmocka_unit_test(test_recursion_ends),
        cmocka_unit_test(test_recursion_ends_without_cache),
        cmocka_unit_test(test_child_of_a_fork),
        cmocka_unit_test(test_other_threads_follow),
        cmocka_unit_test(test_each_function_gets_its_watcher),
    };
    return cmocka_run_group_tests_name("watcher", tests, NULL, NULL);
}
