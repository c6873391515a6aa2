/* Where the choices of a sequence come from: the bytes of the fuzzer's input, and when they are
 * used up, numbers that follow from them. So each input, however short, is a whole sequence. */
#ifndef TESTS_FUZZ_FEED_H
#define TESTS_FUZZ_FEED_H

#include <stddef.h>
#include <stdint.h>

struct feed {
    const uint8_t *bytes;
    size_t left;
    uint64_t state;
};

static inline struct feed feed_from(const uint8_t *bytes, size_t size, uint64_t salt) {
    uint64_t state = 0xcbf29ce484222325u ^ salt;
    for (size_t i = 0; i < size; i++) state = (state ^ bytes[i]) * 0x100000001b3u;
    return (struct feed){bytes, size, state};
}

/* A number that follows from the input (splitmix64). */
static inline uint64_t feed_invent(struct feed *feed) {
    uint64_t value = feed->state += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static inline uint32_t feed_take(struct feed *feed, unsigned bytes) {
    if (feed->left < bytes) {
        feed->left = 0;
        return (uint32_t)(feed_invent(feed) >> (64 - 8 * bytes));
    }
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint32_t)feed->bytes[i] << (8 * i);
    feed->bytes += bytes;
    feed->left -= bytes;
    return value;
}

/* A choice among so many, at most 65536. */
static inline uint32_t feed_below(struct feed *feed, uint32_t bound) {
    return feed_take(feed, bound <= 256 ? 1 : 2) % bound;
}

#endif
