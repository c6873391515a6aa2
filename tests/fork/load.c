#include "fork/load.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

#include "support/names.h"

enum { LIVE = 40, THREADS_MAX = 1000 };
static pthread_t threads[THREADS_MAX];
static size_t thread_count;
static atomic_bool stop;

static void *work(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    struct random random = {number};
    size_t largest = number % 8 == 0 ? 1 << 20 : number % 8 == 1 ? 50000 : 1000;
    void *live[LIVE] = {NULL};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        /* Bursts and pauses: hundreds of busy threads would only wait for a processor. */
        if (random_below(&random, 100) == 0) {
            usleep((useconds_t)(thread_count * random_below(&random, 400)));
        }
        size_t slot = random_below(&random, LIVE);
        if (random_below(&random, 8) == 0) {
            void *resized = realloc(live[slot], random_size(&random, largest) + 1);
            CHECK(resized != NULL, "no memory in the load");
            live[slot] = resized;
        } else {
            free(live[slot]);
            live[slot] = malloc(random_size(&random, largest));
            CHECK(live[slot] != NULL, "no memory in the load");
        }
        if (number % 16 == 2 && random_below(&random, 2000) == 0) {
            malloc_trim(0);
        }
    }
    for (size_t i = 0; i < LIVE; i++) {
        free(live[i]);
    }
    return NULL;
}

void load_start(size_t count) {
    CHECK(count <= THREADS_MAX, "%zu threads are too many", count);
    atomic_store(&stop, false);
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    for (thread_count = 0; thread_count < count; thread_count++) {
        CHECK(pthread_create(&threads[thread_count], NULL, work, (void *)(thread_count + 1)) == 0,
              "cannot start thread %zu", thread_count);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void load_stop(void) {
    atomic_store(&stop, true);
    for (size_t i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
    }
    thread_count = 0;
}

void exercise_allocator(unsigned seed) {
    struct random random = {seed};
    struct {
        unsigned char *start;
        size_t size;
    } blocks[200];
    for (uint64_t i = 0; i < 200; i++) {
        blocks[i].size = random_size(&random, 2 << 20);
        blocks[i].start = malloc(blocks[i].size);
        CHECK(blocks[i].start != NULL, "no memory for %zu bytes", blocks[i].size);
        fill_pattern(blocks[i].start, blocks[i].size, i);
    }
    for (uint64_t i = 0; i < 200; i++) {
        size_t good = check_pattern(blocks[i].start, blocks[i].size, i);
        CHECK(good == blocks[i].size, "a block of %zu bytes changed", blocks[i].size);
        free(blocks[i].start);
    }
    free(calloc(1, 100));
    free(aligned_alloc(4096, 100));
    malloc_trim(0);
    mallinfo2();
}

static void *exercise_thread(void *argument) {
    exercise_allocator((unsigned)(uintptr_t)argument);
    return NULL;
}

void exercise_threads(size_t count, unsigned seed) {
    pthread_t helpers[64];
    for (size_t i = 0; i < count; i++) {
        CHECK(pthread_create(&helpers[i], NULL, exercise_thread, (void *)(seed + i)) == 0,
              "cannot start a thread");
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(helpers[i], NULL);
    }
}

void expect_success(int child, const char *what) {
    int status = 0;
    CHECK(child > 0, "cannot fork: %s", what);
    CHECK(waitpid(child, &status, 0) == child, "%s: no status", what);
    CHECK(!WIFSIGNALED(status), "%s: ended by signal %d", what, WTERMSIG(status));
    CHECK(WEXITSTATUS(status) != 124, "%s: deadlock in the child", what);
    CHECK(WEXITSTATUS(status) == 0, "%s: status %d", what, WEXITSTATUS(status));
}
