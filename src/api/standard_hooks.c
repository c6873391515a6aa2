/* standard_hooks.c - __malloc_hook and its relatives, as glibc before 2.34 had them.
 *
 * A program that references any of them gets a watcher that calls what they hold; any other program
 * gets none. Who is there at the start is found out in our constructor: a program's own copy makes
 * the address differ from ours, a library's reference stands among its relocations. What
 * includes primalloc-hooks.h says so itself, whenever it is loaded. Of a library that was loaded
 * later and says nothing we learn when a malloc that the fast path does not serve finds
 * __malloc_hook set. To ask the loader would take a lock of its, which another thread may hold
 * while it waits for the caller.
 *
 * They are no more thread-safe than they ever were. A hook that calls malloc itself first puts the
 * old one back, as the manual has it. */
#include <link.h>
#include <string.h>

#include "api/standard.h"
#include "objects/watcher.h"

typedef void *malloc_hook(size_t size, const void *caller);
typedef void *realloc_hook(void *block, size_t size, const void *caller);
typedef void *memalign_hook(size_t alignment, size_t size, const void *caller);
typedef void free_hook(void *block, const void *caller);

extern malloc_hook *volatile __malloc_hook;
extern realloc_hook *volatile __realloc_hook;
extern memalign_hook *volatile __memalign_hook;
extern free_hook *volatile __free_hook;
extern void (*volatile __malloc_initialize_hook)(void);

/* Weak: a static program may define them itself. */
#define HOOK PRIM_EXPORT __attribute__((weak))
HOOK malloc_hook *volatile __malloc_hook;
HOOK realloc_hook *volatile __realloc_hook;
HOOK memalign_hook *volatile __memalign_hook;
HOOK free_hook *volatile __free_hook;
HOOK void (*volatile __malloc_initialize_hook)(void);

static void *hooked_allocate(const struct watcher *self, const struct request *request) {
    malloc_hook *plain = request->arena ? NULL : __malloc_hook;
    memalign_hook *aligned = request->arena ? NULL : __memalign_hook;
    void *block;
    if (request->alignment && aligned) {
        block = aligned(request->alignment, request->size, request->caller);
    } else if (!request->alignment && plain) {
        block = plain(request->size, request->caller);
    } else {
        return watcher_pass_allocate(self, request);
    }
    return block && request->is_zeroed ? memset(block, 0, request->size) : block;
}

static void hooked_release(const struct watcher *self, void *block, const struct request *request) {
    free_hook *hook = __free_hook;
    if (hook) {
        hook(block, request->caller);
    } else {
        watcher_pass_release(self, block, request);
    }
}

/* Without a hook of its own realloc goes on to malloc and free, and so to theirs. */
static void *hooked_reallocate(const struct watcher *self, void *block,
                               const struct request *request) {
    realloc_hook *hook = __realloc_hook;
    if (hook) {
        return hook(block, request->size, request->caller);
    }
    if (!block) {
        return hooked_allocate(self, request);
    }
    if (request->size == 0) {
        hooked_release(self, block, request);
        return NULL;
    }
    return watcher_pass_reallocate(self, block, request);
}

static struct watcher hooks = {
    hooked_allocate, hooked_reallocate, hooked_release, watcher_pass_usable_size, RANK_HOOKS, NULL,
};

/* Any of the five, or none that is known: __[mrf]..._hook. Libc's strcmp would cost more to find,
 * at a process's start, than it saves. */
static bool is_hook(const char *name) {
    static const char end[] = "_hook";
    if (name[0] != '_' || name[1] != '_' || (name[2] != 'm' && name[2] != 'r' && name[2] != 'f')) {
        return false;
    }
    size_t matched = 0;
    for (; *name; name++) {
        matched = *name == end[matched] ? matched + 1 : *name == end[0];
    }
    return matched == sizeof end - 1;
}

/* Some loaders leave addresses in the dynamic section as the file has them. */
static const void *address_in(const struct dl_phdr_info *info, ElfW(Addr) value) {
    return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

/* Where the linker put our own header. */
extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

/* A reference to a variable is a relocation with its symbol, in a program or library that exports
 * nothing as well. */
static int references_hook(struct dl_phdr_info *info, size_t size, void *context) {
    const ElfW(Dyn) *entry = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *text = NULL;
    const ElfW(Rela) *relocations = NULL;
    size_t bytes = 0;
    size_t first = 0; /* behind those that have no symbol */
    (void)size;
    (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    if (!entry || info->dlpi_addr == (uintptr_t)__ehdr_start) {
        return 0; /* we are no user of theirs */
    }
    for (; entry->d_tag != DT_NULL; entry++) {
        symbols = entry->d_tag == DT_SYMTAB ? address_in(info, entry->d_un.d_ptr) : symbols;
        text = entry->d_tag == DT_STRTAB ? address_in(info, entry->d_un.d_ptr) : text;
        relocations = entry->d_tag == DT_RELA ? address_in(info, entry->d_un.d_ptr) : relocations;
        bytes = entry->d_tag == DT_RELASZ ? entry->d_un.d_val : bytes;
        first = entry->d_tag == DT_RELACOUNT ? entry->d_un.d_val : first;
    }
    if (!symbols || !text || !relocations) {
        return 0;
    }
    const void *end = (const char *)relocations + bytes;
    for (relocations += first; (const void *)relocations < end; relocations++) {
        const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(relocations->r_info)];
        if (symbol->st_shndx == SHN_UNDEF && is_hook(text + symbol->st_name)) {
            return 1;
        }
    }
    return 0;
}

/* Where the library's own definitions are, whoever's are in force. */
#define OWN(type, name) \
    extern type volatile prim_internal_own##name __attribute__((alias(#name), visibility("hidden")))
OWN(malloc_hook *, __malloc_hook);
OWN(realloc_hook *, __realloc_hook);
OWN(memalign_hook *, __memalign_hook);
OWN(free_hook *, __free_hook);
extern void (*volatile prim_internal_own__malloc_initialize_hook)(void)
    __attribute__((alias("__malloc_initialize_hook"), visibility("hidden")));

static bool has_copy(void) {
    return (void *)&__malloc_hook != (void *)&prim_internal_own__malloc_hook ||
           (void *)&__realloc_hook != (void *)&prim_internal_own__realloc_hook ||
           (void *)&__memalign_hook != (void *)&prim_internal_own__memalign_hook ||
           (void *)&__free_hook != (void *)&prim_internal_own__free_hook ||
           (void *)&__malloc_initialize_hook != (void *)&prim_internal_own__malloc_initialize_hook;
}

void __malloc_hooks_are_used(void);

/* Called by what includes primalloc-hooks.h. */
PRIM_EXPORT void __malloc_hooks_are_used(void) {
    static _Atomic uint32_t is_initialised; /* (atomic: hint) */
    void (*initialise)(void) = __malloc_initialize_hook;
    watcher_register(&hooks);
    if (initialise && !exchange_acquire(&is_initialised, true)) {
        initialise();
    }
}

__attribute__((constructor(102))) static void look_for_hooks(void) {
    if (has_copy() || dl_iterate_phdr(references_hook, NULL)) {
        __malloc_hooks_are_used();
    } else {
        static const struct watcher_wish wish = {
            (const volatile watcher_word *)&prim_internal_own__malloc_hook,
            __malloc_hooks_are_used};
        store_release(&watcher_wish, &wish); /* order pair: wish */
    }
}
