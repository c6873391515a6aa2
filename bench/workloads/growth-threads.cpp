/* Arrays that grow by half, as vectors do, in many threads at once.
 *
 * Each of <threads> threads lets an array grow from 16 bytes by a factor of 1.5 to <kib> KiB and
 * writes every byte; all wait for each other at full size, free, and start anew, <rounds> times.
 * The arrays grow by realloc, or as std::vector does it: a new array, a copy, and the old one
 * deleted. What lives at the same time is counted, both arrays during a copy, and the
 * largest resident size is compared with the most that lived.
 */
#include <atomic>
#include <new>

#include "figures.h"

static const char *const way_words[] = {"realloc", "copy", NULL};

enum { WAY, THREADS, LARGEST_KIB, ROUNDS };

static struct argument arguments[] = {
    {"way", "how an array grows", 0, 0, 1, way_words},
    {"threads", "threads, each with an array", 64, 1, THREADS_MOST, NULL},
    {"kib", "KiB of each array at the end", 8192, 1, 1 << 22, NULL},
    {"rounds", "times that each array starts anew", 3, 1, 100000, NULL},
};

static std::atomic<size_t> live;
static std::atomic<size_t> most_live;
static pthread_barrier_t full_size;

static void live_add(size_t bytes) {
    size_t now = live.fetch_add(bytes) + bytes;
    size_t most = most_live.load();
    while (now > most && !most_live.compare_exchange_weak(most, now)) continue;
}

static unsigned char *grown_by_realloc(unsigned char *array, size_t from, size_t to) {
    array = static_cast<unsigned char *>(block_found(realloc(array, to), to));
    live_add(to - from);
    return array;
}

static unsigned char *grown_by_copy(unsigned char *array, size_t from, size_t to) {
    unsigned char *copy =
        static_cast<unsigned char *>(block_found(::operator new(to, std::nothrow), to));
    live_add(to);
    if (from) memcpy(copy, array, from);
    ::operator delete(array);
    live.fetch_sub(from);
    return copy;
}

static void array_delete(unsigned char *array, size_t bytes) {
    if (arguments[WAY].value == 0) {
        free(array);
    } else {
        ::operator delete(array);
    }
    live.fetch_sub(bytes);
}

static void *grow(void *context) {
    unsigned char mark = *static_cast<unsigned char *>(context);
    size_t largest = arguments[LARGEST_KIB].value * KIB;
    for (uint64_t r = 0; r < arguments[ROUNDS].value; r++) {
        unsigned char *array = NULL;
        size_t bytes = 0;
        while (bytes < largest) {
            size_t next = bytes ? bytes + bytes / 2 : 16;
            if (next > largest) next = largest;
            array = arguments[WAY].value == 0 ? grown_by_realloc(array, bytes, next)
                                              : grown_by_copy(array, bytes, next);
            if (bytes && (array[0] != mark || array[bytes - 1] != mark))
                workload_fail("growth to %zu bytes lost contents", next);
            memset(array + bytes, mark, next - bytes);
            bytes = next;
        }
        pthread_barrier_wait(&full_size);
        array_delete(array, bytes);
    }
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Arrays that grow by half, in many threads at once.", arguments,
                    sizeof arguments / sizeof *arguments);
    static unsigned char marks[THREADS_MOST];
    for (size_t t = 0; t < THREADS_MOST; t++) marks[t] = (unsigned char)(t + 1);
    pthread_barrier_init(&full_size, NULL, (unsigned)arguments[THREADS].value);

    threads_run(arguments[THREADS].value, grow, marks, sizeof *marks);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    size_t most = most_live.load();
    figure_print("most_live_mib", (double)most / MIB);
    figure_print("peak_mib", (double)use.ru_maxrss * KIB / MIB);
    figure_print("peak_per_live", (double)use.ru_maxrss * KIB / (double)most);
    return 0;
}
