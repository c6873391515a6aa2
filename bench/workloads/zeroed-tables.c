/* Zeroed tables, each used in a few places only: hash tables, bitmaps, page tables, frames.
 *
 * Each thread keeps <tables> of <least> to <largest> bytes from calloc, every power of two equally
 * likely, and replaces random ones, <replacements> in all. Into each it writes <entries> words at
 * random places, and it looks first that they are zero: whether calloc touches what fresh pages
 * have anyway is the difference between the memory that the program uses and all that it asks for.
 */
#include "figures.h"

static struct argument arguments[] = {
    {"threads", "threads side by side", 2, 1, THREADS_MOST, NULL},
    {"tables", "tables that each thread keeps", 400, 1, 10000000, NULL},
    {"replacements", "by each thread", 20000, 0, UINT32_MAX, NULL},
    {"entries", "words written into each table", 4, 0, 1 << 20, NULL},
    {"least", "log2 of the least size", 11, 4, 30, NULL},
    {"largest", "log2 of the largest", 18, 5, 31, NULL},
};

struct table {
    uint64_t *words;
    uint64_t count;
};

/* All tables are there before the first one goes: memory does not depend on who happens to run. */
static pthread_barrier_t all_done;
static size_t kept; /* resident bytes then */

static struct table table_filled(struct random_stream *random) {
    size_t bytes =
        random_size_log(random, (unsigned)arguments[4].value, (unsigned)arguments[5].value - 1);
    struct table table = {(uint64_t *)table_new(bytes, 1), bytes / sizeof(uint64_t)};
    for (uint64_t e = 0; e < arguments[3].value; e++) {
        uint64_t place = random_below(random, table.count);
        uint64_t mark = block_mark(&table.words[place], bytes);
        if (table.words[place] && table.words[place] != mark)
            workload_fail("calloc of %zu bytes gave memory that is not zero", bytes);
        table.words[place] = mark;
    }
    return table;
}

static void *replace(void *context) {
    struct random_stream random = random_seeded(*(uint64_t *)context);
    struct table *tables = (struct table *)table_new(arguments[1].value, sizeof *tables);
    for (uint64_t t = 0; t < arguments[1].value; t++) tables[t] = table_filled(&random);
    for (uint64_t i = 0; i < arguments[2].value; i++) {
        struct table *table = &tables[random_below(&random, arguments[1].value)];
        free(table->words);
        *table = table_filled(&random);
    }
    if (pthread_barrier_wait(&all_done) == PTHREAD_BARRIER_SERIAL_THREAD) kept = anonymous_bytes();
    pthread_barrier_wait(&all_done);
    for (uint64_t t = 0; t < arguments[1].value; t++) free(tables[t].words);
    free(tables);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Tables from calloc, of which little is written.", arguments,
                    sizeof arguments / sizeof *arguments);
    if (arguments[4].value >= arguments[5].value)
        workload_misuse("least must be less than largest");
    static uint64_t numbers[THREADS_MOST];
    for (uint64_t t = 0; t < arguments[0].value; t++) numbers[t] = t;
    pthread_barrier_init(&all_done, NULL, (unsigned)arguments[0].value);
    double started_s = time_now_s();
    threads_run(arguments[0].value, replace, numbers, sizeof *numbers);
    report_print(arguments[0].value * (arguments[1].value + arguments[2].value), started_s);
    figure_print("kept_mib", (double)kept / MIB);
    return 0;
}
