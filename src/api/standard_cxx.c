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

#pragma weak dlsym /* in a library of its own before glibc 2.34, and absent from static programs */

typedef void new_handler(void);
typedef void *nothrow_operator(size_t size, size_t alignment, const void *nothrow);

new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

static void *symbol(void *handle, const char *name) {
    return &dlsym ? dlsym(handle, name) : NULL;
}

/* A C++ library that was loaded late is not bound to the weak references: look again. */
static new_handler *current_handler(void) {
    new_handler *(*get)(void) = _ZSt15get_new_handlerv;
    if (!get) {
        get = (new_handler * (*)(void)) symbol(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
    }
    return get ? get() : NULL;
}

static void throw_bad_alloc(void) {
    void (*throw)(void) = _ZSt17__throw_bad_allocv;
    if (!throw) {
        throw = (void (*)(void))symbol(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv");
    }
    if (throw) {
        throw();
    }
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

/* Returns NULL only in a program without a C++ library, where nobody could catch. */
static PRIM_COLD void *new_failed(const struct wanted *wanted) {
    void *block = NULL;
    while (!block) {
        new_handler *handler = current_handler();
        if (!handler) {
            throw_bad_alloc();
            return NULL;
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
    new_handler *handler = current_handler();
    nothrow_operator *library = NULL;
    if (handler) {
        library = (nothrow_operator *)symbol(RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
    }
    if (library) {
        return library(wanted->size, bits_max(wanted->alignment, 16), "");
    }
    while (!block && handler) {
        handler();
        block = allocate_wanted(wanted);
        handler = current_handler();
    }
    return block;
}

static PRIM_NOINLINE void *nothrow_any(size_t size, size_t alignment, enum call call,
                                       const void *caller) {
    const struct wanted wanted = {size, alignment, call, caller};
    void *block = front_allocate(size, alignment, call, caller);
    return PRIM_LIKELY(block != NULL) ? block : nothrow_failed(&wanted);
}

/* Fallbacks of the fast path. */
#define FALLBACK(medium, slow, any, call)                       \
    static PRIM_NOINLINE void *slow(size_t size) {              \
        return any(size, 0, call, __builtin_return_address(0)); \
    }                                                           \
    static PRIM_NOINLINE void *medium(size_t size) {            \
        return allocate_medium_or(size, slow);                  \
    }
FALLBACK(new_medium, new_slow, new_any, CALL_NEW)
FALLBACK(new_array_medium, new_array_slow, new_any, CALL_NEW_ARRAY)
FALLBACK(nothrow_medium, nothrow_slow, nothrow_any, CALL_NEW)
FALLBACK(nothrow_array_medium, nothrow_array_slow, nothrow_any, CALL_NEW_ARRAY)

#define OPERATOR(type, name, parameters, call) \
    PRIM_EXPORT type name parameters;          \
    type name parameters {                     \
        call;                                  \
    }

OPERATOR(void *, _Znwm, (size_t size), return allocate_or(size, new_medium, new_slow))
OPERATOR(void *, _Znam, (size_t size), return allocate_or(size, new_array_medium, new_array_slow))
OPERATOR(void *, _ZnwmRKSt9nothrow_t, (size_t size, const void *nothrow), (void)nothrow;
         return allocate_or(size, nothrow_medium, nothrow_slow))
OPERATOR(void *, _ZnamRKSt9nothrow_t, (size_t size, const void *nothrow), (void)nothrow;
         return allocate_or(size, nothrow_array_medium, nothrow_array_slow))

#define CALLER __builtin_return_address(0)
OPERATOR(void *, _ZnwmSt11align_val_t, (size_t size, size_t alignment),
         return new_any(size, alignment, CALL_NEW, CALLER))
OPERATOR(void *, _ZnamSt11align_val_t, (size_t size, size_t alignment),
         return new_any(size, alignment, CALL_NEW_ARRAY, CALLER))
OPERATOR(void *, _ZnwmSt11align_val_tRKSt9nothrow_t,
         (size_t size, size_t alignment, const void *nothrow), (void)nothrow;
         return nothrow_any(size, alignment, CALL_NEW, CALLER))
OPERATOR(void *, _ZnamSt11align_val_tRKSt9nothrow_t,
         (size_t size, size_t alignment, const void *nothrow), (void)nothrow;
         return nothrow_any(size, alignment, CALL_NEW_ARRAY, CALLER))

/* What delete knows besides the address, it need not say, for the address knows: it is for those
 * who watch. */
#define DELETE(name, parameters, call, stated_size, alignment)                 \
    OPERATOR(                                                                  \
        void, name, parameters, if (!release_to_cache(block)) {                \
            front_release(block, stated_size, alignment, CALL_##call, CALLER); \
        })

#pragma GCC diagnostic ignored "-Wunused-parameter"
DELETE(_ZdlPv, (void *block), DELETE, SIZE_NOT_STATED, 0)
DELETE(_ZdaPv, (void *block), DELETE_ARRAY, SIZE_NOT_STATED, 0)
DELETE(_ZdlPvm, (void *block, size_t size), DELETE, size, 0)
DELETE(_ZdaPvm, (void *block, size_t size), DELETE_ARRAY, size, 0)
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), DELETE, SIZE_NOT_STATED, alignment)
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), DELETE_ARRAY, SIZE_NOT_STATED,
       alignment)
DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), DELETE, size,
       alignment)
DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment), DELETE_ARRAY, size,
       alignment)

/* The nothrow forms do the same; what is handed over last they do not look at. */
ALIAS(_ZdlPvRKSt9nothrow_t, _ZdlPv)
ALIAS(_ZdaPvRKSt9nothrow_t, _ZdaPv)
ALIAS(_ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdlPvSt11align_val_t)
ALIAS(_ZdaPvSt11align_val_tRKSt9nothrow_t, _ZdaPvSt11align_val_t)
