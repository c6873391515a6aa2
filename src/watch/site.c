/* site.c - see site.h: a hash table of chains that doubles when it is full. Sites themselves are
 * metadata, and stay for the next profile. */
#include "watch/site.h"

#include <string.h>

#include "os/memory.h"
#include "pages/metadata.h"

enum { BUCKETS_FIRST = 4096 };

static uint64_t hash_of(const uint64_t *frames, unsigned count, uint64_t seed) {
    uint64_t hash = seed;
    for (unsigned i = 0; i < count; i++) {
        hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
    }
    return hash;
}

static size_t table_bytes(size_t bucket_count) {
    return bucket_count * sizeof(struct site *);
}

/* False without memory: then the chains grow, or there is no table yet. */
static PRIM_COLD bool grow(struct site_table *table) {
    size_t count = table->bucket_count ? 2 * table->bucket_count : BUCKETS_FIRST;
    struct site **buckets = memory_map(table_bytes(count));
    if (!buckets) {
        return table->buckets != NULL;
    }
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (struct site *site = table->buckets[i], *next; site; site = next) {
            struct site **bucket = &buckets[site->hash & (count - 1)];
            next = site->next;
            site->next = *bucket;
            *bucket = site;
        }
    }
    if (table->buckets) {
        memory_unmap(table->buckets, table_bytes(table->bucket_count));
    }
    table->buckets = buckets;
    table->bucket_count = count;
    return true;
}

static PRIM_COLD struct site *add(struct site_table *table, const uint64_t *frames,
                                  unsigned frame_count, uint64_t hash) {
    size_t frames_size = frame_count * sizeof *frames;
    if (table->site_count >= table->bucket_count && !grow(table)) {
        return NULL;
    }
    struct site *site = metadata_allocate(sizeof *site + frames_size, _Alignof(struct site));
    if (site) {
        struct site **bucket = &table->buckets[hash & (table->bucket_count - 1)];
        site->hash = hash;
        site->frame_count = (uint16_t)frame_count;
        memcpy(site->frames, frames, frames_size);
        site->next = *bucket;
        *bucket = site;
        table->site_count++;
    }
    return site;
}

struct site *site_find(struct site_table *table, const uint64_t *frames, unsigned frame_count,
                       unsigned thread, uint32_t tag) {
    uint64_t hash = hash_of(frames, frame_count, (uint64_t)tag << 16 | thread);
    struct site *site =
        table->bucket_count ? table->buckets[hash & (table->bucket_count - 1)] : NULL;
    for (; site; site = site->next) {
        if (site->hash == hash && site->thread == thread && site->tag == tag &&
            site->frame_count == frame_count &&
            memcmp(site->frames, frames, frame_count * sizeof *frames) == 0) {
            return site;
        }
    }
    site = add(table, frames, frame_count, hash);
    if (site) {
        site->thread = (uint16_t)thread;
        site->tag = tag;
    }
    return site;
}

PRIM_COLD void site_each(const struct site_table *table, site_visitor *visit, void *context) {
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (struct site *site = table->buckets[i]; site; site = site->next) {
            visit(site, context);
        }
    }
}
