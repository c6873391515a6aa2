/* A program that loses three blocks and keeps others: where only libc and the loader know of them,
 * and in the thread-local data of a plugin. What a preloaded library says of it at the end shows
 * whether that finds its way to data and up the stack. All is done by a thread of its own, as the
 * main thread's table of thread-local data is no block.
 *
 * Usage: preloaded PLUGIN, which is this file compiled with PLUGIN defined. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOST_BLOCKS = 3, LOST_BYTES = 777, KEPT_BYTES = 5555, PLACES = 100000 };

#ifdef PLUGIN
static _Thread_local void *volatile kept[PLACES]; /* more than the loader has room to spare for */

void keep(void *block) {
    kept[PLACES / 2] = block;
}
#else
static void (*keep)(void *block);

static __attribute__((noinline)) void lose(void) {
    for (int i = 0; i < LOST_BLOCKS; i++) {
        char *volatile block = malloc(LOST_BYTES);
        block[0] = 1;
        block = NULL;
    }
}

static void *do_nothing(void *argument) {
    return argument;
}

static void *keep_and_lose(void *argument) {
    keep(malloc(KEPT_BYTES));
    lose();
    exit(0);
    return argument;
}

int main(int count, char **arguments) {
    void *plugin = dlopen(count == 2 ? arguments[1] : "", RTLD_NOW);
    pthread_t thread;
    keep = plugin ? (void (*)(void *))dlsym(plugin, "keep") : NULL;
    if (keep && pthread_create(&thread, NULL, do_nothing, NULL) == 0) {
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, keep_and_lose, NULL);
        pthread_join(thread, NULL);
    }
    fprintf(stderr, "preloaded: there is no plugin or no thread\n");
    return 1;
}
#endif
