/* A process that needed much once: what does it keep when it sits idle?
 *
 * Objects of <kind> are allocated and written until <mib> MiB live; then all but the survivors are
 * freed, and for <idle> seconds no call is made. The survivors are either a phase, objects
 * allocated one after another in the middle of it all, <surviving> MiB of them; or scattered,
 * <percent> of 100 objects at random. Then the resident size is read, and what the process does
 * while it goes on sleeping is counted for <watched> seconds.
 *
 * The program's own tables are pages that were resident before the first object and are taken off
 * every figure. The pages that hold live bytes are counted from the survivors' addresses, so that
 * "no more than needed" is known exactly for each allocator's own placement.
 */
#include "figures.h"

static const char *const kind_words[] = {"small", "mixed", "large", NULL};
static const char *const way_words[] = {"phase", "scattered", NULL};

enum { KIND, WAY, MIB_FILLED, SURVIVING, PERCENT, IDLE, WATCHED };
enum { PHASE, SCATTERED };

static struct argument arguments[] = {
    {"kind", "objects: 16 B to 1 KiB, 16 B to 256 KiB, 64 KiB to 8 MiB", 0, 0, 2, kind_words},
    {"survivors", "which objects stay", 0, 0, 1, way_words},
    {"mib", "MiB of live objects at the most", 1024, 16, 65536, NULL},
    {"surviving", "MiB that survive (phase)", 50, 1, 65536, NULL},
    {"percent", "of 100 objects, how many survive (scattered)", 5, 0, 100, NULL},
    {"idle", "seconds without a call before the reading", 10, 0, 3600, NULL},
    {"watched", "further seconds in which wake-ups are counted", 5, 1, 3600, NULL},
};

struct object {
    unsigned char *address;
    size_t bytes;
};

/* Sizes are log-uniform between these powers of two; the first two kinds end below the last. */
static const struct { unsigned least_power, most_power; } kinds[] = {{4, 9}, {4, 17}, {16, 22}};

static struct object *objects;
static size_t object_count;
static size_t object_room;
static size_t table_bytes;

static size_t mean_bytes(void) {
    unsigned least = kinds[arguments[KIND].value].least_power;
    unsigned most = kinds[arguments[KIND].value].most_power;
    /* Uniform between 2^p and 2^(p+1) is 1.5 * 2^p in the mean; over all p a geometric sum. */
    return (((size_t)3 << most) - ((size_t)3 << least) / 2) / (most - least + 1);
}

static void table_open(void) {
    object_room = (arguments[MIB_FILLED].value * MIB / mean_bytes()) * 5 / 4 + 10000;
    table_bytes = (object_room * sizeof *objects + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    objects = (struct object *)pages_new(table_bytes);
}

static void fill(struct random_stream *random) {
    size_t live = 0;
    while (live < arguments[MIB_FILLED].value * MIB) {
        size_t bytes = random_size_log(random, kinds[arguments[KIND].value].least_power,
                                       kinds[arguments[KIND].value].most_power);
        if (object_count == object_room) workload_fail("more objects than expected");
        unsigned char *address = (unsigned char *)block_found(malloc(bytes), bytes);
        memset(address, 1, bytes);
        block_write(address, bytes);
        objects[object_count++] = (struct object){address, bytes};
        live += bytes;
    }
}

/* Frees all but the survivors, in the order of allocation, and moves those to the table's front. */
static size_t free_down(struct random_stream *random) {
    size_t wanted = arguments[SURVIVING].value * MIB;
    size_t live = 0, kept = 0;
    for (size_t i = 0; i < object_count; i++) {
        int survives = arguments[WAY].value == SCATTERED
                           ? random_below(random, 100) < arguments[PERCENT].value
                           : i >= object_count / 2 && live < wanted;
        if (survives) {
            live += objects[i].bytes;
            objects[kept++] = objects[i];
        } else {
            block_delete(objects[i].address, objects[i].bytes);
        }
    }
    object_count = kept;
    return live;
}

/* ---- the pages that hold live bytes ---- */

static void sift_down(size_t root, size_t count) {
    struct object moved = objects[root];
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && objects[child + 1].address > objects[child].address) child++;
        if (objects[child].address <= moved.address) break;
        objects[root] = objects[child];
    }
    objects[root] = moved;
}

/* By address, in place: libc's qsort may call malloc. */
static void objects_sort(void) {
    for (size_t root = object_count / 2; root-- > 0;) sift_down(root, object_count);
    for (size_t last = object_count; last-- > 1;) {
        struct object largest = objects[0];
        objects[0] = objects[last];
        objects[last] = largest;
        sift_down(0, last);
    }
}

static size_t live_page_bytes(void) {
    size_t pages = 0;
    uintptr_t next = 0; /* the first page that is not yet counted */
    objects_sort();
    for (size_t i = 0; i < object_count; i++) {
        uintptr_t first = (uintptr_t)objects[i].address / PAGE_BYTES;
        uintptr_t last = ((uintptr_t)objects[i].address + objects[i].bytes - 1) / PAGE_BYTES;
        if (first < next) first = next;
        if (last < first) continue;
        pages += last - first + 1;
        next = last + 1;
    }
    return pages * PAGE_BYTES;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Much is allocated, little survives, and the process sits idle.",
                    arguments, sizeof arguments / sizeof *arguments);
    struct random_stream random = random_seeded(1);
    table_open();
    size_t base = resident_bytes();
    fill(&random);
    size_t peak = resident_bytes();
    size_t live = free_down(&random);
    size_t freed = resident_bytes();
    size_t live_pages = live_page_bytes();

    pause_us(arguments[IDLE].value * 1000000);
    size_t idle = resident_bytes();
    struct usage before = usage_now();
    pause_us(arguments[WATCHED].value * 1000000);
    struct usage after = usage_now();
    uint64_t threads = thread_count();

    figure_print("table_mib", (double)table_bytes / MIB);
    figure_print("live_mib", (double)live / MIB);
    figure_print("live_pages_mib", (double)live_pages / MIB);
    figure_print("peak_mib", (double)(peak - table_bytes) / MIB);
    figure_print("freed_mib", (double)(freed - table_bytes) / MIB);
    figure_print("idle_mib", (double)(idle - table_bytes) / MIB);
    figure_print("idle_per_live_pages", ((double)idle - (double)base) / (double)live_pages);
    /* One switch is this thread's own, which sleeps through the watch. */
    figure_print("wakeups_per_s",
                 (double)(after.switches - before.switches - 1) / (double)arguments[WATCHED].value);
    figure_print("threads", (double)threads);
    for (size_t i = 0; i < object_count; i++) block_delete(objects[i].address, objects[i].bytes);
    return 0;
}
