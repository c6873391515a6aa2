/* Sums by site of leaks that hang on each other. */
#include "watch/leak_report.h"

#include "os/memory.h"
#include "unit/unit.h"
#include "watch/site.h"

/* A walk to the end from each block would take hours. */
enum { NODES = 2 << 20, NODE_SIZE = 16 };

static struct site of_nodes, of_last;

static const struct leak_site *row_of(const struct leak_report *report, const struct site *site) {
    for (size_t i = 0; i < report->count; i++) {
        if (report->sites[i].site == site) {
            return &report->sites[i];
        }
    }
    return NULL;
}

/* A list that was built at its front: each node points to the one before, and was found first. */
static void a_long_chain_hangs_on_its_end(void **state) {
    (void)state;
    size_t bytes = sizeof(struct leak_block) * NODES;
    struct leak_graph graph = {.blocks = memory_map(bytes), .count = NODES, .capacity = NODES};
    struct leak_report report;
    assert_non_null(graph.blocks);
    for (uint32_t i = 0; i < NODES; i++) {
        bool is_last = i == NODES - 1;
        graph.blocks[i] = (struct leak_block){.size = NODE_SIZE,
                                              .site = is_last ? &of_last : &of_nodes,
                                              .holder = is_last ? i : i + 1,
                                              .state = is_last ? LEAK_DIRECT : LEAK_INDIRECT};
    }
    assert_true(leak_report_make(&report, &graph));
    assert_int_equal(report.leaked.objects, NODES);
    assert_int_equal(report.count, 2);
    enum { LEAKED, LEAKED_BYTES, HELD, HELD_BYTES, INDIRECT, INDIRECT_BYTES };
    const struct leak_site *direct = row_of(&report, &of_last);
    assert_non_null(direct);
    assert_int_equal(direct->values[LEAKED], 1);
    assert_int_equal(direct->values[HELD], NODES - 1);
    assert_int_equal(direct->values[HELD_BYTES], (int64_t)(NODES - 1) * NODE_SIZE);
    const struct leak_site *indirect = row_of(&report, &of_nodes);
    assert_non_null(indirect);
    assert_int_equal(indirect->values[INDIRECT_BYTES], (int64_t)(NODES - 1) * NODE_SIZE);
    assert_int_equal(indirect->values[HELD] + indirect->values[LEAKED], 0);
    leak_report_end(&report);
    memory_unmap(graph.blocks, bytes);
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_chain_hangs_on_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
