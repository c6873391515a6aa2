/* Destructors of thread-specific data that free and allocate, in every round that POSIX allows,
 * also when the program took all keys first (T43, T44, T45). */
#include "support/support.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static size_t key_count;
static pthread_key_t rounds_key;
static _Atomic int destructor_calls;

static void free_value(void *value) {
    struct random random = {(uintptr_t)value};
    free(value);
    /* Fills the cache that the thread's end may already have emptied. */
    for (int i = 0; i < 20; i++) {
        free(opaque(malloc(random_size(&random, 5000))));
    }
    destructor_calls++;
}

/* In POSIX's last round ThreadSanitizer's own destructor ends what it knows of the thread. */
#ifdef PRIM_TEST_TSAN
enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS - 1 };
#else
enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS };
#endif

struct round {
    int number;
    char body[500];
};

/* Sets its own key again, so that it runs in each of the rounds. */
static void next_round(void *value) {
    struct round *old = value;
    struct round *fresh = opaque(malloc(sizeof *fresh));
    CHECK(fresh != NULL, "no memory in round %d", old->number);
    fresh->number = old->number + 1;
    memset(fresh->body, fresh->number, sizeof fresh->body);
    CHECK(old->body[499] == (char)old->number, "the block of round %d changed", old->number);
    free(old);
    destructor_calls++;
    if (fresh->number < ROUNDS) {
        pthread_setspecific(rounds_key, fresh);
    } else {
        free(fresh);
    }
}

static void *use_keys(void *argument) {
    (void)argument;
    for (size_t i = 0; i < key_count; i++) {
        pthread_setspecific(keys[i], opaque(malloc(i % 700 + 1)));
    }
    struct round *first = opaque(calloc(1, sizeof *first));
    CHECK(first != NULL, "no memory");
    pthread_setspecific(rounds_key, first);
    return NULL;
}

/* POSIX promises 1024 keys in all; what others took before is theirs. */
static void take_all_keys(void) {
    CHECK(pthread_key_create(&rounds_key, next_round) == 0, "no key at all");
    while (key_count < PTHREAD_KEYS_MAX && pthread_key_create(&keys[key_count], free_value) == 0) {
        key_count++;
    }
}

static void run_ten_rounds(void) {
    for (int round = 0; round < 10; round++) {
        destructor_calls = 0;
        pthread_t threads[10];
        for (int i = 0; i < 10; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, use_keys, NULL), 0);
        }
        for (int i = 0; i < 10; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(destructor_calls, 10 * (key_count + ROUNDS));
    }
}

/* What threads leave behind would grow each time. What they take when more of them meet than ever
 * before, or what a tool has for each, grows once. */
static void test_t45_destructors_free_and_allocate(void **state) {
    (void)state;
    assert_true(key_count > 900);
    run_ten_rounds();
    size_t before;
    size_t after;
    int runs = 0;
    do {
        before = resident_bytes();
        run_ten_rounds();
        after = resident_bytes();
    } while (after >= before + (4 << 20) && ++runs < 3); /* one huge page may come */
    CHECK(runs < 3, "resident memory grew from %zu to %zu KiB in the third run", before >> 10,
          after >> 10);
}

int main(void) {
    /* Before anything else: the prefixed library has not been called yet. */
    take_all_keys();
    expect_allocator();
    watchdog_start(120, "threads/thread_keys");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t45_destructors_free_and_allocate),
    };
    return cmocka_run_group_tests_name("thread-specific data", tests, NULL, NULL);
}
