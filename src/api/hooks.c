/* hooks.c - prim_hooks_set: the program as a watcher.
 *
 * Hooks are copied once and never freed, so a thread may go on in those that another takes away;
 * the same hooks set again are the same copy. They share a rank, and its mark, with the classic
 * ones (standard_hooks.c), which have no use for the mark. */
#include <errno.h>
#include <string.h>

#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "objects/watcher.h"
#include "pages/metadata.h"
#include "primalloc.h"

struct copy {
    struct prim_hooks hooks; /* (const) */
    struct copy *next;       /* (const) */
};

static _Atomic(struct copy *) copies;  /* (atomic: hooks) all that ever were */
static _Atomic(struct copy *) current; /* (atomic: hooks) */

/* The hooks in force, if they have this function and the thread is not inside them: then it is from
 * now on. */
static const struct prim_hooks *enter(const struct watcher *self, size_t function) {
    const struct copy *copy = load_acquire(&current); /* order pair: hooks */
    void (*pointer)(void) = NULL;
    if (copy) {
        memcpy(&pointer, (const char *)&copy->hooks + function, sizeof pointer);
    }
    return pointer && watcher_enter(self) ? &copy->hooks : NULL;
}

static struct prim_hook_call call_of(const struct request *request) {
    return (struct prim_hook_call){request->size, request->alignment, request->stated_size,
                                   request->caller};
}

static void *hooked_allocate(const struct watcher *self, const struct request *request) {
    const struct prim_hooks *hooks =
        request->arena ? NULL : enter(self, offsetof(struct prim_hooks, on_allocate));
    if (!hooks) {
        return watcher_pass_allocate(self, request);
    }
    struct prim_hook_call call = call_of(request);
    void *block = hooks->on_allocate(&call, hooks->context);
    watcher_leave(self);
    return block && request->is_zeroed ? memset(block, 0, request->size) : block;
}

static void *hooked_reallocate(const struct watcher *self, void *block,
                               const struct request *request) {
    const struct prim_hooks *hooks = enter(self, offsetof(struct prim_hooks, on_reallocate));
    if (!hooks) {
        return watcher_pass_reallocate(self, block, request);
    }
    struct prim_hook_call call = call_of(request);
    void *target = hooks->on_reallocate(block, &call, hooks->context);
    watcher_leave(self);
    return target;
}

static void hooked_release(const struct watcher *self, void *block, const struct request *request) {
    const struct prim_hooks *hooks = enter(self, offsetof(struct prim_hooks, on_release));
    if (!hooks) {
        watcher_pass_release(self, block, request);
        return;
    }
    struct prim_hook_call call = call_of(request);
    hooks->on_release(block, &call, hooks->context);
    watcher_leave(self);
}

static size_t hooked_usable_size(const struct watcher *self, const void *block) {
    const struct prim_hooks *hooks = enter(self, offsetof(struct prim_hooks, on_usable_size));
    if (!hooks) {
        return watcher_pass_usable_size(self, block);
    }
    size_t size = hooks->on_usable_size(block, hooks->context);
    watcher_leave(self);
    return size;
}

static struct watcher program_hooks = {
    hooked_allocate, hooked_reallocate, hooked_release, hooked_usable_size, RANK_HOOKS, NULL,
};

static struct copy *copy_of(const struct prim_hooks *hooks) {
    struct copy *first = load_acquire(&copies); /* order pair: hooks */
    for (struct copy *copy = first; copy; copy = copy->next) {
        if (memcmp(&copy->hooks, hooks, sizeof *hooks) == 0) {
            return copy;
        }
    }
    thread_cache_nest(); /* a signal's handler may allocate as well */
    struct copy *copy = metadata_allocate(sizeof *copy, _Alignof(struct copy));
    thread_cache_leave();
    if (copy) {
        copy->hooks = *hooks;
        do {
            copy->next = first;
        } while (!compare_exchange_release(&copies, &first, copy)); /* order pair: hooks */
    }
    return copy;
}

/* Whoever takes the watcher out looks whether somebody has set hooks meanwhile. */
PRIM_EXPORT const struct prim_hooks *prim_hooks_set(const struct prim_hooks *hooks) {
    heap_ensure();
    struct copy *copy = hooks ? copy_of(hooks) : NULL;
    if (hooks && !copy) {
        errno = ENOMEM;
        copy = load_acquire(&current); /* order pair: hooks */
        return copy ? &copy->hooks : NULL;
    }
    struct copy *before;
    struct copy *expected;
    do {
        expected = before = load_acquire(&current);                 /* order pair: hooks */
    } while (!compare_exchange_release(&current, &expected, copy)); /* order pair: hooks */
    if (!copy) {
        watcher_unregister(&program_hooks);
    }
    if (load_acquire(&current)) { /* order pair: hooks */
        watcher_register(&program_hooks);
    }
    return before ? &before->hooks : NULL;
}
