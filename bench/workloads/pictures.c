/* Pictures: blocks of some megabytes that are filled from end to end.
 *
 * The program keeps <pictures>, each of a random size up to <largest>, and replaces random ones by
 * others of other sizes, <steps> times: by a free and a malloc, by a free and a posix_memalign that
 * begins at 2 MiB, or by a realloc. An allocator that finds no place in what it kept has fresh
 * pages faulted in for nearly every picture; one that keeps too much grows without end.
 */
#include "figures.h"

static const char *const ways[] = {"new", "aligned", "resized", NULL};
enum { NEW, ALIGNED, RESIZED };

static struct argument arguments[] = {
    {"way", "how a picture comes", NEW, 0, 0, ways},
    {"pictures", "pictures that are kept", 12, 1, 100000, NULL},
    {"largest", "the largest picture, in KiB", 8192, 1, 1 << 20, NULL},
    {"steps", "pictures that come", 1500, 0, UINT32_MAX, NULL},
    {"seed", "of the sizes and places", 1, 0, UINT64_MAX, NULL},
};

enum { ALIGNMENT = 2 << 20 };

struct picture {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;
};

static void picture_check(const struct picture *picture, size_t size) {
    if (size && (picture->bytes[0] != picture->mark || picture->bytes[size - 1] != picture->mark))
        workload_fail("picture %p lost its contents", (void *)picture->bytes);
}

static unsigned char *bytes_new(uint64_t way, size_t size) {
    void *bytes = NULL;
    if (way == ALIGNED) {
        if (posix_memalign(&bytes, ALIGNMENT, size) != 0) bytes = NULL;
    } else {
        bytes = malloc(size);
    }
    return (unsigned char *)block_found(bytes, size);
}

static void picture_replace(struct picture *picture, uint64_t way, size_t size,
                            unsigned char mark) {
    picture_check(picture, picture->size);
    if (way == RESIZED) {
        picture->bytes = (unsigned char *)block_found(realloc(picture->bytes, size), size);
        picture_check(picture, picture->size < size ? picture->size : size);
    } else {
        free(picture->bytes);
        picture->bytes = bytes_new(way, size);
    }
    picture->size = size;
    picture->mark = mark;
    memset(picture->bytes, mark, size);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Blocks of megabytes, filled from end to end.", arguments,
                    sizeof arguments / sizeof *arguments);
    uint64_t way = arguments[0].value;
    size_t count = arguments[1].value;
    size_t largest = (size_t)arguments[2].value << 10;
    uint64_t steps = arguments[3].value;
    struct random_stream random = random_seeded(arguments[4].value);
    double started_s = time_now_s();
    struct picture *pictures = (struct picture *)table_new(count, sizeof *pictures);
    for (uint64_t step = 0; step < steps; step++) {
        struct picture *picture = &pictures[random_below(&random, count)];
        size_t size = 1 + random_below(&random, largest);
        picture_replace(picture, way, size, (unsigned char)random_next(&random));
    }
    for (size_t p = 0; p < count; p++) {
        picture_check(&pictures[p], pictures[p].size);
        free(pictures[p].bytes);
    }
    free(pictures);
    report_print(steps, started_s);
    return 0;
}
