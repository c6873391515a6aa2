/* Growth by realloc.
 *
 * vector: <arrays> arrays side by side grow by <step> bytes at a time up to <largest> bytes, in
 * turn, as string buffers and append loops do: most steps should find room in place. doubling: each
 * array doubles from 16 bytes up to <largest>: every step copies unless pages can be moved. Both
 * start anew <rounds> times. chains: random arrays grow or shrink to anything from half to twice
 * their size, 100 times each a round, as buffers do that live long. leaps: arrays side by side grow
 * by <step> per cent at a time, each up to its own size between half of <largest> and <largest>; a
 * round later a quarter of them is still there.
 */
#include "workload.h"

enum { WAY_VECTOR, WAY_DOUBLING, WAY_CHAINS, WAY_LEAPS };

static const char *const way_words[] = {"vector", "doubling", "chains", "leaps", NULL};

static struct argument arguments[] = {
    {"way", "by a step, twofold, up and down, by per cents", WAY_VECTOR, 0, 0, way_words},
    {"arrays", "arrays that grow side by side", 16, 1, 1000000, NULL},
    {"largest", "bytes to which each array grows", 65536, 16, (uint64_t)1 << 32, NULL},
    {"step", "bytes (vector) or per cents (leaps) added at a time", 16, 1, 1 << 30, NULL},
    {"rounds", "rounds", 10, 1, UINT32_MAX, NULL},
};

static unsigned char *array_resized(unsigned char *array, size_t from, size_t to) {
    if (from) block_verify(array, from);
    size_t both = from < to ? from : to;
    unsigned char kept = both ? array[both - 1] : 0;
    array = (unsigned char *)block_found(realloc(array, to), to);
    if (both && array[both - 1] != kept)
        workload_fail("realloc from %zu to %zu bytes lost contents", from, to);
    /* New bytes are written, as a program that appends would. */
    memset(array + both, 1, to - both);
    block_write(array, to);
    return array;
}

static size_t size_next(size_t bytes) {
    if (arguments[0].value == WAY_DOUBLING) return bytes ? 2 * bytes : 16;
    return bytes + arguments[3].value;
}

static uint64_t round_run(unsigned char **arrays) {
    uint64_t calls = 0;
    size_t bytes = 0;
    for (size_t next; (next = size_next(bytes)) <= arguments[2].value; bytes = next) {
        for (uint64_t a = 0; a < arguments[1].value; a++)
            arrays[a] = array_resized(arrays[a], bytes, next);
        calls += arguments[1].value;
    }
    for (uint64_t a = 0; a < arguments[1].value; a++) {
        if (arrays[a]) block_delete(arrays[a], bytes);
        arrays[a] = NULL;
    }
    return calls;
}

static uint64_t chains_run(unsigned char **arrays, struct random_stream *random) {
    enum { STEPS_EACH = 100, LEAST = 16 };
    uint64_t count = arguments[1].value;
    size_t *sizes = (size_t *)table_new(count, sizeof *sizes);
    for (uint64_t step = 0; step < STEPS_EACH * count; step++) {
        uint64_t a = random_below(random, count);
        size_t from = sizes[a] ? sizes[a] : LEAST;
        size_t to = from / 2 + random_below(random, from + from / 2 + 1);
        to = to < LEAST ? LEAST : to;
        to = to > arguments[2].value ? arguments[2].value : to;
        arrays[a] = array_resized(arrays[a], sizes[a], to);
        sizes[a] = to;
    }
    for (uint64_t a = 0; a < count; a++) {
        if (arrays[a]) block_delete(arrays[a], sizes[a]);
        arrays[a] = NULL;
    }
    free(sizes);
    return STEPS_EACH * count;
}

/* Array a is to have no more than this. */
static size_t leaps_limit(uint64_t a) {
    size_t half = arguments[2].value / 2;
    return half + (a * 2654435761u) % (half + 1);
}

/* Makes each array that may still grow greater by a leap, and returns how many did. */
static uint64_t leaps_turn(unsigned char **arrays, size_t *sizes) {
    enum { FIRST = 64 };
    uint64_t grown = 0;
    for (uint64_t a = 0; a < arguments[1].value; a++) {
        size_t next = sizes[a] ? sizes[a] + sizes[a] * arguments[3].value / 100 + 16 : FIRST;
        if (next <= leaps_limit(a)) {
            arrays[a] = array_resized(arrays[a], sizes[a], next);
            sizes[a] = next;
            grown++;
        }
    }
    return grown;
}

static uint64_t leaps_run(unsigned char **arrays) {
    size_t *sizes = (size_t *)table_new(arguments[1].value, sizeof *sizes);
    struct random_stream random = random_seeded(1);
    uint64_t calls = 0;
    for (uint64_t r = arguments[4].value; r > 0; r--) {
        for (uint64_t grown; (grown = leaps_turn(arrays, sizes)) != 0;) calls += grown;
        for (uint64_t a = 0; a < arguments[1].value; a++) {
            if (!arrays[a] || (r > 1 && random_below(&random, 4) == 0)) continue;
            block_delete(arrays[a], sizes[a]);
            arrays[a] = NULL;
            sizes[a] = 0;
        }
    }
    free(sizes);
    return calls;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Arrays that grow by realloc.", arguments,
                    sizeof arguments / sizeof *arguments);
    unsigned char **arrays = (unsigned char **)table_new(arguments[1].value, sizeof *arrays);
    double started_s = time_now_s();
    uint64_t calls = 0;
    struct random_stream random = random_seeded(1);
    uint64_t rounds = arguments[0].value == WAY_LEAPS ? 0 : arguments[4].value;
    if (!rounds) calls = leaps_run(arrays);
    for (uint64_t r = 0; r < rounds; r++) {
        calls += arguments[0].value == WAY_CHAINS ? chains_run(arrays, &random) : round_run(arrays);
    }
    report_print(calls, started_s);
    free(arrays);
    return 0;
}
