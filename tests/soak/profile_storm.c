/* Many threads allocate at known places while others fork, load and unload libraries, write
 * profiles and look for leaks: profile_storm SECONDS THREADS PLUGIN...
 *
 * Each place allocates one size, so a sample that is put to another's account shows by its mean
 * size. What each place allocated is printed at the end, one "NAME SIZE OBJECTS" a line;
 * tools/proofs/profile_storm compares. Children of fork write files of their own. Whatever takes
 * longer than a minute is a deadlock: the process aborts. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SITES = 8, HELD = 16, PLUGINS_MAX = 8, STUCK_SECONDS = 60 };

static atomic_ulong counts[SITES];
static atomic_ulong plugin_counts[PLUGINS_MAX];
static atomic_ulong beats, forks, loads, checks;
static atomic_bool is_over;
static unsigned long thread_count;
static char **plugins;
static unsigned plugin_count;
static pthread_mutex_t plugin_locks[PLUGINS_MAX] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

#define SITE(number, size)                                 \
    __attribute__((noinline)) void *storm_##number(void) { \
        atomic_fetch_add(&counts[number], 1);              \
        char *block = malloc(size);                        \
        *(volatile char *)block = 1;                       \
        return block;                                      \
    }
SITE(0, 16)
SITE(1, 40)
SITE(2, 104)
SITE(3, 328)
SITE(4, 1000)
SITE(5, 5000)
SITE(6, 40000)
SITE(7, 300000)

static void *(*const sites[SITES])(void) = {storm_0, storm_1, storm_2, storm_3,
                                            storm_4, storm_5, storm_6, storm_7};
static const unsigned sizes[SITES] = {16, 40, 104, 328, 1000, 5000, 40000, 300000};

static unsigned draw(uint64_t *state, unsigned below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % below);
}

/* Small sizes mostly, so that memory is not all that the machine is busy with. */
static unsigned draw_site(uint64_t *state) {
    unsigned site = draw(state, 64);
    return site < 60 ? site % 5 : 5 + site % 3;
}

static int (*dump)(const char *path);
static long (*leak_check)(void);

static void in_child(uint64_t *state) {
    alarm(STUCK_SECONDS);
    for (unsigned i = 0; i < 50; i++) {
        free(sites[draw_site(state)]());
    }
    dump(NULL);
    _exit(0);
}

static void fork_once(uint64_t *state) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        in_child(state);
    }
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) {
        fprintf(stderr, "storm: a child ended with status %#x\n", (unsigned)status);
        abort();
    }
    atomic_fetch_add(&forks, child > 0);
}

/* The library goes with the last block of it that is counted; another one takes its addresses. */
static void load_once(uint64_t *state) {
    unsigned number = draw(state, plugin_count);
    void *held[HELD];
    if (pthread_mutex_trylock(&plugin_locks[number])) {
        return;
    }
    void *library = dlopen(plugins[number], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "storm: %s\n", dlerror());
        abort();
    }
    void *(*allocate)(void) = (void *(*)(void))dlsym(library, "plugin_allocate");
    for (unsigned i = 0; i < HELD; i++) {
        held[i] = allocate();
    }
    atomic_fetch_add(&plugin_counts[number], HELD);
    dlclose(library);
    pthread_mutex_unlock(&plugin_locks[number]);
    for (unsigned i = 0; i < HELD; i++) {
        free(held[i]);
    }
    atomic_fetch_add(&loads, 1);
}

static void *work(void *argument) {
    uint64_t state = (uintptr_t)argument * 77777;
    void *held[HELD] = {NULL};
    for (unsigned turn = 0; !atomic_load(&is_over); turn++) {
        unsigned place = draw(&state, HELD);
        free(held[place]);
        held[place] = sites[draw_site(&state)]();
        if ((uintptr_t)argument < 3 && turn % 50 == 0) {
            fork_once(&state);
        } else if ((uintptr_t)argument < 12 && turn % 20 == 0) {
            load_once(&state);
        } else if ((uintptr_t)argument == 12 && turn % 500 == 0) {
            atomic_fetch_add(&checks, leak_check() >= 0);
        } else if ((uintptr_t)argument == 13 && turn % 500 == 0) {
            dump(NULL);
        } else if (turn % 100 == 0) {
            usleep(1000);
        }
        atomic_fetch_add(&beats, 1);
    }
    for (unsigned i = 0; i < HELD; i++) {
        free(held[i]);
    }
    return NULL;
}

/* Whether nobody came forward for so long. */
static void *watch(void *argument) {
    unsigned long last = 0;
    for (unsigned still = 0; !atomic_load(&is_over); sleep(1)) {
        unsigned long now = atomic_load(&beats);
        still = now == last ? still + 1 : 0;
        last = now;
        if (still == STUCK_SECONDS) {
            fprintf(stderr, "storm: nothing moved for %d s\n", STUCK_SECONDS);
            abort();
        }
    }
    return argument;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: profile_storm SECONDS THREADS PLUGIN...\n");
        return 2;
    }
    thread_count = strtoul(argv[2], NULL, 10);
    plugins = argv + 3;
    plugin_count = (unsigned)argc - 3 < PLUGINS_MAX ? (unsigned)argc - 3 : PLUGINS_MAX;
    dump = (int (*)(const char *))dlsym(RTLD_DEFAULT, "prim_profile_dump");
    leak_check = (long (*)(void))dlsym(RTLD_DEFAULT, "prim_leak_check");
    if (!dump || !leak_check) {
        fprintf(stderr, "storm: primalloc is not preloaded\n");
        return 2;
    }
    pthread_t watchdog;
    pthread_t *threads = calloc(thread_count, sizeof *threads);
    pthread_create(&watchdog, NULL, watch, NULL);
    for (uintptr_t i = 0; i < thread_count; i++) {
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    sleep((unsigned)strtoul(argv[1], NULL, 10));
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_join(watchdog, NULL);
    free(threads);
    for (unsigned i = 0; i < SITES; i++) {
        printf("storm_%u %u %lu\n", i, sizes[i], atomic_load(&counts[i]));
    }
    for (unsigned i = 0; i < plugin_count; i++) {
        printf("plugin_site_%u %u %lu\n", i, 200 + 48 * i, atomic_load(&plugin_counts[i]));
    }
    fprintf(stderr, "storm: forks %lu loads %lu checks %lu\n", atomic_load(&forks),
            atomic_load(&loads), atomic_load(&checks));
    return 0;
}
