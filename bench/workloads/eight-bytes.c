/* Very many very small objects: what one costs in memory.
 *
 * <objects> objects of <size> bytes are allocated, written and, at the end, checked and freed. The
 * only thing beside them is the array of pointers, which is allocated and touched before the
 * objects. With --rss=1 the program prints how much its resident size (Rss of smaps_rollup) grew
 * for each object.
 */
#include "workload.h"

static struct argument arguments[] = {
    {"objects", "live objects", 4000000, 1, 1000000000, NULL},
    {"size", "bytes of an object", 8, 1, 1 << 20, NULL},
    {"rss", "1 = print the growth of resident memory per object", 0, 0, 1, NULL},
};

/* From smaps_rollup, which counts pages: VmRSS of /proc/self/status is an estimate that may be off
 * by 64 pages, as much as all that is measured here. */
static uint64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file) workload_fail("cannot read /proc/self/smaps_rollup: %s", strerror(errno));
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) && sscanf(line, "Rss: %llu", &kib) != 1) continue;
    fclose(file);
    return kib * 1024;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Very many very small objects, and what one costs in memory.",
                    arguments, sizeof arguments / sizeof *arguments);
    uint64_t count = arguments[0].value;
    size_t bytes = arguments[1].value;
    void **objects = (void **)table_new(count, sizeof *objects);
    memset(objects, 0xFF, count * sizeof *objects);
    if (arguments[2].value) resident_bytes(); /* libc's own pages for reading come in now */
    uint64_t resident_before = arguments[2].value ? resident_bytes() : 0;

    double started_s = time_now_s();
    for (uint64_t i = 0; i < count; i++) objects[i] = block_new(bytes);
    if (arguments[2].value) {
        uint64_t grown = resident_bytes() - resident_before;
        printf("%s: %.3f resident bytes for each object of %zu bytes\n", workload_name,
               (double)grown / (double)count, bytes);
    }
    for (uint64_t i = 0; i < count; i++) block_delete(objects[i], bytes);
    report_print(count, started_s);
    free(objects);
    return 0;
}
