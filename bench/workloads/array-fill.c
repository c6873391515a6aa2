/* An array is filled with blocks of one size and emptied again: glibc's bench-malloc-simple.
 *
 * <rounds> times <blocks> blocks of <size> bytes are allocated and freed in the order of
 * allocation, by one thread; with idle=1 a second, idle thread exists, so that allocators that go
 * without locks as long as the process has a single thread cannot do so.
 */
#include "workload.h"

static struct argument arguments[] = {
    {"size", "bytes of a block", 64, 1, 1 << 30, NULL},
    {"blocks", "blocks of a round", 1600, 1, 10000000, NULL},
    {"rounds", "rounds", 10000, 1, UINT32_MAX, NULL},
    {"idle", "1 = an idle thread exists beside", 0, 0, 1, NULL},
};

static void *stay_idle(void *lock) {
    pthread_mutex_lock((pthread_mutex_t *)lock);
    pthread_mutex_unlock((pthread_mutex_t *)lock);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "An array is filled with blocks of one size and emptied again.",
                    arguments, sizeof arguments / sizeof *arguments);
    size_t bytes = arguments[0].value;
    uint64_t count = arguments[1].value;
    void **blocks = (void **)table_new(count, sizeof *blocks);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t beside = 0;
    pthread_mutex_lock(&lock);
    if (arguments[3].value) beside = thread_start(stay_idle, &lock);

    double started_s = time_now_s();
    for (uint64_t r = 0; r < arguments[2].value; r++) {
        for (uint64_t b = 0; b < count; b++) blocks[b] = block_new(bytes);
        for (uint64_t b = 0; b < count; b++) block_delete(blocks[b], bytes);
    }
    report_print(count * arguments[2].value, started_s);

    pthread_mutex_unlock(&lock);
    if (arguments[3].value) thread_join(beside);
    free(blocks);
    return 0;
}
