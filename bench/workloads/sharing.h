/* What cache-scratch and cache-thrash share: writing to one small block again and again. */
#ifndef SHARING_H
#define SHARING_H

#include "workload.h"

/* The classic order of arguments: threads, inner loop, object size, iterations. */
static struct argument arguments[] = {
    {"threads", "threads side by side", 2, 1, THREADS_MOST, NULL},
    {"inner-loop", "writes to each byte of an object before it is freed", 1000, 1, UINT32_MAX,
     NULL},
    {"size", "bytes of an object", 8, 1, 1 << 20, NULL},
    {"iterations", "objects in all, shared out to the threads", 100000, 1, UINT32_MAX, NULL},
};

static inline void object_write(volatile unsigned char *object) {
    uint64_t bytes = arguments[2].value;
    for (uint64_t b = 0; b < bytes; b++) object[b] = 0;
    for (uint64_t i = 0; i < arguments[1].value; i++) {
        for (uint64_t b = 0; b < bytes; b++) object[b] = (unsigned char)(object[b] + 1);
    }
    if (object[bytes - 1] != (unsigned char)arguments[1].value)
        workload_fail("object %p of %llu bytes lost its contents", (void *)object,
                      (unsigned long long)bytes);
}

/* A thread's part: frees the block that it was given, if any, then allocates, writes and frees. */
static void *objects_write(void *given) {
    free(*(void **)given);
    uint64_t objects = arguments[3].value / arguments[0].value;
    for (uint64_t i = 0; i < objects; i++) {
        unsigned char *object = (unsigned char *)malloc(arguments[2].value);
        object_write((unsigned char *)block_found(object, arguments[2].value));
        free(object);
    }
    return NULL;
}

static void sharing_run(int argc, char **argv, const char *summary, int gives_objects) {
    arguments_parse(argc, argv, summary, arguments, sizeof arguments / sizeof *arguments);
    static void *given[THREADS_MOST];
    for (uint64_t i = 0; gives_objects && i < arguments[0].value; i++)
        given[i] = block_new(arguments[2].value);

    double started_s = time_now_s();
    threads_run(arguments[0].value, objects_write, given, sizeof *given);
    report_print(arguments[3].value, started_s);
}

#endif
