#include "support/support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/names.h"

static const char *watched = "";
static char watchdog_message[256];
static size_t watchdog_length;

void check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    char text[1024];
    int length = snprintf(text, sizeof text, "%s:%d: process %d: %s is false: ", file, line,
                          (int)getpid(), condition);
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(text + length, sizeof text - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if ((size_t)length > sizeof text - 2) {
        length = sizeof text - 2;
    }
    text[length++] = '\n';
    if (write(STDERR_FILENO, text, (size_t)length) < 0) {
        _exit(1);
    }
    if (getenv("PRIM_TEST_ABORT") != NULL) {
        abort();
    }
    _exit(1);
}

#if !defined PRIM_TEST_FULLY_STATIC
static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}
#endif

void expect_allocator(void) {
    const char *expected = getenv("PRIM_TEST_EXPECT");
    if (expected == NULL) {
        fputs("set PRIM_TEST_EXPECT to the object that must define malloc, \"self\" or \"any\"\n",
              stderr);
        exit(2);
    }
    if (strcmp(expected, "any") == 0) {
        return;
    }
#if defined PRIM_TEST_FULLY_STATIC
    /* Here dladdr knows nothing. glibc's smallest block has 24 usable bytes, primalloc's 8. */
    void *smallest = opaque(malloc(1));
    CHECK(malloc_usable_size(smallest) < 24, "malloc is the C library's own");
    free(smallest);
#else
    Dl_info malloc_object;
    Dl_info own_object;
    CHECK(dladdr((void *)(uintptr_t)malloc, &malloc_object) != 0, "malloc is in no known object");
    CHECK(dladdr((void *)(uintptr_t)expect_allocator, &own_object) != 0,
          "this program is in no known object");
    const char *wanted = strcmp(expected, "self") == 0 ? own_object.dli_fname : expected;
    CHECK(strcmp(file_name(malloc_object.dli_fname), file_name(wanted)) == 0,
          "malloc comes from %s, expected %s", malloc_object.dli_fname, wanted);
#endif
}

bool is_reference_allocator(void) {
    const char *expected = getenv("PRIM_TEST_EXPECT");
    return expected != NULL && strcmp(expected, "any") == 0;
}

bool is_emulated(void) {
    return getenv("PRIM_TEST_EMULATED") != NULL;
}

size_t scaled(size_t count) {
    const char *text = getenv("PRIM_TEST_SCALE");
    double scale = text != NULL ? strtod(text, NULL) : 1.0;
    double result = (double)count * scale;
    return result < 1.0 ? 1 : (size_t)result;
}

static void watchdog_bark(int signal_number) {
    (void)signal_number;
    if (write(STDERR_FILENO, watchdog_message, watchdog_length) < 0) {
        _exit(125);
    }
    if (getenv("PRIM_TEST_ABORT") != NULL) {
        abort();
    }
    _exit(124);
}

void watchdog_start(unsigned seconds, const char *what) {
    const char *patience = getenv("PRIM_TEST_PATIENCE");
    seconds *= patience != NULL ? (unsigned)atoi(patience) : 1;
    watched = what;
    int length = snprintf(watchdog_message, sizeof watchdog_message,
                          "watchdog: process %d: %s did not finish within %u s: deadlock?\n",
                          (int)getpid(), watched, seconds);
    watchdog_length =
        (size_t)length < sizeof watchdog_message ? (size_t)length : sizeof watchdog_message - 1;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = watchdog_bark;
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(seconds);
}

void watchdog_stop(void) {
    alarm(0);
}

static void read_statm(unsigned long *mapped, unsigned long *resident) {
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "cannot open /proc/self/statm");
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    CHECK(length > 0, "cannot read /proc/self/statm");
    text[length] = '\0';
    char *end;
    *mapped = strtoul(text, &end, 10);
    *resident = strtoul(end, NULL, 10);
}

size_t resident_bytes(void) {
    unsigned long mapped;
    unsigned long resident;
    read_statm(&mapped, &resident);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

bool has_shadow_memory(void) {
#ifdef PRIM_TEST_TSAN
    return true;
#else
    return false;
#endif
}

size_t mapped_bytes(void) {
    unsigned long mapped;
    unsigned long resident;
    read_statm(&mapped, &resident);
    return mapped * (size_t)sysconf(_SC_PAGESIZE);
}

/* splitmix64 */
uint64_t random_next(struct random *random) {
    uint64_t word = random->state += 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

uint64_t random_below(struct random *random, uint64_t bound) {
    return random_next(random) % bound;
}

size_t random_size(struct random *random, size_t largest) {
    uint64_t dice = random_below(random, 1000);
    unsigned bits = dice < 900 ? 10 : dice < 980 ? 16 : dice < 997 ? 20 : 26;
    uint64_t size = random_below(random, (uint64_t)1 << (random_below(random, bits) + 1));
    return size > largest ? (size_t)random_below(random, largest + 1) : (size_t)size;
}

static uint64_t pattern_word(uint64_t tag, size_t index) {
    return (tag + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)index * 0xd6e8feb86659fd93u;
}

void fill_pattern(void *block, size_t size, uint64_t tag) {
    unsigned char *bytes = block;
    size_t words = size / sizeof(uint64_t);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = pattern_word(tag, i);
        memcpy(bytes + i * sizeof word, &word, sizeof word);
    }
    uint64_t last = pattern_word(tag, words);
    if (size % sizeof last == 0) return; /* the block may be NULL */
    memcpy(bytes + words * sizeof last, &last, size % sizeof last);
}

size_t check_pattern(const void *block, size_t size, uint64_t tag) {
    const unsigned char *bytes = block;
    size_t words = size / sizeof(uint64_t);
    for (size_t i = 0; i * sizeof(uint64_t) < size; i++) {
        uint64_t word = pattern_word(tag, i);
        size_t length = i < words ? sizeof word : size % sizeof word;
        if (memcmp(bytes + i * sizeof word, &word, length) != 0) {
            size_t offset = i * sizeof word;
            while (bytes[offset] == ((const unsigned char *)&word)[offset % sizeof word]) {
                offset++;
            }
            return offset;
        }
    }
    return size;
}
