#include "watch/snapshot.h"

#include <unistd.h>

#include "objects/allocate.h"
#include "objects/arena.h"
#include "objects/slab.h"
#include "os/memory.h"
#include "pages/huge.h"
#include "pages/limits.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/unit.h"

static const size_t large_size = (size_t)1 << 20;

static struct class_snapshot classes[SNAPSHOT_CLASS_COUNT];

static void check_sums(const struct snapshot *snapshot) {
    struct class_snapshot sum = {0};
    uint64_t balance = 0;
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        balance += figure_at(i).group == GROUP_BALANCE ? ((const uint64_t *)snapshot)[i] : 0;
    }
    assert_int_equal(balance, snapshot->mapped_bytes);
    for (unsigned i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
        for (unsigned j = 0; j < CLASS_FIGURE_COUNT; j++) {
            ((uint64_t *)&sum)[j] += ((const uint64_t *)&classes[i])[j];
        }
        assert_int_equal(classes[i].cached_bytes,
                         classes[i].cached_blocks * classes[i].block_bytes);
    }
    assert_int_equal(sum.live_bytes, snapshot->live_bytes + snapshot->large_bytes);
    assert_int_equal(sum.live_blocks, snapshot->live_blocks + snapshot->large_blocks);
    assert_int_equal(sum.cached_bytes, snapshot->cached_bytes);
    assert_int_equal(sum.cached_blocks, snapshot->cached_blocks);
    assert_int_equal(sum.partial_bytes, snapshot->partial_bytes);
    assert_int_equal(sum.partial_blocks, snapshot->partial_blocks);
    assert_int_equal(sum.uncarved_bytes, snapshot->uncarved_bytes);
    assert_int_equal(sum.asleep_bytes, snapshot->asleep_bytes);
    assert_int_equal(sum.slabs, snapshot->slabs);
    assert_int_equal(sum.slabs_made, snapshot->slabs_made + classes[CLASS_COUNT].slabs_made);
    assert_int_equal(sum.allocations + snapshot->heap_allocations, snapshot->allocations);
    assert_int_equal(sum.frees + snapshot->heap_frees, snapshot->frees);
    assert_int_equal(sum.requested_bytes + snapshot->heap_requested_bytes,
                     snapshot->requested_bytes);
}

static struct snapshot take_checked(void) {
    struct snapshot snapshot;
    struct snapshot again;
    snapshot_take(&snapshot, classes, NULL);
    check_sums(&snapshot);
    assert_int_equal(snapshot.mapped_bytes, page_heap.mapped_slices * SLICE_SIZE);
    assert_true(snapshot.untouched_bytes <= snapshot.uncarved_bytes + snapshot.heap_free_bytes);
    assert_true(snapshot.spans <= snapshot.spans_peak &&
                snapshot.spans_peak <= snapshot.spans_taken);
    assert_true(snapshot.slabs <= snapshot.slabs_peak &&
                snapshot.slabs_peak <= snapshot.slabs_made);
    assert_true(snapshot.held_bytes <= snapshot.held_peak_bytes);
    snapshot_take(&again, NULL, NULL); /* in a quiet process two looks see the same */
    assert_memory_equal(&again, &snapshot, offsetof(struct snapshot, elapsed_ms));
    return snapshot;
}

/* As where the library's own structures have grown since the heap last did. */
static void test_peak_is_no_less_than_what_is_held(void **state) {
    (void)state;
    store_relaxed(&limits.held_peak, SLICE_SIZE);
    size_t peak = take_checked().held_peak_bytes;
    assert_int_equal(load_relaxed(&limits.held_peak), peak);
}

static size_t slab_bytes(const struct snapshot *snapshot) {
    return snapshot->live_bytes + snapshot->cached_bytes + snapshot->partial_bytes +
           snapshot->uncarved_bytes + snapshot->asleep_bytes;
}

static void test_large_blocks(void **state) {
    (void)state;
    release(allocate(large_size)); /* the first one may settle what is idle */
    purge_all(0);
    release(allocate(100));
    struct snapshot before = take_checked();
    void *block = allocate(large_size);
    struct snapshot with = take_checked();
    assert_int_equal(with.large_bytes - before.large_bytes, large_size);
    assert_int_equal(with.large_blocks, before.large_blocks + 1);
    assert_int_equal(slab_bytes(&with), slab_bytes(&before));
    release(block);
    struct snapshot after = take_checked();
    assert_int_equal(after.large_bytes, before.large_bytes);
    assert_int_equal(after.large_blocks, before.large_blocks);
    assert_int_equal(after.dirty_bytes - before.dirty_bytes, large_size);
}

/* Blocks of a class are live while they are held, then in the thread's cache or their slabs. */
static void follow_class(size_t size) {
    enum { COUNT = 200 };
    static void *blocks[COUNT];
    unsigned row = size_class_of(size) - 1;
    struct snapshot before = take_checked();
    struct class_snapshot class_before = classes[row];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(size);
    }
    struct snapshot with = take_checked();
    struct class_snapshot class_with = classes[row];
    assert_int_equal(class_with.block_bytes, size);
    assert_int_equal(class_with.live_blocks - class_before.live_blocks, COUNT);
    assert_int_equal(with.live_bytes - before.live_bytes, COUNT * size);
    assert_int_equal(with.large_bytes, before.large_bytes);
    for (int i = 0; i < COUNT; i++) {
        release(blocks[i]);
    }
    struct snapshot after = take_checked();
    assert_int_equal(classes[row].live_blocks, class_before.live_blocks);
    assert_int_equal(after.live_bytes, before.live_bytes);
    thread_cache_flush(thread_cache_own());
    slab_trim();
    struct snapshot flushed = take_checked();
    assert_int_equal(flushed.cached_bytes, 0);
    assert_int_equal(flushed.cached_blocks, 0);
    assert_int_equal(flushed.live_bytes, before.live_bytes);
}

static void test_classes(void **state) {
    (void)state;
    release(allocate(1)); /* the thread's first collection comes now or never */
    for (int i = 0; i < 5000; i++) {
        release(allocate(2000 + (size_t)i * 7));
    }
    follow_class(16);
    follow_class(1024);
    follow_class(20480);
    follow_class(131072); /* a slab for each block */
}

/* A bin without capacity has what is left of the list that the slabs gave for one call. */
static void test_bins_without_capacity(void **state) {
    (void)state;
    size_t usual = options.cache_count;
    options.cache_count = 0;
    thread_cache_flush(thread_cache_own());
    follow_class(16);
    follow_class(704);
    follow_class(1024);
    options.cache_count = usual;
}

/* One block in twenty is kept: its slab has pages to give where it has several. */
static void follow_sleeping_pages(size_t size) {
    enum { COUNT = 400 };
    static void *blocks[COUNT];
    const struct size_class *class = &size_classes[size_class_of(size)];
    bool has_pages = class->slices * SLICE_SIZE >= 3 * memory_page_size();
    thread_cache_flush(thread_cache_own());
    slab_trim();
    slab_purge(true);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(size);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 20) {
            release(blocks[i]);
        }
    }
    thread_cache_flush(thread_cache_own());
    slab_trim();
    struct snapshot before = take_checked();
    size_t returned = slab_purge(true);
    struct snapshot with = take_checked();
    assert_true(returned > 0 || !has_pages);
    assert_int_equal(with.asleep_bytes - before.asleep_bytes, returned);
    assert_int_equal(with.live_bytes, before.live_bytes);
    assert_int_equal(slab_bytes(&with), slab_bytes(&before));
    assert_true(with.purge_calls > before.purge_calls || !has_pages);
    assert_int_equal(with.purged_bytes - before.purged_bytes, returned);
    for (int i = 0; i < COUNT; i += 20) {
        release(blocks[i]);
    }
    thread_cache_flush(thread_cache_own());
    slab_trim();
    assert_int_equal(take_checked().asleep_bytes, before.asleep_bytes);
}

/* Pages of slabs in use that were given back are told apart. A slab of the larger size has several
 * pages, however large they are. */
static void test_sleeping_pages(void **state) {
    (void)state;
    follow_sleeping_pages(2048);
    follow_sleeping_pages(30720);
}

static void test_the_rest(void **state) {
    (void)state;
    static int variable;
    struct snapshot before = take_checked();
    assert_int_equal(before.threads, 1);
    assert_true(before.metadata_bytes > 0);
    assert_true(before.held_peak_bytes > 0);
    release(&variable);
    struct snapshot after = take_checked();
    assert_int_equal(after.foreign_pointers, before.foreign_pointers + 1);
    assert_int_equal(after.rss_bytes + after.minor_faults, 0); /* nobody asked for them */
    assert_int_equal(after.metadata_resident_bytes + after.resident_bytes, 0);
    snapshot_take_all(&after, NULL, NULL);
    assert_true(after.metadata_resident_bytes > 0 &&
                after.metadata_resident_bytes < after.resident_bytes);
    assert_true(after.rss_bytes > 0 && after.rss_peak_bytes > 0 && after.virtual_bytes > 0);
    assert_true(after.minor_faults > 0);
    assert_true(after.elapsed_ms < 1000 * 3600);
}

/* What the kernel holds for the heap's address space. Dirty extents count as a whole: of them the
 * books say only that they may be resident, and slabs leave room there that nobody touched. */
static size_t kernel_bytes(void) {
    size_t bytes = 0;
    size_t slices = 0;
    uintptr_t address = page_heap.newest_address;
    while (slices < page_heap.mapped_slices) {
        struct span *span = span_of_slice(address);
        bool is_span = span && span_state(span) != SPAN_NONE;
        size_t size = is_span ? span_size(span) : SLICE_SIZE;
        assert_true(address < (uintptr_t)1 << PRIM_ADDRESS_BITS);
        bool is_dirty = is_span && span_state(span) == SPAN_DIRTY;
        bytes += is_dirty ? size : is_span ? memory_resident((void *)address, size) : 0;
        slices += is_span ? span->slice_count : 0;
        address += size;
    }
    return bytes;
}

static void expect_balance(const char *when) {
    struct snapshot snapshot = take_checked();
    if (is_emulated()) {
        return; /* the heap's mappings lie apart, and nobody finds the lowest */
    }
    snapshot_take_all(&snapshot, NULL, NULL);
    size_t ours = snapshot.resident_bytes + snapshot.huge_unused_bytes;
    size_t kernel = kernel_bytes() + snapshot.metadata_resident_bytes;
    size_t difference = ours > kernel ? ours - kernel : kernel - ours;
    size_t allowed = bits_max(kernel / 100, 65536);
    CHECK(difference <= allowed, "%s: %zu by our books, %zu by the kernel's", when, ours, kernel);
    printf("%s: %zu KiB by our books, %zu by the kernel's\n", when, ours >> 10, kernel >> 10);
}

/* Heaps of all sizes, most of their memory in great chunks, of which the last is carved in part.
 * Without huge pages: where one was asked for, now or before, room in chunks and cells that nobody
 * touched counts as resident or not by whether the kernel had one. */
static void test_balance_with_heaps(void **state) {
    (void)state;
    size_t thp = options.thp;
    options.thp = THP_NEVER;
    enum { COUNT = 200 };
    static struct arena *heaps[COUNT];
    struct random random = unit_random();
    purge_all(0);
    size_t live = 0;
    for (size_t i = 0; i < COUNT; i++) {
        heaps[i] = arena_create();
        size_t blocks = i % 40 ? i : 20000 + 100 * i;
        for (size_t j = 0; j < blocks; j++) {
            size_t size = random_below(&random, j % 400 ? 2000 : 100000) + 1;
            void *block =
                arena_allocate_entering(heaps[i], (struct arena_request){.size = size}, NULL);
            assert_non_null(block);
            memset(block, 1, usable_size(block));
            live += usable_size(block);
        }
    }
    expect_balance("heaps");
    struct snapshot with = take_checked();
    assert_int_equal(with.heap_bytes, live);
    assert_int_equal(with.heaps, COUNT);
    assert_true(with.heap_free_bytes < live / 5);
    arena_delete(arena_create());
    for (size_t i = 0; i < COUNT; i++) {
        arena_destroy(heaps[i]);
    }
    struct snapshot without = take_checked();
    assert_int_equal(without.heap_bytes, 0);
    assert_true(without.heap_free_bytes <= SLICE_SIZE); /* one slice of cells stays */
    purge_all(0);
    expect_balance("heaps gone");
    options.thp = thp;
}

/* Most sizes are small, as programs' are; all blocks are touched to their
 * ends, because what nobody touches of a block counts as live all the same. Fresh blocks in the
 * thread's bins count as touched, too, so the heap is not too small. */
static void test_balance_is_the_kernels(void **state) {
    (void)state;
    enum { COUNT = 60000 };
    static void *blocks[COUNT];
    struct random random = unit_random();
    purge_all(0); /* other tests freed what they never touched */
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = random_below(&random, i % 200 ? 6000 : 600000) + 1;
        blocks[i] = allocate(size);
        memset(blocks[i], 1, usable_size(blocks[i]));
    }
    expect_balance("full");
    for (size_t i = 0; i < COUNT; i++) {
        if (random_below(&random, 10) > 1) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    }
    expect_balance("a fifth left");
    thread_cache_flush(thread_cache_own());
    slab_purge(true);
    expect_balance("slabs purged");
    purge_all(0);
    huge_return_waste();
    expect_balance("all purged");
    for (size_t i = 0; i < COUNT; i++) {
        release(blocks[i]);
    }
    thread_cache_flush(thread_cache_own());
    slab_trim();  /* lists may wait for other threads, and keep slabs in which pages sleep */
    purge_all(0); /* what slept in slabs counts as dirty once they are free */
    expect_balance("empty");
}

static void count_calls(void) {
    options.stats = 1;
    thread_cache_apply_options();
    for (size_t size = 1; size < large_size; size *= 2) {
        release(reallocate(allocate(size), size));
    }
    options.stats = 0;
    thread_cache_apply_options();
}

/* A destroyed heap's blocks count as freed. */
static void test_calls_of_heaps(void **state) {
    (void)state;
    struct snapshot before = take_checked();
    options.stats = 1;
    thread_cache_apply_options();
    struct arena *heap = arena_create();
    for (size_t size = 1; size < large_size; size *= 2) {
        void *block = arena_allocate_entering(heap, (struct arena_request){.size = size}, NULL);
        block = reallocate(block, 3 * size);
        if (size % 3 == 1) {
            release(block);
        }
    }
    struct snapshot with = take_checked();
    assert_int_equal(with.heap_allocations - with.heap_frees -
                         (before.heap_allocations - before.heap_frees),
                     with.heap_blocks);
    assert_true(with.heap_allocations - before.heap_allocations >= 20);
    assert_true(with.heap_requested_bytes - before.heap_requested_bytes >= large_size - 1);
    arena_destroy(heap);
    options.stats = 0;
    thread_cache_apply_options();
    struct snapshot after = take_checked();
    assert_int_equal(after.heap_allocations - before.heap_allocations,
                     after.heap_frees - before.heap_frees);
    assert_int_equal(after.allocations - before.allocations, after.frees - before.frees);
}

/* Peaks stay where they were, totals go on. */
static void test_peaks(void **state) {
    (void)state;
    enum { COUNT = 500, SIZE = 3072 };
    static void *blocks[COUNT];
    unsigned row = size_class_of(SIZE) - 1;
    options.stats = 1;
    thread_cache_apply_options();
    thread_cache_flush(thread_cache_own());
    slab_trim();
    take_checked();
    struct class_snapshot before = classes[row];
    struct class_snapshot large = classes[CLASS_COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = allocate(SIZE);
        }
        for (int i = 0; i < COUNT; i++) {
            release(blocks[i]);
        }
        thread_cache_flush(thread_cache_own());
        slab_trim();
    }
    release(reallocate(allocate(64 * large_size), 128 * large_size));
    release(allocate(32 * large_size));
    options.stats = 0;
    thread_cache_apply_options();
    take_checked();
    struct class_snapshot after = classes[row];
    assert_int_equal(after.peak_blocks, COUNT);
    assert_int_equal(after.allocations - before.allocations, 2 * COUNT);
    size_t slab_size = size_classes[row + 1].slices * SLICE_SIZE;
    size_t slabs = (COUNT + size_classes[row + 1].capacity - 1) / size_classes[row + 1].capacity;
    assert_true(after.peak_bytes >= slabs * slab_size);
    assert_true(after.peak_bytes <= bits_max(before.peak_bytes, (slabs + 2) * slab_size));
    assert_true(after.slabs_made - before.slabs_made >= 2 * (slabs - 1));
    assert_true(after.slabs <= before.slabs + 1);
    assert_true(classes[CLASS_COUNT].peak_bytes >= 128 * large_size);
    assert_true(classes[CLASS_COUNT].peak_bytes < 256 * large_size);
    assert_true(classes[CLASS_COUNT].slabs_made - large.slabs_made >= 2);
}

static void count_in_thread(unsigned number) {
    (void)number;
    void *block = allocate(10);
    (void)block;
    release(block);
}

static void test_calls(void **state) {
    (void)state;
    struct snapshot before = take_checked();
    count_calls();
    struct snapshot after = take_checked();
    assert_int_equal(after.allocations - before.allocations, 20);
    assert_int_equal(after.frees - before.frees, 20);
    assert_int_equal(after.reallocations - before.reallocations, 20);
    assert_int_equal(after.requested_bytes - before.requested_bytes, large_size - 1);
    release(allocate(10)); /* without the option nobody counts */
    assert_int_equal(take_checked().allocations, after.allocations);
    options.stats = 1;
    unit_run_threads(3, count_in_thread); /* threads that have exited are counted, too */
    options.stats = 0;
    assert_int_equal(take_checked().allocations - after.allocations, 3);
    assert_int_equal(take_checked().frees - after.frees, 3);
}

static void test_line(void **state) {
    (void)state;
    char text[256];
    char expected[256];
    struct snapshot snapshot = take_checked();
    struct print out = print_to(text, sizeof text - 1);
    options.stats = 1;
    snapshot_print_calls(&out);
    options.stats = 0;
    text[out.length] = '\0';
    int length = snprintf(
        expected, sizeof expected,
        "primalloc pid=%d program=%s allocations=%llu frees=%llu "
        "reallocations=%llu",
        (int)getpid(), program_invocation_short_name, (unsigned long long)snapshot.allocations,
        (unsigned long long)snapshot.frees, (unsigned long long)snapshot.reallocations);
    assert_memory_equal(text, expected, (size_t)length);
    assert_true(text[length] == ' ' || text[length] == '\n');
    assert_ptr_equal(strchr(text, '\n'), text + out.length - 1);
}

/* A block that moves from class to class is one that one class lost and another won. */
static void test_calls_by_class(void **state) {
    (void)state;
    static struct class_snapshot before[SNAPSHOT_CLASS_COUNT];
    take_checked();
    memcpy(before, classes, sizeof before);
    options.stats = 1;
    thread_cache_apply_options();
    char *block = allocate(1);
    for (size_t size = 2; size < 8 * large_size; size += size / 3 + 1) {
        block = reallocate(block, size);
    }
    release(allocate_aligned(3000, 4096));
    release(allocate_zeroed(100000, 0));
    take_checked();
    for (unsigned i = 0; i + 1 < SNAPSHOT_CLASS_COUNT; i++) {
        assert_int_equal(classes[i].allocations - before[i].allocations,
                         classes[i].frees - before[i].frees);
    }
    const struct class_snapshot *large = &classes[CLASS_COUNT];
    assert_int_equal(large->allocations - before[CLASS_COUNT].allocations,
                     large->frees - before[CLASS_COUNT].frees + 1);
    release(block);
    options.stats = 0;
    thread_cache_apply_options();
}

int main(void) {
    options.maintenance = 0; /* nobody purges between two looks */
    options.purge_delay = 3600 * 1000;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balance_with_heaps), /* before any huge page was asked for */
        cmocka_unit_test(test_peak_is_no_less_than_what_is_held),
        cmocka_unit_test(test_large_blocks),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_bins_without_capacity),
        cmocka_unit_test(test_sleeping_pages),
        cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_calls_by_class),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_balance_is_the_kernels),
        cmocka_unit_test(test_calls_of_heaps),
        cmocka_unit_test(test_peaks),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
