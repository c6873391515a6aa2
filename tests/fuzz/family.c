/* The calls of malloc's family, of C++'s operators and of our own functions of that kind. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/calls.h"
#include "fuzz/standard.h"

static size_t least_alignment(size_t size) {
    return size > 8 ? 16 : 8;
}

static size_t page_size(void) {
    static size_t size;
    if (size == 0) size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

static bool adopt(struct player *player, void *start, size_t size, size_t alignment,
                  enum origin origin) {
    return shadow_adopt(
        player,
        (struct block){.start = start, .size = size, .alignment = alignment, .origin = origin});
}

static void call_malloc(struct player *player) {
    size_t size = choose_size(player);
    shadow_note(player, "malloc", NULL, size, 0);
    uint32_t name = feed_below(&player->feed, 4);
    errno = 0;
    void *block = name == 0   ? prim_malloc(size)
                  : name == 1 ? under_test___libc_malloc(size)
                              : under_test_malloc(size);
    adopt(player, block, size, least_alignment(size), FROM_MALLOC);
}

static void call_calloc(struct player *player) {
    size_t size = choose_size(player);
    size_t count = 1 + feed_below(&player->feed, 4);
    size_t each = size / count;
    shadow_note(player, "calloc", NULL, count, each);
    uint32_t name = feed_below(&player->feed, 3);
    errno = 0;
    unsigned char *block = name == 0   ? prim_calloc(count, each)
                           : name == 1 ? under_test___libc_calloc(count, each)
                                       : under_test_calloc(each, count);
    if (block) shadow_check_zero(player, block, 0, count * each);
    adopt(player, block, count * each, least_alignment(count * each), FROM_MALLOC);
}

/* What all kinds of realloc share: the block at the index became fresh, with size bytes. Returns
 * whether it did. */
static bool resized(struct player *player, size_t index, unsigned char *fresh, size_t size) {
    struct block *block = &player->blocks[index];
    if (!fresh) {
        shadow_may_fail(player, size, 1, block->heap);
        return false; /* it is as it was, and will be looked at when it is freed */
    }
    shadow_check(player, block, fresh, size < block->size ? size : block->size);
    struct block renewed = *block;
    /* One that stays keeps an odd place that it was given. */
    if (fresh != block->start) renewed.alignment = least_alignment(size);
    player->held_bytes -= block->usable;
    player->blocks[index] = player->blocks[--player->count];
    renewed.start = fresh;
    renewed.size = size;
    renewed.origin = renewed.heap ? FROM_HEAP : FROM_MALLOC;
    return shadow_adopt(player, renewed);
}

static size_t choose_new_size(struct player *player, const struct block *block) {
    return feed_below(&player->feed, 3) ? choose_size(player)
                                        : block->size + feed_below(&player->feed, 129);
}

static void call_realloc(struct player *player) {
    if (player->count == 0) return;
    size_t index = feed_below(&player->feed, (uint32_t)player->count);
    struct block *block = &player->blocks[index];
    if (!shadow_may_resize(block)) return;
    size_t size = choose_new_size(player, block);
    shadow_note(player, "realloc", block->start, block->size, size);
    uint32_t name = feed_below(&player->feed, 4);
    if (size == 0) {
        struct block old = shadow_take(player, index);
        if (prim_realloc(old.start, 0)) finding(player, "realloc to 0 bytes gave a block");
        return;
    }
    errno = 0;
    void *fresh = name == 0   ? prim_realloc(block->start, size)
                  : name == 1 ? under_test___libc_realloc(block->start, size)
                  : name == 2 ? under_test_reallocarray(block->start, size, 1)
                              : under_test_realloc(block->start, size);
    resized(player, index, fresh, size);
}

static void call_rezalloc(struct player *player) {
    if (player->count == 0) return;
    size_t index = feed_below(&player->feed, (uint32_t)player->count);
    struct block old = player->blocks[index];
    if (!shadow_may_resize(&old)) return;
    size_t size = choose_new_size(player, &old);
    if (size == 0) return;
    shadow_note(player, "rezalloc", old.start, old.size, size);
    bool is_array = feed_below(&player->feed, 2);
    errno = 0;
    unsigned char *fresh = is_array ? prim_recalloc(old.start, old.size, size, 1)
                                    : prim_rezalloc(old.start, old.size, size);
    if (fresh && size > old.size) shadow_check_zero(player, fresh, old.size, size);
    resized(player, index, fresh, size);
}

static void call_expand(struct player *player) {
    if (player->count == 0) return;
    size_t index = feed_below(&player->feed, (uint32_t)player->count);
    struct block old = player->blocks[index];
    if (!shadow_may_resize(&old)) return;
    size_t size = choose_new_size(player, &old);
    shadow_note(player, "expand", old.start, old.size, size);
    unsigned char *fresh = prim_expand(old.start, size);
    if (!fresh) return;
    if (fresh != old.start) finding(player, "expand moved %p", (void *)old.start);
    shadow_check(player, &old, fresh, old.size);
    player->held_bytes -= old.usable;
    player->blocks[index] = player->blocks[--player->count];
    if (size > old.size) old.size = size;
    shadow_adopt(player, old);
}

static void call_aligned(struct player *player) {
    size_t size = choose_size(player);
    size_t alignment = choose_alignment(player);
    shadow_note(player, "aligned_alloc", NULL, size, alignment);
    void *block = NULL;
    errno = 0;
    switch (feed_below(&player->feed, 6)) {
    case 0:
        block = prim_aligned_alloc(alignment, size);
        break;
    case 1:
        block = under_test_aligned_alloc(alignment, size);
        break;
    case 2:
        block = under_test___libc_memalign(alignment, size);
        break;
    case 3:
        alignment = alignment < 8 ? 8 : alignment;
        errno = under_test_posix_memalign(&block, alignment, size);
        break;
    case 4:
        alignment = alignment < 8 ? 8 : alignment;
        errno = prim_posix_memalign(&block, alignment, size);
        break;
    default:
        block = under_test_memalign(alignment, size);
    }
    adopt(player, block, size, alignment, FROM_ALIGNED);
}

static void call_pages(struct player *player) {
    size_t size = choose_size(player);
    shadow_note(player, "valloc", NULL, size, 0);
    errno = 0;
    uint32_t name = feed_below(&player->feed, 4);
    void *block = name == 0   ? under_test_valloc(size)
                  : name == 1 ? prim_valloc(size)
                  : name == 2 ? under_test___libc_pvalloc(size)
                              : under_test_pvalloc(size);
    size_t least = size;
    if (name >= 2 && block) { /* whole pages, one at least */
        least = size ? (size + page_size() - 1) / page_size() * page_size() : page_size();
    }
    adopt(player, block, least, page_size(), FROM_MALLOC);
}

static void call_aligned_at(struct player *player) {
    size_t size = choose_size(player);
    size_t alignment = choose_alignment(player);
    size_t offset = feed_below(&player->feed, 300);
    shadow_note(player, "aligned_at", NULL, size, alignment);
    bool is_zero = feed_below(&player->feed, 2);
    errno = 0;
    unsigned char *block = is_zero ? prim_calloc_aligned_at(1, size, alignment, offset)
                                   : prim_malloc_aligned_at(size, alignment, offset);
    if (block && ((uintptr_t)block + offset) % alignment != 0) {
        finding(player, "block %p plus %zu is not aligned", (void *)block, offset);
    }
    if (block && is_zero) shadow_check_zero(player, block, 0, size);
    if (!block && errno == ENOMEM && alignment + offset > SIZE_MAX / 2) return;
    adopt(player, block, size, 1, FROM_MALLOC);
}

static void call_new(struct player *player) {
    size_t size = choose_size(player);
    uint32_t form = feed_below(&player->feed, 4);
    bool is_aligned = feed_below(&player->feed, 4) == 0;
    size_t alignment = is_aligned ? choose_alignment(player) : 0;
    shadow_note(player, "operator new", NULL, size, alignment);
    if (rules.may_run_out && form >= 2) return; /* it falls back on that of the C++ library */
    errno = 0;
    void *block = operator_new(form, size, alignment);
    size_t at_least = is_aligned ? alignment : least_alignment(size);
    if (adopt(player, block, size, at_least, is_aligned ? FROM_NEW_ALIGNED : FROM_NEW)) {
        player->blocks[player->count - 1].is_array = form % 2;
    }
}

static void release_plain(struct player *player, struct block block) {
    switch (feed_below(&player->feed, 8)) {
    case 0:
        prim_free(block.start);
        break;
    case 1:
        under_test___libc_free(block.start);
        break;
    case 2:
        under_test_cfree(block.start);
        break;
    case 3:
        under_test_free_sized(block.start, block.size);
        break;
    case 4:
        under_test___libc_cfree(block.start);
        break;
    default:
        under_test_free(block.start);
    }
}

void play_release(struct player *player, struct block block) {
    enum { MARK = 4711 };
    shadow_note(player, "free", block.start, block.size, (size_t)block.origin);
    errno = MARK;
    bool is_new = block.origin == FROM_NEW || block.origin == FROM_NEW_ALIGNED;
    if (is_new) {
        unsigned form = 2 * feed_below(&player->feed, 2) + block.is_array;
        operator_delete(form, block.start, block.size,
                        block.origin == FROM_NEW_ALIGNED ? block.alignment : 0);
    } else if (block.origin == FROM_MALLOC) {
        release_plain(player, block);
    } else if (block.origin == FROM_ALIGNED && feed_below(&player->feed, 3) == 0) {
        under_test_free_aligned_sized(block.start, block.alignment, block.size);
    } else {
        under_test_free(block.start);
    }
    if (errno != MARK) finding(player, "free changed errno to %d", errno);
}

static void call_free(struct player *player) {
    if (player->count == 0) return;
    size_t index = feed_below(&player->feed, (uint32_t)player->count);
    play_release(player, shadow_take(player, index));
}

static void call_good_size(struct player *player) {
    size_t size = choose_size(player);
    shadow_note(player, "good_size", NULL, size, 0);
    size_t good = prim_good_size(size);
    if (good < size && size < SIZE_MAX / 2) finding(player, "good size of %zu is %zu", size, good);
    if (player->count == 0) return;
    struct block *block = &player->blocks[feed_below(&player->feed, (uint32_t)player->count)];
    if (under_test_malloc_usable_size(block->start) != block->usable) {
        finding(player, "usable size of %p has changed", (void *)block->start);
    }
}

static char not_ours[64];

static void call_nothing(struct player *player) {
    shadow_note(player, "free of nothing", NULL, 0, 0);
    under_test_free(NULL);
    under_test_free_sized(NULL, 100);
    under_test_free_aligned_sized(NULL, 64, 100);
    operator_delete(feed_below(&player->feed, 4), NULL, 8, 0);
    if (rules.may_misuse) {
        char on_stack[16];
        char *pointer = feed_below(&player->feed, 2) ? on_stack : not_ours;
        __asm__("" : "+r"(pointer));
        is_misuse = true;
        under_test_free(pointer);
        if (prim_malloc_usable_size(pointer) != 0) finding(player, "a foreign block has a size");
        if (prim_realloc(pointer, 100)) finding(player, "realloc of a foreign block gave one");
        is_misuse = false;
    }
}

/* Requests that nobody can meet. */
static void call_impossible(struct player *player) {
    shadow_note(player, "impossible requests", NULL, 0, 0);
    size_t odd = 3 + 2 * (size_t)feed_below(&player->feed, 100);
    void *result = not_ours;
    errno = 0;
    void *overflow = (void *)under_test_calloc(SIZE_MAX / odd, odd + 1);
    if (overflow || errno != ENOMEM) finding(player, "calloc overflowed");
    errno = 0;
    if (under_test_aligned_alloc(odd, 100) || errno != EINVAL) {
        finding(player, "aligned_alloc took the alignment %zu", odd);
    }
    if (under_test_posix_memalign(&result, odd, 8) != EINVAL || result != not_ours) {
        finding(player, "posix_memalign took the alignment %zu", odd);
    }
    if (player->count == 0) return;
    struct block *block = &player->blocks[feed_below(&player->feed, (uint32_t)player->count)];
    if (!shadow_may_resize(block)) return;
    errno = 0;
    if (under_test_reallocarray(block->start, SIZE_MAX / odd, odd + 1) || errno != ENOMEM) {
        finding(player, "reallocarray overflowed");
    }
}

const struct choice family_choices[] = {
    {call_malloc, 44},    {call_calloc, 16},  {call_realloc, 40},  {call_rezalloc, 7},
    {call_expand, 5},     {call_aligned, 16}, {call_pages, 3},     {call_aligned_at, 6},
    {call_new, 16},       {call_free, 70},    {call_good_size, 6}, {call_nothing, 2},
    {call_impossible, 2}, {NULL, 0},
};
