/* Phases: threads in turn allocate and free the same amount of memory, each in a size of its own.
 *
 * Thread after thread allocates <mib> MiB in blocks of its size (64, 256, 1,024, 4,096 bytes and
 * around again, or <size> in every turn), writes them, frees all of them and stays alive, idle,
 * until the end, as the threads of a pool do. Only one phase's memory is ever in use, so peak
 * memory tells whether one thread's freed memory, and one size's, serves the next: compare 1 turn
 * and 4.
 */
#include "workload.h"

static const size_t phase_sizes[] = {64, 256, 1024, 4096};

#define PHASE_SIZES (sizeof phase_sizes / sizeof *phase_sizes)

static struct argument arguments[] = {
    {"turns", "threads that take their turn", 4, 1, THREADS_MOST, NULL},
    {"mib", "MiB that each allocates and frees", 77, 1, 65536, NULL},
    {"rounds", "turns of each thread", 1, 1, 100000, NULL},
    {"size", "bytes of a block, 0 = another size in each turn", 0, 0, 1 << 20, NULL},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t turn;      /* (lock) number of the phase that may run */
static uint64_t allocated; /* (lock) blocks so far */

static uint64_t phase_run(size_t bytes) {
    uint64_t count = (arguments[1].value << 20) / bytes;
    void **blocks = (void **)table_new(count, sizeof *blocks);
    for (uint64_t b = 0; b < count; b++) {
        blocks[b] = block_new(bytes);
        if (bytes > 16) memset((char *)blocks[b] + 8, 1, bytes - 16);
    }
    for (uint64_t b = 0; b < count; b++) block_delete(blocks[b], bytes);
    free(blocks);
    return count;
}

static void *live(void *context) {
    uint64_t self = *(uint64_t *)context;
    uint64_t threads = arguments[0].value;
    uint64_t last = threads * arguments[2].value;
    pthread_mutex_lock(&lock);
    while (turn < last) {
        if (turn % threads == self) {
            allocated += phase_run(arguments[3].value ? arguments[3].value
                                                      : phase_sizes[turn % PHASE_SIZES]);
            turn++;
            pthread_cond_broadcast(&changed);
        } else {
            pthread_cond_wait(&changed, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Threads in turn allocate and free the same amount of memory.",
                    arguments, sizeof arguments / sizeof *arguments);
    static uint64_t numbers[THREADS_MOST];
    for (uint64_t t = 0; t < arguments[0].value; t++) numbers[t] = t;
    double started_s = time_now_s();
    threads_run(arguments[0].value, live, numbers, sizeof *numbers);
    report_print(allocated, started_s);
    return 0;
}
