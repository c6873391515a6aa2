/* Growth by realloc.
 *
 * vector: <arrays> arrays side by side grow by <step> bytes at a time up to <largest> bytes, in
 * turn, as string buffers and append loops do: most steps should find room in place. doubling: each
 * array doubles from 16 bytes up to <largest>: every step copies unless pages can be moved. Both
 * start anew <rounds> times.
 */
#include "workload.h"

static const char *const way_words[] = {"vector", "doubling", NULL};

static struct argument arguments[] = {
    {"way", "by a step or twofold", 0, 0, 1, way_words},
    {"arrays", "arrays that grow side by side", 16, 1, 1000000, NULL},
    {"largest", "bytes to which each array grows", 65536, 16, (uint64_t)1 << 32, NULL},
    {"step", "bytes added at a time (vector)", 16, 1, 1 << 30, NULL},
    {"rounds", "rounds", 10, 1, UINT32_MAX, NULL},
};

static unsigned char *array_grown(unsigned char *array, size_t from, size_t to) {
    if (from) block_verify(array, from);
    unsigned char kept = from ? array[from - 1] : 0;
    array = (unsigned char *)block_found(realloc(array, to), to);
    if (from && array[from - 1] != kept)
        workload_fail("realloc from %zu to %zu bytes lost contents", from, to);
    /* New bytes are written, as a program that appends would. */
    memset(array + from, 1, to - from);
    block_write(array, to);
    return array;
}

static size_t size_next(size_t bytes) {
    if (arguments[0].value == 1) return bytes ? 2 * bytes : 16;
    return bytes + arguments[3].value;
}

static uint64_t round_run(unsigned char **arrays) {
    uint64_t calls = 0;
    size_t bytes = 0;
    for (size_t next; (next = size_next(bytes)) <= arguments[2].value; bytes = next) {
        for (uint64_t a = 0; a < arguments[1].value; a++)
            arrays[a] = array_grown(arrays[a], bytes, next);
        calls += arguments[1].value;
    }
    for (uint64_t a = 0; a < arguments[1].value; a++) {
        if (arrays[a]) block_delete(arrays[a], bytes);
        arrays[a] = NULL;
    }
    return calls;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Arrays that grow by realloc.", arguments,
                    sizeof arguments / sizeof *arguments);
    unsigned char **arrays = (unsigned char **)table_new(arguments[1].value, sizeof *arrays);
    double started_s = time_now_s();
    uint64_t calls = 0;
    for (uint64_t r = 0; r < arguments[4].value; r++) calls += round_run(arrays);
    report_print(calls, started_s);
    free(arrays);
    return 0;
}
