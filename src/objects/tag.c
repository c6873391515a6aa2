/* tag.c - see tag.h. */
#include "objects/tag.h"

#include <string.h>

#include "objects/arena.h"
#include "objects/hardened.h"
#include "objects/heap.h"
#include "objects/thread_cache.h"

_Atomic bool tag_was_used;

static PRIM_FAR _Atomic(struct arena *) tags[TAG_COUNT_MAX]; /* (atomic: shared arena) */

/* A tag's never changes. */
static bool has_name(const struct arena *arena, const char *name) {
    size_t i = 0;
    while (i < ARENA_NAME_SIZE - 1 && name[i] && name[i] == arena->name[i]) {
        i++;
    }
    return i == ARENA_NAME_SIZE - 1 || name[i] == arena->name[i];
}

static unsigned hash_of(const char *name) {
    unsigned hash = 0;
    for (unsigned i = 0; i < ARENA_NAME_SIZE - 1 && name[i]; i++) {
        hash = (hash + (unsigned char)name[i]) * 0x9e3779b1;
    }
    return hash >> 16;
}

/* The number of a name; 0 if the table is full, or without memory. */
static unsigned find(const char *name) {
    unsigned start = hash_of(name);
    for (unsigned step = 0; step < TAG_COUNT_MAX; step++) {
        unsigned index = (start + step) % TAG_COUNT_MAX;
        struct arena *arena = arena_at(&tags[index], ARENA_TAG, name, false);
        if (!arena || has_name(arena, name)) {
            return arena ? index + 1 : 0;
        }
    }
    return 0;
}

bool tag_push(const char *name) {
    heap_ensure();
    struct thread_cache *cache = thread_cache_own();
    if (!cache) {
        return false;
    }
    bool is_named = name && *name;
    unsigned before = cache->tag;
    unsigned tag = 0;
    if (is_named) {
        tag = find(name);
        store_relaxed(&tag_was_used, true);
    }
    bool is_done = (tag || !is_named) && cache->tag_depth < TAG_DEPTH_MAX;
    cache->tag = (uint16_t)(is_done ? tag : before);
    if (cache->tag_depth < TAG_DEPTH_MAX) {
        cache->rest->tags_before[cache->tag_depth] = (uint16_t)before;
    }
    cache->tag_depth++;
    thread_cache_show();
    return is_done;
}

void tag_pop(void) {
    struct thread_cache *cache = thread_cache_own();
    if (cache && cache->tag_depth > 0) {
        cache->tag_depth--;
        if (cache->tag_depth < TAG_DEPTH_MAX) {
            cache->tag = cache->rest->tags_before[cache->tag_depth];
        }
        thread_cache_show();
    }
}

unsigned tag_now(void) {
    struct thread_cache *cache = load_relaxed(&tag_was_used) ? thread_cache_own() : NULL;
    return cache ? cache->tag : 0;
}

const char *tag_name(unsigned tag) {
    struct arena *arena = tag ? load_acquire(&tags[tag - 1]) : NULL; /* order pair: shared arena */
    return arena ? arena->name : "";
}

struct arena *tag_arena_now(void) {
    unsigned tag = hardened_is_on() ? 0 : tag_now();
    return tag ? load_acquire(&tags[tag - 1]) : NULL; /* order pair: shared arena */
}
