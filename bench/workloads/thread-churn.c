/* Threads that live for one allocation.
 *
 * <threads> threads, <parallel> at a time, each start, allocate <blocks> blocks of <size> bytes,
 * free them and end. It measures what an allocator adds to the life of a thread: setting up its
 * cache at the first call and giving it back at the end; and whether memory grows with the number
 * of threads that have ever lived.
 */
#include "workload.h"

static struct argument arguments[] = {
    {"threads", "threads in all", 20000, 1, 100000000, NULL},
    {"parallel", "threads at the same time", 1, 1, THREADS_MOST, NULL},
    {"blocks", "blocks of each thread", 1, 0, 1000, NULL},
    {"size", "bytes of a block", 64, 1, 1 << 30, NULL},
};

static void *live(void *unused) {
    void *blocks[1000];
    for (uint64_t b = 0; b < arguments[2].value; b++) blocks[b] = block_new(arguments[3].value);
    for (uint64_t b = 0; b < arguments[2].value; b++) block_delete(blocks[b], arguments[3].value);
    return unused;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Threads that start, allocate, free and end.", arguments,
                    sizeof arguments / sizeof *arguments);
    uint64_t parallel = arguments[1].value;
    static char unused[THREADS_MOST];
    double started_s = time_now_s();
    uint64_t started = 0;
    while (started < arguments[0].value) {
        uint64_t left = arguments[0].value - started;
        uint64_t now = left < parallel ? left : parallel;
        threads_run(now, live, unused, 1);
        started += now;
    }
    report_print(started, started_s);
    return 0;
}
