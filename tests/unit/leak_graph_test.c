/* States of blocks against a search of every path, over random graphs. */
#include "watch/leak_graph.h"

#include "unit/unit.h"
#include "watch/leak_suppress.h"

enum { BLOCKS = 40, WORDS = 5 };

static uintptr_t memory[BLOCKS][WORDS];
static uintptr_t roots[3], ignored_roots[2];
static bool leads[BLOCKS][BLOCKS];

static unsigned target_of(uintptr_t word) {
    uintptr_t offset = word - (uintptr_t)memory;
    return word >= (uintptr_t)memory && offset < sizeof memory
               ? (unsigned)(offset / sizeof memory[0])
               : BLOCKS;
}

/* Pointers to the beginning, into the middle, beside blocks, and no pointers. */
static uintptr_t any_word(struct random *random) {
    unsigned block = (unsigned)random_below(random, BLOCKS);
    switch (random_below(random, 6)) {
    case 0:
        return (uintptr_t)memory[block];
    case 1:
        return (uintptr_t)memory[block] + random_below(random, sizeof memory[0]);
    case 2:
        return (uintptr_t)memory - 8;
    case 3:
        return (uintptr_t)memory + sizeof memory + random_below(random, 100);
    default:
        return random_below(random, 3);
    }
}

static void close_over(bool *reached) {
    for (unsigned round = 0; round < BLOCKS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            for (unsigned j = 0; reached[i] && j < BLOCKS; j++) {
                reached[j] |= leads[i][j];
            }
        }
    }
}

static void make(struct random *random, struct live_table *table) {
    memset(leads, 0, sizeof leads);
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct live_block block = {.address = (uintptr_t)memory[i], .size = sizeof memory[i]};
        assert_true(live_table_put(table, &block));
        for (unsigned j = 0; j < WORDS; j++) {
            memory[i][j] = any_word(random);
            unsigned target = target_of(memory[i][j]);
            if (target < BLOCKS) {
                leads[i][target] = true;
            }
        }
    }
    for (unsigned i = 0; i < ARRAY_LENGTH(roots); i++) {
        roots[i] = any_word(random);
    }
    for (unsigned i = 0; i < ARRAY_LENGTH(ignored_roots); i++) {
        ignored_roots[i] = any_word(random);
    }
}

static void mark(bool *reached, const uintptr_t *words, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (target_of(words[i]) < BLOCKS) {
            reached[target_of(words[i])] = true;
        }
    }
    close_over(reached);
}

static void check_leaks(const struct leak_graph *graph, const bool *leaks) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        const struct leak_block *block = &graph->blocks[i];
        if (!leaks[i]) {
            continue;
        }
        bool is_pointed_to = false;
        for (unsigned j = 0; j < BLOCKS; j++) {
            is_pointed_to |= j != i && leaks[j] && leads[j][i];
        }
        assert_true(block->state == LEAK_DIRECT || block->state == LEAK_INDIRECT);
        assert_true(is_pointed_to || block->state == LEAK_DIRECT);
        if (block->state == LEAK_INDIRECT) {
            bool reached[BLOCKS] = {false};
            const struct leak_block *holder = block;
            for (unsigned steps = 0; holder->state == LEAK_INDIRECT; steps++) {
                holder = &graph->blocks[holder->holder];
                assert_true(steps < BLOCKS);
            }
            reached[holder - graph->blocks] = true;
            close_over(reached);
            assert_true(reached[i]); /* the holder leads here */
        }
    }
}

static void states_are_those_of_a_search(void **state) {
    (void)state;
    struct random random = unit_random();
    for (unsigned round = 0; round < 500; round++) {
        struct live_table table = {0};
        struct leak_graph graph = {0};
        bool reached[BLOCKS] = {false}, ignored[BLOCKS] = {false}, leaks[BLOCKS];
        make(&random, &table);
        mark(reached, roots, ARRAY_LENGTH(roots));
        mark(ignored, ignored_roots, ARRAY_LENGTH(ignored_roots));
        assert_true(leak_graph_make(&graph, &table));
        leak_graph_follow(&graph, (uintptr_t)roots, (uintptr_t)(roots + ARRAY_LENGTH(roots)),
                          LEAK_REACHABLE);
        leak_graph_follow(&graph, (uintptr_t)ignored_roots,
                          (uintptr_t)(ignored_roots + ARRAY_LENGTH(ignored_roots)), LEAK_IGNORED);
        leak_graph_divide(&graph);
        assert_int_equal(graph.count, BLOCKS);
        for (unsigned i = 0; i < BLOCKS; i++) {
            const struct leak_block *block = &graph.blocks[i];
            assert_int_equal(block->address, (uintptr_t)memory[i]); /* sorted */
            assert_int_equal(block->state == LEAK_REACHABLE, reached[i]);
            assert_int_equal(block->state == LEAK_IGNORED, ignored[i] && !reached[i]);
            leaks[i] = !reached[i] && !ignored[i];
        }
        check_leaks(&graph, leaks);
        leak_graph_end(&graph);
        live_table_empty(&table);
    }
}

static void strict_wants_the_beginning(void **state) {
    (void)state;
    struct live_table table = {0};
    struct leak_graph graph = {.is_strict = true};
    memset(memory, 0, sizeof memory);
    for (unsigned i = 0; i < 4; i++) {
        struct live_block block = {.address = (uintptr_t)memory[i], .size = sizeof memory[i]};
        assert_true(live_table_put(&table, &block));
    }
    roots[0] = (uintptr_t)memory[0];
    roots[1] = (uintptr_t)memory[1] + 8;
    roots[2] = 0;
    memory[1][2] = (uintptr_t)memory[2];
    assert_true(leak_graph_make(&graph, &table));
    leak_graph_follow(&graph, (uintptr_t)roots, (uintptr_t)(roots + 3), LEAK_REACHABLE);
    leak_graph_divide(&graph);
    const enum leak_state expected[] = {LEAK_REACHABLE, LEAK_INNER, LEAK_INDIRECT, LEAK_DIRECT};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(graph.blocks[i].state, expected[i]);
    }
    leak_graph_end(&graph);
    live_table_empty(&table);
}

static void patterns_are_those_of_leak_sanitizer(void **state) {
    (void)state;
    assert_true(leak_pattern_matches("make", "a_make_b"));
    assert_true(leak_pattern_matches("^make$", "make"));
    assert_true(leak_pattern_matches("ma*e\nnext", "xx_maaaake_b"));
    assert_true(leak_pattern_matches("^*b$", "ab"));
    assert_true(leak_pattern_matches("*", ""));
    assert_false(leak_pattern_matches("^make", "a_make"));
    assert_false(leak_pattern_matches("make$", "make_b"));
    assert_false(leak_pattern_matches("mk", "make"));
    assert_false(leak_pattern_matches("a*z", "abc"));
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_those_of_a_search),
        cmocka_unit_test(strict_wants_the_beginning),
        cmocka_unit_test(patterns_are_those_of_leak_sanitizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
