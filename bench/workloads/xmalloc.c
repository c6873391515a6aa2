/* Producers and consumers: xmalloc-test by Lever and Boreham, "malloc() performance in a
 * multithreaded Linux environment" (2000), in the form with batches.
 *
 * <workers> threads allocate batches of <batch> blocks and put them into one queue that holds at
 * most 100 batches; as many other threads, or <consumers>, take batches and free their blocks. No
 * block is ever freed by the thread that allocated it. Sizes are 64 bytes, or, mixed, powers of two
 * from 8 to 2,048 bytes drawn for each block. The number of batches is fixed instead of the time.
 */
#include "workload.h"

#define QUEUE_CAPACITY 100

static const char *const size_words[] = {"fixed", "mixed", NULL};

static struct argument arguments[] = {
    {"workers", "producers", 2, 1, THREADS_MOST / 2, NULL},
    {"batches", "batches of each producer", 1000, 1, 100000000, NULL},
    {"batch", "blocks of a batch", 4096, 1, 1000000, NULL},
    {"sizes", "64 bytes, or powers of two from 8 to 2048 bytes", 0, 0, 0, size_words},
    {"consumers", "consumers; 0 = as many as producers", 0, 0, THREADS_MOST / 2, NULL},
};

/* A batch is a list whose links stand in the blocks; a lost link or count tells a broken malloc. */
struct block {
    struct block *next;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_cond_t drained;
    size_t first;
    size_t count;
    struct block *batches[QUEUE_CAPACITY];
};

static struct queue queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .filled = PTHREAD_COND_INITIALIZER,
                             .drained = PTHREAD_COND_INITIALIZER};

static void queue_put(struct block *batch) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == QUEUE_CAPACITY) pthread_cond_wait(&queue.drained, &queue.lock);
    queue.batches[(queue.first + queue.count++) % QUEUE_CAPACITY] = batch;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

static struct block *queue_take(void) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0) pthread_cond_wait(&queue.filled, &queue.lock);
    struct block *batch = queue.batches[queue.first];
    queue.first = (queue.first + 1) % QUEUE_CAPACITY;
    queue.count--;
    pthread_cond_signal(&queue.drained);
    pthread_mutex_unlock(&queue.lock);
    return batch;
}

struct worker {
    int consumes;
    uint64_t number;
    uint64_t batches; /* that it makes or frees */
};

static struct block *batch_new(struct random_stream *random) {
    struct block *batch = NULL;
    for (uint64_t i = 0; i < arguments[2].value; i++) {
        size_t bytes = arguments[3].value ? (size_t)8 << random_below(random, 9) : 64;
        struct block *block = (struct block *)block_found(malloc(bytes), bytes);
        block->next = batch;
        batch = block;
    }
    return batch;
}

static void batch_delete(struct block *batch) {
    uint64_t count = 0;
    while (batch) {
        struct block *next = batch->next;
        free(batch);
        batch = next;
        count++;
    }
    if (count != arguments[2].value)
        workload_fail("a batch of %llu blocks has %llu", (unsigned long long)arguments[2].value,
                      (unsigned long long)count);
}

static void *work(void *context) {
    struct worker *worker = (struct worker *)context;
    struct random_stream random = random_seeded(worker->number);
    for (uint64_t i = 0; i < worker->batches; i++) {
        if (worker->consumes)
            batch_delete(queue_take());
        else
            queue_put(batch_new(&random));
    }
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Producers allocate batches that consumers free.", arguments,
                    sizeof arguments / sizeof *arguments);
    static struct worker workers[THREADS_MOST];
    uint64_t producers = arguments[0].value;
    uint64_t consumers = arguments[4].value ? arguments[4].value : producers;
    uint64_t batches = producers * arguments[1].value;
    size_t count = 0;
    for (uint64_t pair = 0; pair < producers || pair < consumers; pair++) {
        if (pair < producers) {
            workers[count] = (struct worker){0, count, arguments[1].value};
            count++;
        }
        if (pair < consumers) {
            uint64_t share = batches / consumers + (pair < batches % consumers);
            workers[count] = (struct worker){1, count, share};
            count++;
        }
    }

    double started_s = time_now_s();
    threads_run(count, work, workers, sizeof *workers);
    report_print(batches * arguments[2].value, started_s);
    return 0;
}
