/* standard_cxx.c - C++'s operators new and delete, by their mangled names, without a C++ runtime.
 *
 * C++17 [new.delete]: when memory is out, operator new calls the new-handler until one frees
 * enough, throws, or is missing; then it throws std::bad_alloc. Handler and exception belong to
 * the program's C++ library, which is looked up weakly: this library works without one. The
 * nothrow forms must catch what a handler throws, which C cannot: they leave that case to the C++
 * library's own nothrow operator, which calls ours inside a try block. */
#include <dlfcn.h>
#include <errno.h>

#include "api/family.h"
#include "api/standard.h"
#include "os/process.h"

/* In a library of their own before glibc 2.34, and absent from static programs. */
#pragma weak dlsym
#pragma weak dladdr
#pragma weak dlclose

_Noreturn void abort(void); /* <stdlib.h> has malloc by other words than standard.h */

typedef void new_handler(void);
typedef void *object_opener(const char *file, int mode);
typedef void *nothrow_operator(size_t size, size_t alignment, const void *nothrow);

new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* What throwing it takes, by the Itanium C++ ABI. */
void *__cxa_allocate_exception(size_t size) __attribute__((weak));
void __cxa_throw(void *object, void *type, void (*destroy)(void *)) __attribute__((weak));
extern char _ZTISt9bad_alloc[] __attribute__((weak));  /* its type */
extern void *_ZTVSt9bad_alloc[] __attribute__((weak)); /* its functions, behind two words */
/* GCC for ppc64le keeps to itself that a variable is weak of which it knows no more than where. */
__asm__(".weak _ZTISt9bad_alloc, _ZTVSt9bad_alloc");

static PRIM_COLD void *symbol(void *handle, const char *name) {
    return &dlsym ? dlsym(handle, name) : NULL;
}

/* A C++ library that was loaded late is not bound to the weak references, and one that came with a
 * plugin may be out of the whole program's sight, but not out of the caller's. */
static PRIM_COLD void *symbol_for(const void *caller, void *handle, const char *name) {
    void *found = symbol(handle, name);
    object_opener *open = (object_opener *)symbol(RTLD_DEFAULT, "dlopen"); /* no linker's warning */
    Dl_info info;
    if (!found && open && dladdr(caller, &info)) {
        void *object = open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (object) {
            found = dlsym(object, name);
            dlclose(object); /* which stays, for it called us */
        }
    }
    return found;
}

static PRIM_COLD new_handler *current_handler(const void *caller) {
    new_handler *(*get)(void) = _ZSt15get_new_handlerv;
    if (!get) {
        get = (new_handler * (*)(void)) symbol_for(caller, RTLD_DEFAULT, "_ZSt15get_new_handlerv");
    }
    return get ? get() : NULL;
}

static void *_Znwm_entry(size_t size);

/* A static C++ library has only what the program itself refers to. One that names std::bad_alloc to
 * catch it has all that throwing takes; what a plugin brought along has an operator that throws. */
static _Noreturn void throw_bad_alloc(const void *caller) {
    if (&_ZSt17__throw_bad_allocv) {
        _ZSt17__throw_bad_allocv();
    }
    if (&__cxa_throw && &_ZTISt9bad_alloc) {
        void **object = __cxa_allocate_exception(sizeof *object);
        *object = &_ZTVSt9bad_alloc[2];
        __cxa_throw(object, _ZTISt9bad_alloc, NULL); /* nothing to destroy */
    }
    void *(*library)(size_t) = (void *(*)(size_t))symbol_for(caller, RTLD_NEXT, "_Znwm");
    if (library && library != _Znwm_entry) {
        library(SIZE_MAX);
    }
    process_complain("operator new: out of memory", "");
    abort();
}

/* One call of an operator new. */
struct wanted {
    size_t size;
    size_t alignment; /* 0: none stated */
    enum call call;
    const void *caller;
};

PRIM_INLINE void *allocate_wanted(const struct wanted *wanted) {
    return front_allocate(wanted->size, wanted->alignment, wanted->call, wanted->caller);
}

static PRIM_COLD void *new_failed(const struct wanted *wanted) {
    void *block = NULL;
    while (!block) {
        new_handler *handler = current_handler(wanted->caller);
        if (!handler) {
            throw_bad_alloc(wanted->caller);
        }
        handler();
        block = allocate_wanted(wanted);
    }
    return block;
}

static PRIM_NOINLINE void *new_any(size_t size, size_t alignment, enum call call,
                                   const void *caller) {
    const struct wanted wanted = {size, alignment, call, caller};
    void *block = front_allocate(size, alignment, call, caller);
    return PRIM_LIKELY(block != NULL) ? block : new_failed(&wanted);
}

/* Without a dynamic C++ library what the handler throws goes through, uncaught. */
static PRIM_COLD void *nothrow_failed(const struct wanted *wanted) {
    void *block = NULL;
    new_handler *handler = current_handler(wanted->caller);
    nothrow_operator *library = NULL;
    if (handler) {
        const char *name = wanted->call == CALL_NEW_ARRAY ? "_ZnamSt11align_val_tRKSt9nothrow_t"
                                                          : "_ZnwmSt11align_val_tRKSt9nothrow_t";
        library = (nothrow_operator *)symbol_for(wanted->caller, RTLD_NEXT, name);
    }
    if (library) {
        return library(wanted->size, bits_max(wanted->alignment, 16), "");
    }
    while (!block && handler) {
        handler();
        block = allocate_wanted(wanted);
        handler = current_handler(wanted->caller);
    }
    return block;
}

static PRIM_COLD void *nothrow_any(size_t size, size_t alignment, enum call call,
                                   const void *caller) {
    const struct wanted wanted = {size, alignment, call, caller};
    void *block = front_allocate(size, alignment, call, caller);
    return PRIM_LIKELY(block != NULL) ? block : nothrow_failed(&wanted);
}

/* Fallbacks of the fast path. */
#define FALLBACK(slow, any, call)                               \
    static PRIM_NOINLINE void *slow(size_t size) {              \
        return any(size, 0, call, __builtin_return_address(0)); \
    }
#define MEDIUM_FALLBACK(medium, slow)                \
    static PRIM_NOINLINE void *medium(size_t size) { \
        return allocate_medium_or(size, slow, slow); \
    }
FALLBACK(new_slow, new_any, CALL_NEW)
FALLBACK(new_array_slow, new_any, CALL_NEW_ARRAY)
FALLBACK(nothrow_slow, nothrow_any, CALL_NEW)
FALLBACK(nothrow_array_slow, nothrow_any, CALL_NEW_ARRAY)
MEDIUM_FALLBACK(new_medium, new_slow)
MEDIUM_FALLBACK(new_array_medium, new_array_slow)

/* The operators. Those of an archive are made weak when it is built, as programs linked with it may
 * have their own; a shared library's are not, since valgrind takes the place of no weak one. */
#define OPERATOR(type, name, parameters, ...) \
    static type name##_entry parameters {     \
        __VA_ARGS__;                          \
    }                                         \
    PRIM_EXPORT __typeof__(name##_entry) name PRIM_ALIAS(name##_entry);

#define CALLER __builtin_return_address(0)
#define DELETE(call, stated_size, alignment)                               \
    if (!release_to_cache(block)) {                                        \
        front_release(block, stated_size, alignment, CALL_##call, CALLER); \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"

OPERATOR(void *, _Znwm, (size_t size), return allocate_or(size, new_medium, new_slow))
OPERATOR(void *, _ZnwmSt11align_val_t, (size_t size, size_t alignment),
         return new_any(size, alignment, CALL_NEW, CALLER))
OPERATOR(void, _ZdlPv, (void *block), DELETE(DELETE, SIZE_NOT_STATED, 0))
OPERATOR(void, _ZdlPvSt11align_val_t, (void *block, size_t alignment),
         DELETE(DELETE, SIZE_NOT_STATED, alignment))

/* All others by default call one that a program may have replaced [new.delete]: new[] calls new,
 * sized delete calls delete. Whether it has, the first call of one of them finds out; if it has
 * not, each does from then on by itself what its default would come to, and is seen to be what it
 * is by those who watch. (Read without an order, as an atomic load would be an instruction more: a
 * word in one piece, and whoever comes first writes the same.) A delete looks into the thread's
 * cache first, by a mask that is 0 until one has found out; new[] jumps to where it goes on. */
static bool derived_are_ours;

static void *new_array_ours(size_t size) {
    return allocate_or(size, new_array_medium, new_array_slow);
}

static allocate_fallback _Znam_other;
static allocate_fallback *new_array_chosen = _Znam_other;

static bool are_replaced(void);

static PRIM_COLD bool are_found_ours(void) {
    static bool are_theirs;
    are_theirs = are_theirs || are_replaced();
    if (!are_theirs) {
        new_array_chosen = new_array_ours;
        derived_are_ours = true;
    }
    return derived_are_ours;
}

/* The other function is the call's while it is not known that the program has no operators. */
#define DERIVED(type, name, parameters, arguments, by_default, ...) \
    static type name##_entry parameters;                            \
    static PRIM_NOINLINE type name##_other parameters {             \
        if (are_found_ours()) {                                     \
            return name##_entry arguments;                          \
        }                                                           \
        by_default;                                                 \
    }                                                               \
    OPERATOR(type, name, parameters, __VA_ARGS__)

DERIVED(void *, _Znam, (size_t size), (size), return _Znwm(size), return new_array_chosen(size))
DERIVED(void *, _ZnamSt11align_val_t, (size_t size, size_t alignment), (size, alignment),
        return _ZnwmSt11align_val_t(size, alignment),
        return derived_are_ours ? new_any(size, alignment, CALL_NEW_ARRAY, CALLER)
                                : _ZnamSt11align_val_t_other(size, alignment))

/* The nothrow forms by default catch what the others throw, which C cannot: the C++ library's do.
 * In a static program there is none behind us, and what the program's operator throws goes on. */
typedef void *plain_nothrow(size_t size, const void *nothrow);
#define PLAIN_NOTHROW(name, other, slow)                                        \
    DERIVED(void *, name, (size_t size, const void *nothrow), (size, nothrow),  \
            plain_nothrow *library = (plain_nothrow *)symbol(RTLD_NEXT, #name); \
            return library ? library(size, nothrow) : other(size),              \
                   return derived_are_ours ? allocate_or(size, slow, slow)      \
                                           : name##_other(size, nothrow))
#define ALIGNED_NOTHROW(name, other, call)                                               \
    DERIVED(void *, name, (size_t size, size_t alignment, const void *nothrow),          \
            (size, alignment, nothrow),                                                  \
            nothrow_operator *library = (nothrow_operator *)symbol(RTLD_NEXT, #name);    \
            return library ? library(size, alignment, nothrow) : other(size, alignment), \
                   return derived_are_ours ? nothrow_any(size, alignment, call, CALLER)  \
                                           : name##_other(size, alignment, nothrow))
PLAIN_NOTHROW(_ZnwmRKSt9nothrow_t, _Znwm, nothrow_slow)
PLAIN_NOTHROW(_ZnamRKSt9nothrow_t, _Znam, nothrow_array_slow)
ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, _ZnwmSt11align_val_t, CALL_NEW)
ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, _ZnamSt11align_val_t, CALL_NEW_ARRAY)

static PRIM_NOINLINE void derived_release(void *block, size_t stated_size, size_t alignment,
                                          enum call call, const void *caller) {
    if (PRIM_UNLIKELY(address_map_later_mask == 0)) {
        address_map_later_mask = address_map_mask;
    }
    front_release(block, stated_size, alignment, call, caller);
}

/* What delete knows besides the address, it need not say, for the address knows: it is for those
 * who watch. */
#define DERIVED_DELETE(name, parameters, arguments, by_default, call, stated_size, alignment)      \
    DERIVED(                                                                                       \
        void, name, parameters, arguments, by_default,                                             \
        if (!release_masked_to_cache(block, address_map_later_mask)) {                             \
            derived_are_ours ? derived_release(block, stated_size, alignment, CALL_##call, CALLER) \
                             : name##_other arguments;                                             \
        })
DERIVED_DELETE(_ZdaPv, (void *block), (block), _ZdlPv(block), DELETE_ARRAY, SIZE_NOT_STATED, 0)
DERIVED_DELETE(_ZdlPvm, (void *block, size_t size), (block, size), _ZdlPv(block), DELETE, size, 0)
DERIVED_DELETE(_ZdaPvm, (void *block, size_t size), (block, size), _ZdaPv(block), DELETE_ARRAY,
               size, 0)
DERIVED_DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment),
               _ZdlPvSt11align_val_t(block, alignment), DELETE_ARRAY, SIZE_NOT_STATED, alignment)
DERIVED_DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment),
               (block, size, alignment), _ZdlPvSt11align_val_t(block, alignment), DELETE, size,
               alignment)
DERIVED_DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment),
               (block, size, alignment), _ZdaPvSt11align_val_t(block, alignment), DELETE_ARRAY,
               size, alignment)

/* The nothrow forms are called when a constructor throws: there a jump costs nothing. */
OPERATOR(void, _ZdlPvRKSt9nothrow_t, (void *block, const void *nothrow), _ZdlPv(block))
OPERATOR(void, _ZdaPvRKSt9nothrow_t, (void *block, const void *nothrow), _ZdaPv(block))
OPERATOR(void, _ZdlPvSt11align_val_tRKSt9nothrow_t,
         (void *block, size_t alignment, const void *nothrow),
         _ZdlPvSt11align_val_t(block, alignment))
OPERATOR(void, _ZdaPvSt11align_val_tRKSt9nothrow_t,
         (void *block, size_t alignment, const void *nothrow),
         _ZdaPvSt11align_val_t(block, alignment))

/* What a name stands for in this process. A compiler that is shown the name beside our function may
 * take them for two. */
static const void *found_by(const void *name) {
    return name;
}

#define IS_OURS(name) (found_by((const void *)name) == (const void *)name##_entry)

/* By these names the program's own operators are seen, if it has any. */
static PRIM_COLD bool are_replaced(void) {
    return !(IS_OURS(_Znwm) && IS_OURS(_ZdlPv) && IS_OURS(_Znam) && IS_OURS(_ZdaPv) &&
             IS_OURS(_ZnwmSt11align_val_t) && IS_OURS(_ZdlPvSt11align_val_t) &&
             IS_OURS(_ZnamSt11align_val_t) && IS_OURS(_ZdaPvSt11align_val_t));
}
