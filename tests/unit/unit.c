#include "unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/memory.h"

enum { THREADS_MAX = 16 };

struct random unit_random(void) {
    const char *wanted = getenv("PRIM_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : (uint64_t)now.tv_nsec + (uint64_t)getpid();
    printf("PRIM_TEST_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    return (struct random){seed};
}

struct unit_thread {
    pthread_barrier_t *start;
    void (*body)(unsigned number);
    unsigned number;
};

static void *run_thread(void *argument) {
    struct unit_thread *thread = argument;
    pthread_barrier_wait(thread->start);
    thread->body(thread->number);
    return NULL;
}

void unit_run_threads(unsigned count, void (*body)(unsigned number)) {
    pthread_t handles[THREADS_MAX];
    struct unit_thread threads[THREADS_MAX];
    pthread_barrier_t start;
    CHECK(count <= THREADS_MAX, "%u threads", count);
    pthread_barrier_init(&start, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        threads[i] = (struct unit_thread){&start, body, i};
        int error = pthread_create(&handles[i], NULL, run_thread, &threads[i]);
        CHECK(error == 0, "no thread: %s", strerror(error));
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(handles[i], NULL);
    }
    pthread_barrier_destroy(&start);
}

size_t unit_capture_errors(char *text, size_t size, void (*action)(const void *),
                           const void *argument) {
    int capture = (int)syscall(SYS_memfd_create, "standard error", 0);
    int saved = dup(STDERR_FILENO);
    CHECK(capture >= 0 && saved >= 0, "no file to capture into");
    dup2(capture, STDERR_FILENO);
    action(argument);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t length = pread(capture, text, size - 1, 0);
    close(capture);
    CHECK(length >= 0, "nothing to be read from the captured file");
    text[length] = '\0';
    return (size_t)length;
}

int unit_signal_of(void (*action)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has a handler of its own */
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDERR_FILENO);
        action();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "no child");
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "exit status %d", WEXITSTATUS(status));
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void unit_touch_single_pages(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* which an emulator may refuse */
}

size_t unit_resident(const void *address, size_t size) {
    size_t page = memory_page_size();
    size_t resident = 0;
    for (size_t offset = 0; offset < size; offset += page) {
        unsigned char state[64 * 1024 / 4096] = {0}; /* an emulator of larger pages fills in more */
        int error = mincore((char *)(uintptr_t)address + offset, page, state);
        CHECK(error == 0, "mincore: %s", strerror(errno));
        resident += state[0] & 1 ? page : 0;
    }
    return resident;
}

bool unit_lock_pages(const void *address, size_t size) {
    return syscall(SYS_mlock, address, size) == 0;
}

bool unit_unlock_pages(const void *address, size_t size) {
    return syscall(SYS_munlock, address, size) == 0;
}

static void collect(const struct span *span, struct unit_extent *extents, size_t room,
                    size_t *count) {
    if (span) {
        collect(span->left, extents, room, count);
        CHECK(*count < room, "more than %zu extents", room);
        extents[(*count)++] = (struct unit_extent){span->address, span->slice_count};
        collect(span->right, extents, room, count);
    }
}

size_t unit_extents(const struct extent_set *set, struct unit_extent *extents, size_t room) {
    size_t count = 0;
    for (size_t size = 1; size <= EXACT_MAX; size++) {
        collect(set->exact[size], extents, room, &count);
    }
    collect(set->greater, extents, room, &count);
    return count;
}

size_t unit_overlap(const struct span *span, const struct unit_extent *extents, size_t count) {
    size_t slices = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t start = bits_max(extents[i].address, span->address);
        uintptr_t end =
            bits_min(extents[i].address + extents[i].slice_count * SLICE_SIZE, span_end(span));
        slices += start < end ? (end - start) / SLICE_SIZE : 0;
    }
    return slices;
}

size_t unit_slices_in_use(void) {
    return page_heap.mapped_slices - page_heap.clean.slice_count - page_heap.dirty.slice_count;
}

bool unit_is_filled(const char *bytes, size_t size, char value) {
    size_t same = 0;
    while (same < size && bytes[same] == value) {
        same++;
    }
    return same == size;
}
