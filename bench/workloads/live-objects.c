/* Live objects: the same accesses with an allocator and without one.
 *
 * Each of <threads> threads keeps <live> objects of <smallest> to <largest> bytes and replaces 256
 * random ones at a time: reads them, frees them, and allocates and writes as many again, whose
 * sizes are those of the freed ones by turns. With from=array the objects lie in one array, packed,
 * and an object that is "allocated" gets the place of one that was "freed": what these accesses
 * cost without an allocator, for one to be compared with.
 *
 * There are three times: all is built, objects are replaced, all are freed. The resident size
 * without pages of files is taken with all objects alive, and again <rest> ms after all were freed,
 * while all threads still live. section_boundary() is called between the times, where callgrind
 * starts a new count.
 */
#include "figures.h"

enum { REPLACED_TOGETHER = 256 };

static const char *const source_words[] = {"malloc", "array", NULL};

static struct argument arguments[] = {
    {"live", "objects of each thread", 10000, REPLACED_TOGETHER, 100000000, NULL},
    {"operations", "replacements of all threads together", 1000000, 0, UINT64_MAX, NULL},
    {"threads", "threads side by side", 1, 1, THREADS_MOST, NULL},
    {"from", "where objects come from", 0, 0, 0, source_words},
    {"smallest", "smallest object, bytes", 16, 16, 1 << 20, NULL},
    {"largest", "largest object, bytes", 128, 16, 1 << 20, NULL},
    {"rest", "ms between the last free and the end", 0, 0, 1000000, NULL},
};

struct object {
    void *address;
    size_t bytes;
};

struct owner {
    uint64_t number;
    struct object *objects;
    char *array; /* from=array: the objects' places */
};

static struct owner owners[THREADS_MOST];
static pthread_barrier_t barrier;
static size_t resident_before, resident_working, resident_idle;
static double replacing_s, replacing_cpu_s;

__attribute__((noinline)) void section_boundary(void) {
    __asm__ volatile("" ::: "memory");
}

static int is_array(void) {
    return arguments[3].value != 0;
}

/* The size that an object begins with, a multiple of what malloc aligns to. */
static size_t first_size(struct random_stream *random) {
    return random_between(random, arguments[4].value, arguments[5].value) & ~(size_t)15;
}

static size_t array_bytes(uint64_t number) {
    struct random_stream random = random_seeded(number);
    size_t bytes = 0;
    for (uint64_t i = 0; i < arguments[0].value; i++) bytes += first_size(&random);
    return bytes;
}

static void *fresh_pages(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) workload_fail("no pages for %zu bytes", bytes);
    return pages;
}

static void build(struct owner *owner) {
    struct random_stream random = random_seeded(owner->number);
    char *next = owner->array;
    for (uint64_t i = 0; i < arguments[0].value; i++) {
        struct object *object = &owner->objects[i];
        object->bytes = first_size(&random);
        if (is_array()) {
            object->address = next;
            next += object->bytes;
            block_write(object->address, object->bytes);
        } else {
            object->address = block_new(object->bytes);
        }
    }
}

/* Random objects, no two the same: each comes from a stripe of its own. */
static void replace_some(struct object *objects, struct random_stream *random) {
    struct object *chosen[REPLACED_TOGETHER];
    struct object freed[REPLACED_TOGETHER];
    uint64_t stripes = arguments[0].value / REPLACED_TOGETHER;
    for (unsigned k = 0; k < REPLACED_TOGETHER; k++) {
        chosen[k] = &objects[random_below(random, stripes) * REPLACED_TOGETHER + k];
        freed[k] = *chosen[k];
        block_verify(freed[k].address, freed[k].bytes);
        if (!is_array()) free(freed[k].address);
    }
    for (unsigned k = 0; k < REPLACED_TOGETHER; k++) {
        const struct object *from = &freed[(k + 1) % REPLACED_TOGETHER];
        chosen[k]->bytes = from->bytes;
        chosen[k]->address =
            is_array() ? from->address : block_found(malloc(from->bytes), from->bytes);
        block_write(chosen[k]->address, chosen[k]->bytes);
    }
}

static void drop(const struct owner *owner) {
    for (uint64_t i = 0; i < arguments[0].value; i++) {
        block_verify(owner->objects[i].address, owner->objects[i].bytes);
        if (!is_array()) free(owner->objects[i].address);
    }
}

static void pass_barrier(void) {
    if (arguments[2].value > 1) pthread_barrier_wait(&barrier);
}

/* What the first thread does between two times, while all others wait. */
#define ALONE(owner, what)              \
    do {                                \
        pass_barrier();                 \
        if ((owner)->number == 0) what; \
        pass_barrier();                 \
    } while (0)

static void replacing_begins(void) {
    section_boundary();
    replacing_s = -time_now_s();
    replacing_cpu_s = -usage_now().cpu_s;
}

static void replacing_ends(void) {
    replacing_s += time_now_s();
    replacing_cpu_s += usage_now().cpu_s;
    resident_working = anonymous_bytes();
    section_boundary();
}

static void rest(void) {
    section_boundary();
    pause_us(arguments[6].value * 1000);
    resident_idle = anonymous_bytes();
}

static uint64_t rounds_each(void) {
    uint64_t together = arguments[2].value * REPLACED_TOGETHER;
    return (arguments[1].value + together - 1) / together;
}

static void *live(void *context) {
    struct owner *owner = (struct owner *)context;
    struct random_stream random = random_seeded(owner->number + THREADS_MOST);
    build(owner);
    ALONE(owner, replacing_begins());
    for (uint64_t r = rounds_each(); r > 0; r--) replace_some(owner->objects, &random);
    ALONE(owner, replacing_ends());
    drop(owner);
    ALONE(owner, rest());
    return NULL;
}

static void owner_prepare(struct owner *owner, uint64_t number) {
    owner->number = number;
    owner->objects = (struct object *)pages_new(arguments[0].value * sizeof *owner->objects);
    if (is_array()) owner->array = (char *)fresh_pages(array_bytes(number));
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "The same accesses with an allocator and without one.", arguments,
                    sizeof arguments / sizeof *arguments);
    if (arguments[4].value > arguments[5].value) workload_misuse("smallest is above largest");
    uint64_t threads = arguments[2].value;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (uint64_t t = 0; t < threads; t++) owner_prepare(&owners[t], t);
    resident_before = anonymous_bytes();
    double started_s = time_now_s();
    section_boundary();
    threads_run(threads, live, owners, sizeof *owners);
    uint64_t operations = rounds_each() * threads * REPLACED_TOGETHER;
    report_print(threads * arguments[0].value + operations, started_s);
    if (operations) {
        figure_print("ns_per_operation", replacing_s * 1e9 / (double)operations);
        figure_print("cpu_ns_per_operation", replacing_cpu_s * 1e9 / (double)operations);
    }
    figure_print("working_kib", (double)(resident_working - resident_before) / (double)KIB);
    figure_print("idle_kib", (double)(resident_idle - resident_before) / (double)KIB);
    return 0;
}
