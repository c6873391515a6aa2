#include "pages/page_heap.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/purge.h"
#include "pages/sparse.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { LIVE_MAX = 200, EXTENTS_MAX = 2000, THREADS = 4 };

struct live {
    struct span *span;
    uint64_t tag;
};

static struct live live[LIVE_MAX];
static size_t live_count;
static uint64_t next_tag;
static struct unit_extent dirty[EXTENTS_MAX];
static struct unit_extent clean[EXTENTS_MAX];
static size_t dirty_count;
static size_t clean_count;
static size_t most_in_use;

static void look_at_trees(void) {
    dirty_count = unit_extents(&page_heap.dirty, dirty, EXTENTS_MAX);
    clean_count = unit_extents(&page_heap.clean, clean, EXTENTS_MAX);
}

/* Marks both ends of a span's memory. */
static void stamp(const struct span *span, uint64_t tag) {
    *(uint64_t *)span->address = tag;
    *(uint64_t *)(span_end(span) - 8) = tag;
}

static void check_stamp(const struct live *entry) {
    CHECK(*(uint64_t *)entry->span->address == entry->tag &&
              *(uint64_t *)(span_end(entry->span) - 8) == entry->tag,
          "the contents of a span in use changed");
}

static size_t sum_of(const struct unit_extent *extents, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += extents[i].slice_count;
    }
    return sum;
}

/* Whether a span consists of what was dirty and clean when we looked, a quarter of it dirty: where
 * no dirty span fits such neighbours serve before a clean one does, from a megabyte on. */
static bool was_free_run(const struct span *span) {
    size_t from_dirty = unit_overlap(span, dirty, dirty_count);
    size_t from_clean = unit_overlap(span, clean, clean_count);
    bool is_wanted = dirty_count == 0 || dirty[dirty_count - 1].slice_count < span->slice_count;
    return is_wanted && span->slice_count >= 64 && from_clean &&
           from_dirty + from_clean == span->slice_count && 4 * from_dirty >= span->slice_count &&
           !span->is_zero;
}

static bool is_joined(const struct unit_extent *extents, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (extents[i].address + extents[i].slice_count * SLICE_SIZE == extents[j].address) {
                return false;
            }
        }
    }
    return true;
}

/* That what is kept apart is no more than it may be. */
static void check_quick(size_t in_use) {
    enum { SPANS_MAX = 256 };
    const struct quick_lists *quick = &page_heap.quick;
    CHECK(quick->span_count <= SPANS_MAX, "%u spans apart", quick->span_count);
    CHECK(quick->span_count <= 1 || quick->slice_count <= most_in_use,
          "%zu slices apart, %zu in use", quick->slice_count, in_use);
}

/* The equation of the header, the trees' sums and that equal neighbours are joined. */
static void check_heap(void) {
    size_t in_use = 0;
    look_at_trees();
    for (size_t i = 0; i < live_count; i++) {
        in_use += live[i].span->slice_count;
    }
    most_in_use = bits_max(most_in_use, in_use);
    check_quick(in_use);
    CHECK(sum_of(dirty, dirty_count) + page_heap.quick.slice_count == page_heap.dirty.slice_count,
          "dirty slices");
    CHECK(sum_of(clean, clean_count) == page_heap.clean.slice_count, "slices of the clean tree");
    CHECK(page_heap.clean.slice_count + page_heap.dirty.slice_count + in_use ==
              page_heap.mapped_slices,
          "clean %zu + dirty %zu + in use %zu, mapped %zu", page_heap.clean.slice_count,
          page_heap.dirty.slice_count, in_use, page_heap.mapped_slices);
    CHECK(is_joined(dirty, dirty_count), "dirty neighbours are apart");
    CHECK(is_joined(clean, clean_count), "clean neighbours are apart");
}

/* Where the documented order of search ends: a span freed of late that is just the size, then best
 * fit, lowest address, dirty first, all dirty ones joined before a clean one, where any of lists of
 * one size is apart; or 0. But for neighbours that serve together. */
static uintptr_t expected_address(size_t slice_count) {
    const struct span *apart = page_heap.quick.newest[quick_list_of(slice_count)];
    for (int tried = 0; apart && tried < 32; tried++, apart = apart->next) {
        if (apart->slice_count == slice_count) {
            return apart->address;
        }
    }
    look_at_trees();
    for (size_t i = 0; i < dirty_count; i++) { /* smallest first, lowest address first */
        if (dirty[i].slice_count >= slice_count) {
            return dirty[i].address;
        }
    }
    if (quick_has_small(&page_heap.quick) && !load_relaxed(&sparse_is_on)) {
        page_heap_settle();
        return expected_address(slice_count);
    }
    for (size_t i = 0; i < clean_count; i++) {
        if (clean[i].slice_count >= slice_count) {
            return clean[i].address;
        }
    }
    return 0;
}

static void check_zero(const struct span *span) {
    for (uintptr_t slice = span->address; slice < span_end(span); slice += SLICE_SIZE / 2) {
        CHECK(*(uint64_t *)slice == 0 && *(uint64_t *)(slice + SLICE_SIZE / 2 - 8) == 0,
              "a span said to be zero is not");
    }
}

static void check_apart(const struct span *span) {
    for (size_t i = 0; i < live_count; i++) {
        CHECK(span_end(span) <= live[i].span->address || span_end(live[i].span) <= span->address,
              "spans overlap");
    }
}

static void allocate_one(size_t slice_count, size_t alignment) {
    uintptr_t expected = alignment <= SLICE_SIZE ? expected_address(slice_count) : 0;
    struct span *span = page_heap_allocate(slice_count, alignment);
    CHECK(span != NULL, "no memory for %zu slices", slice_count);
    CHECK(span_state(span) == SPAN_BUSY && span->slice_count == slice_count, "%u slices of %zu",
          span->slice_count, slice_count);
    CHECK(span->address % bits_max(alignment, SLICE_SIZE) == 0, "not a multiple of %zu", alignment);
    CHECK(expected == 0 || span->address == expected || was_free_run(span),
          "not the best fit, lowest and dirty first");
    check_apart(span);
    if (span->is_zero) {
        check_zero(span);
    }
    span_publish(span, SPAN_LARGE, 1);
    stamp(span, ++next_tag);
    live[live_count++] = (struct live){span, next_tag};
}

static void free_one(size_t index) {
    check_stamp(&live[index]);
    span_withdraw(live[index].span);
    page_heap_free(live[index].span, SPAN_DIRTY);
    live[index] = live[--live_count];
}

/* The free slices that follow a span: a neighbour is clean or dirty, and grows are into one. */
static size_t free_behind(const struct span *span) {
    page_heap_settle();
    look_at_trees();
    for (size_t i = 0; i < dirty_count; i++) {
        if (dirty[i].address == span_end(span)) {
            return dirty[i].slice_count;
        }
    }
    for (size_t i = 0; i < clean_count; i++) {
        if (clean[i].address == span_end(span)) {
            return clean[i].slice_count;
        }
    }
    return 0;
}

static void grow_one(struct live *entry, size_t more) {
    size_t before = entry->span->slice_count;
    uintptr_t address = entry->span->address;
    bool fits = free_behind(entry->span) >= more;
    check_stamp(entry);
    CHECK((page_heap_grow(entry->span, before + more) != SPAN_NONE) == fits,
          "growing by %zu slices", more);
    CHECK(entry->span->address == address, "growing moved a span");
    CHECK(entry->span->slice_count == before + (fits ? more : 0), "size after growing");
    CHECK(*(uint64_t *)address == entry->tag, "growing changed the contents");
    CHECK(span_state(entry->span) == SPAN_LARGE, "growing changed the state");
    stamp(entry->span, entry->tag);
}

static void shrink_one(struct live *entry, size_t less) {
    size_t kept = entry->span->slice_count - less;
    check_stamp(entry);
    page_heap_cut(entry->span, kept);
    CHECK(entry->span->slice_count == kept, "size after shrinking");
    CHECK(span_state(entry->span) == SPAN_LARGE, "shrinking changed the state");
    page_heap_free(span_of_slice(span_end(entry->span)), SPAN_DIRTY);
    CHECK(free_behind(entry->span) >= less, "the end is not free");
    stamp(entry->span, entry->tag);
}

static void step(struct random *random) {
    uint64_t dice = random_below(random, 10);
    size_t index = live_count ? random_below(random, live_count) : 0;
    if (live_count == 0 || (dice < 5 && live_count < LIVE_MAX)) {
        size_t slices = random_size(random, 100);
        size_t alignment = dice == 0 ? (size_t)1 << random_below(random, 22) : 0;
        allocate_one(slices ? slices : 1, alignment);
    } else if (dice < 8) {
        free_one(index);
    } else if (dice == 8) {
        grow_one(&live[index], random_below(random, 30) + 1);
    } else if (live[index].span->slice_count > 1) {
        shrink_one(&live[index], random_below(random, live[index].span->slice_count - 1) + 1);
    }
}

static void free_all(void) {
    while (live_count) {
        free_one(live_count - 1);
        check_heap();
    }
}

static void test_random_walk(void **state) {
    (void)state;
    struct random random = unit_random();
    for (size_t i = 0; i < scaled(8000); i++) {
        step(&random);
        check_heap();
    }
    free_all();
    assert_int_equal(unit_slices_in_use(), 0);
}

static void test_coalescing(void **state) {
    (void)state;
    enum { COUNT = 7, SLICES = 64 };
    static const int orders[][COUNT] = {
        {0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {0, 2, 4, 6, 1, 3, 5}};
    page_heap_settle();
    allocate_one(COUNT * SLICES, 0); /* one dirty extent that all below is cut from */
    uintptr_t start = live[0].span->address;
    size_t in_use = live[0].span->slice_count;
    free_one(0);
    for (size_t order = 0; order < ARRAY_LENGTH(orders); order++) {
        struct span *parts[COUNT];
        struct span *whole = page_heap_allocate(in_use, 0);
        lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
        parts[0] = whole;
        for (int i = 0; i + 1 < COUNT; i++) {
            parts[i + 1] = page_heap_split(parts[i], SLICES);
        }
        for (int i = 0; i < COUNT; i++) {
            page_heap_insert(parts[orders[order][i]], SPAN_DIRTY);
        }
        lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
        struct span *joined = span_of_slice(start);
        while (span_state(joined) != SPAN_DIRTY) {
            joined = span_of_slice(joined->address - SLICE_SIZE);
        }
        assert_true(joined->address <= start);
        assert_true(span_end(joined) >= start + COUNT * SLICES * SLICE_SIZE);
        check_heap();
    }
}

/* Clean and dirty neighbours stay apart, and what was clean is known to be zero. */
static void test_states(void **state) {
    (void)state;
    struct span *span = page_heap_allocate(32, 0);
    uintptr_t address = span->address;
    memset((void *)address, 0xaa, span_size(span));
    assert_true(memory_purge((void *)address, span_size(span)));
    page_heap_free(span, SPAN_CLEAN);
    assert_int_equal(span_state(span_of_slice(address + 31 * SLICE_SIZE)) == SPAN_DIRTY, false);
    check_heap();
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    struct span *clean_span = span_of_slice(address);
    if (span_state(clean_span) == SPAN_CLEAN && clean_span->address == address) {
        page_heap_remove(clean_span);
        assert_true(clean_span->is_zero);
        check_zero(clean_span);
        page_heap_insert(clean_span, SPAN_CLEAN);
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    check_heap();
}

/* What is aligned far more than it is large serves again, without new address space each time. */
static void test_aligned_spans_come_back(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 5, EXACT_MAX, EXACT_MAX + 40};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (size_t alignment = 4 * SLICE_SIZE; alignment <= (size_t)64 << 20; alignment *= 4) {
            purge_all(0);
            size_t mapped = 0;
            for (int again = 0; again < 10; again++) {
                struct span *spans[3];
                for (int j = 0; j < 3; j++) {
                    spans[j] = page_heap_allocate(sizes[i], alignment);
                    assert_int_equal(spans[j]->address % alignment, 0);
                }
                for (int j = 0; j < 3; j++) {
                    page_heap_free(spans[j], SPAN_DIRTY);
                }
                check_heap();
                mapped = again ? mapped : page_heap.mapped_slices;
                assert_int_equal(page_heap.mapped_slices, mapped);
            }
        }
    }
}

static void test_no_memory(void **state) {
    (void)state;
    size_t mapped = page_heap.mapped_slices;
    assert_null(page_heap_allocate((size_t)1 << (PRIM_ADDRESS_BITS - SLICE_SHIFT), 0));
    assert_null(page_heap_allocate(1, (size_t)1 << PRIM_ADDRESS_BITS));
    assert_int_equal(page_heap.mapped_slices, mapped);
    check_heap();
}

static void exchange_spans(unsigned number) {
    struct random random = {number + 1};
    struct live own[16] = {{0}};
    for (size_t i = 0; i < scaled(5000); i++) {
        struct live *entry = &own[random_below(&random, ARRAY_LENGTH(own))];
        if (entry->span) {
            check_stamp(entry);
            span_withdraw(entry->span);
            page_heap_free(entry->span, SPAN_DIRTY);
            entry->span = NULL;
        } else {
            entry->span = page_heap_allocate(random_below(&random, 20) + 1, 0);
            CHECK(entry->span != NULL, "no memory");
            entry->tag = (uint64_t)number << 32 | i;
            span_publish(entry->span, SPAN_LARGE, 1);
            stamp(entry->span, entry->tag);
        }
    }
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++) {
        if (own[i].span) {
            check_stamp(&own[i]);
            span_withdraw(own[i].span);
            page_heap_free(own[i].span, SPAN_DIRTY);
        }
    }
}

/* Whatever looks at spans have told, and until the next one. */
static void set_sparse(bool is_on) {
    store_relaxed(&sparse_is_on, is_on);
    store_relaxed(&sparse_look_is_due, false);
}

/* Where blocks stay untouched inside, a span taken and freed again and again is the same one, with
 * free neighbours, too; where they no longer do, it joins these before clean memory is taken. */
static void test_kept_apart(void **state) {
    (void)state;
    static const size_t sizes[] = {SPARSE_MIN, 16, QUICK_MAX};
    size_t page = bits_max(memory_page_size(), SLICE_SIZE);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        if (sizes[i] * SLICE_SIZE < page) {
            continue; /* a purge leaves parts of pages, which join from below, or do alone */
        }
        purge_all(0);
        struct span *span = page_heap_allocate(sizes[i], 0);
        uintptr_t address = span->address;
        for (int turn = 0; turn < 3; turn++) {
            set_sparse(true);
            page_heap_free(span, SPAN_DIRTY);
            assert_ptr_equal(page_heap.quick.newest[sizes[i]], span);
            assert_int_equal(page_heap.quick.span_count, 1);
            check_heap();
            uint64_t searches = page_heap.search_count;
            span = page_heap_allocate(sizes[i], 0);
            assert_int_equal(span->address, address);
            assert_false(span->is_zero);
            assert_int_equal(page_heap.search_count, searches);
        }
        page_heap_free(span, SPAN_DIRTY);
        set_sparse(false);
        struct span *other = page_heap_allocate(sizes[i] - 1, 0);
        assert_true(address - other->address < page);
        assert_int_equal(page_heap.quick.span_count, 0);
        page_heap_free(other, SPAN_DIRTY);
        check_heap();
    }
}

static void fill(const struct span *span, size_t size) {
    memset((void *)span->address, 7, size);
}

/* A large span that is bare serves its own size again, whatever others do, and nothing else; one
 * that is filled joins what is free. */
static void test_large_bare_are_apart(void **state) {
    (void)state;
    enum { LARGE = QUICK_MAX + 1, BARE = 4 };
    static const size_t sizes[BARE] = {LARGE, LARGE + 1, 500, LARGE};
    struct span *bare[BARE];
    uintptr_t addresses[BARE];
    purge_all(0);
    struct span *full = page_heap_allocate(LARGE, 0);
    fill(full, span_size(full));
    struct span *lasting = page_heap_allocate(4000, 0); /* as much may be apart as is in use */
    for (size_t i = 0; i < BARE; i++) {
        bare[i] = page_heap_allocate(sizes[i], 0);
        addresses[i] = bare[i]->address;
        memory_purge((void *)addresses[i], span_size(bare[i])); /* it may have been a dirty one */
    }
    for (size_t i = 0; i < BARE; i++) {
        fill(bare[i], span_size(bare[i]) / 4);
    }
    for (size_t i = 0; i < BARE; i++) {
        page_heap_free(bare[i], SPAN_DIRTY);
    }
    page_heap_free(full, SPAN_DIRTY);
    struct span *half = page_heap_allocate(700, 0);
    fill(half, span_size(half) / 2);
    page_heap_free(half, SPAN_DIRTY);
    assert_false(load_relaxed(&sparse_is_on));
    assert_int_equal(page_heap.quick.span_count, BARE);
    struct span *other = page_heap_allocate(LARGE + 2, 0); /* from clean memory */
    for (size_t i = 0; i < BARE; i++) {
        assert_true(span_end(other) <= addresses[i] || addresses[i] < other->address);
    }
    page_heap_free(other, SPAN_CLEAN);
    static const size_t order[BARE] = {2, 3, 1, 0}; /* the newer one of a size first */
    for (size_t i = 0; i < BARE; i++) {
        bare[i] = page_heap_allocate(sizes[order[i]], 0);
        assert_int_equal(bare[i]->address, addresses[order[i]]);
        assert_false(bare[i]->is_zero);
    }
    for (size_t i = 0; i < BARE; i++) {
        page_heap_free(bare[i], SPAN_DIRTY);
    }
    options.hardened = true;
    struct span *guarded = page_heap_allocate(600, 0);
    page_heap_free(guarded, SPAN_DIRTY);
    options.hardened = false;
    assert_int_equal(page_heap.quick.span_count, BARE);
    purge_all(0);
    assert_int_equal(page_heap.quick.span_count, 0);
    page_heap_free(lasting, SPAN_DIRTY);
    purge_all(0);
    check_heap();
}

/* Many freed in a row: as many stay apart as may. */
static void test_few_are_apart(void **state) {
    (void)state;
    enum { COUNT = 300, SLICES = 16 };
    struct span *spans[COUNT];
    struct span *lasting = page_heap_allocate(COUNT * SLICES * 2, 0);
    for (size_t i = 0; i < COUNT; i++) {
        spans[i] = page_heap_allocate(SLICES + i % 4, 0);
    }
    set_sparse(true);
    for (size_t i = 0; i < COUNT; i++) {
        page_heap_free(spans[i], SPAN_DIRTY);
        assert_true(page_heap.quick.span_count == bits_min(i + 1, 256));
    }
    set_sparse(false);
    purge_all(0);
    assert_int_equal(page_heap.quick.span_count, 0);
    page_heap_free(lasting, SPAN_DIRTY);
    check_heap();
}

static void test_threads(void **state) {
    (void)state;
    unit_run_threads(THREADS, exchange_spans);
    check_heap();
    assert_int_equal(unit_slices_in_use(), 0);
}

int main(void) {
    unit_touch_single_pages();
    options.thp = THP_NEVER; /* an emulator refuses the former */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walk),   cmocka_unit_test(test_coalescing),
        cmocka_unit_test(test_states),        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_kept_apart),    cmocka_unit_test(test_large_bare_are_apart),
        cmocka_unit_test(test_few_are_apart), cmocka_unit_test(test_aligned_spans_come_back),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("page heap", tests, NULL, NULL);
}
