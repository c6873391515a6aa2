/* Arenas under random calls, threads and forks. */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/arena_check.h"

/* Random calls on some arenas against a shadow of what must be there. */
enum { ARENAS = 5, SLOTS = 600 };

struct slot {
    unsigned char *block;
    size_t size;
    unsigned arena; /* ARENAS: deleted */
};

static struct slot slots[SLOTS];
static struct arena *model[ARENAS];

static void check_slot(size_t index) {
    struct slot *slot = &slots[index];
    assert_int_equal(check_pattern(slot->block, slot->size, index), slot->size);
    assert_ptr_equal(arena_of(slot->block), slot->arena < ARENAS ? model[slot->arena] : NULL);
}

static void fill_slot(size_t index, unsigned char *block, size_t size, unsigned arena) {
    slots[index] = (struct slot){block, size, arena};
    fill_pattern(block, size, index);
}

static void step(struct random *random) {
    size_t index = random_below(random, SLOTS);
    struct slot *slot = &slots[index];
    size_t size = random_size(random, 100000);
    unsigned chosen = (unsigned)random_below(random, ARENAS);
    if (!slot->block) {
        struct arena_request request = {size, (size_t)1 << random_below(random, 15),
                                        random_below(random, 4) ? 0 : random_below(random, 5000)};
        unsigned char *block = arena_allocate_entering(model[chosen], request, NULL);
        assert_non_null(block);
        assert_int_equal(((uintptr_t)block + request.offset) % request.alignment, 0);
        fill_slot(index, block, size, chosen);
        return;
    }
    check_slot(index);
    if (random_below(random, 4) == 0) {
        unsigned char *block = reallocate(slot->block, size);
        assert_non_null(block);
        size_t kept = bits_min(size, slot->size);
        assert_int_equal(check_pattern(block, kept, index), kept);
        fill_slot(index, block, size, slot->arena);
        check_slot(index);
        return;
    }
    release(slot->block);
    slot->block = NULL;
}

static void end_arena(unsigned number, bool is_destroyed) {
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i].block && slots[i].arena == number) {
            slots[i].arena = ARENAS;
            slots[i].block = is_destroyed ? NULL : slots[i].block;
        }
    }
    if (is_destroyed) {
        arena_destroy(model[number]);
    } else {
        arena_delete(model[number]);
    }
    model[number] = arena_create();
}

static void test_model(void **state) {
    (void)state;
    struct random random = unit_random();
    size_t before = slices_settled();
    for (unsigned i = 0; i < ARENAS; i++) {
        model[i] = arena_create();
    }
    for (size_t i = 0; i < scaled(100000); i++) {
        step(&random);
        if (random_below(&random, 2000) == 0) {
            end_arena((unsigned)random_below(&random, ARENAS), random_below(&random, 2) == 0);
        }
        if (i % 997 == 0) {
            for (unsigned j = 0; j < ARENAS; j++) {
                check_arena(model[j]);
            }
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i].block) {
            check_slot(i);
            release(slots[i].block);
        }
    }
    for (unsigned i = 0; i < ARENAS; i++) {
        check_arena(model[i]);
        assert_int_equal(arena_counts(model[i]).live_count, 0);
        arena_destroy(model[i]);
    }
    assert_true(slices_settled() <= before + 1);
}

/* Threads share an arena, free each other's blocks, and make arenas of their own, which they delete
 * while the others still hold blocks of them. */
static struct arena *shared;
static _Atomic(void *) exchange[64];

static void churn(unsigned number) {
    struct random random = {.state = number + 1};
    struct arena *own = arena_create();
    for (size_t i = 0; i < scaled(20000); i++) {
        struct arena *arena = random_below(&random, 2) ? shared : own;
        size_t size = random_size(&random, 40000);
        unsigned char *block = take(arena, size);
        CHECK(block, "no memory for %zu bytes", size);
        block[0] = (unsigned char)i;
        block[size ? size - 1 : 0] = (unsigned char)i;
        void *other = atomic_exchange(&exchange[random_below(&random, 64)], block);
        CHECK(!other || usable_size(other) > 0, "a block lost its size");
        release(other);
        if (random_below(&random, 500) == 0) {
            arena_delete(own);
            own = arena_create();
        }
    }
    arena_delete(own);
}

static void test_threads(void **state) {
    (void)state;
    shared = arena_create();
    unit_run_threads(4, churn);
    for (size_t i = 0; i < 64; i++) {
        release(exchange[i]);
        exchange[i] = NULL;
    }
    check_arena(shared);
    assert_int_equal(arena_counts(shared).live_count, 0);
    arena_destroy(shared);
}

#ifndef PRIM_TEST_TSAN
/* A child is born while threads are in the midst of it, and finds the shared arena whole. */
static _Atomic bool is_over;

static void hammer(void) {
    void *kept[8] = {NULL};
    for (size_t i = 0; !atomic_load(&is_over); i++) {
        release(kept[i % 8]);
        kept[i % 8] = take(shared, i % 1000);
        if (i % 64 == 0) {
            arena_destroy(arena_create());
        }
    }
    for (size_t i = 0; i < 8; i++) {
        release(kept[i]);
    }
}

static void fork_or_hammer(unsigned number) {
    if (number) {
        hammer();
        return;
    }
    for (size_t i = 0; i < scaled(200); i++) {
        pid_t child = fork();
        if (child == 0) {
            watchdog_start(20, "child");
            check_arena(shared);
            release(take(shared, 5000));
            struct arena *arena = arena_create();
            CHECK(take(arena, 100), "no memory in the child");
            arena_destroy(arena);
            arena_destroy(shared);
            _exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "child ended with %d", status);
    }
    atomic_store(&is_over, true);
}

static void test_fork(void **state) {
    (void)state;
    shared = arena_create();
    unit_run_threads(4, fork_or_hammer);
    assert_int_equal(arena_counts(shared).live_count, 0);
    arena_destroy(shared);
}
#endif

int main(void) {
    heap_ensure();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_threads),
#ifndef PRIM_TEST_TSAN
        cmocka_unit_test(test_fork),
#endif
    };
    return cmocka_run_group_tests_name("arena storm", tests, NULL, NULL);
}
