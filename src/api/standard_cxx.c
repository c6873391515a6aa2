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

/* Returns NULL only in a program without a C++ library, where nobody could catch. */
static PRIM_COLD void *new_failed(size_t size, size_t alignment) {
    void *block = NULL;
    while (!block) {
        new_handler *handler = current_handler();
        if (!handler) {
            throw_bad_alloc();
            return NULL;
        }
        handler();
        block = allocate_aligned(size, alignment);
    }
    return block;
}

static PRIM_NOINLINE void *new_slower(size_t size) {
    void *block = allocate_slower(size);
    return PRIM_LIKELY(block != NULL) ? block : new_failed(size, 16);
}

static PRIM_NOINLINE void *new_slow(size_t size) {
    return allocate_medium_or(size, new_slower);
}

/* Without a dynamic C++ library what the handler throws goes through, uncaught. */
static PRIM_COLD void *nothrow_failed(size_t size, size_t alignment) {
    void *block = NULL;
    new_handler *handler = current_handler();
    nothrow_operator *library = NULL;
    if (handler) {
        library = (nothrow_operator *)symbol(RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
    }
    if (library) {
        return library(size, alignment, "");
    }
    while (!block && handler) {
        handler();
        block = allocate_aligned(size, alignment);
        handler = current_handler();
    }
    return block;
}

static PRIM_NOINLINE void *nothrow_slow(size_t size) {
    void *block = allocate_slow(size);
    return PRIM_LIKELY(block != NULL) ? block : nothrow_failed(size, 16);
}

PRIM_INLINE void *new_aligned(size_t size, size_t alignment) {
    void *block = allocate_aligned(size, alignment);
    return PRIM_LIKELY(block != NULL) ? block : new_failed(size, alignment);
}

PRIM_INLINE void *nothrow_aligned(size_t size, size_t alignment) {
    void *block = allocate_aligned(size, alignment);
    return PRIM_LIKELY(block != NULL) ? block : nothrow_failed(size, alignment);
}

#define OPERATOR(type, name, parameters, call) \
    PRIM_EXPORT type name parameters;          \
    type name parameters {                     \
        call;                                  \
    }

OPERATOR(void *, _Znwm, (size_t size), return allocate_or(size, new_slow))
OPERATOR(void *, _Znam, (size_t size), return allocate_or(size, new_slow))
OPERATOR(void *, _ZnwmRKSt9nothrow_t, (size_t size, const void *nothrow), (void)nothrow;
         return allocate_or(size, nothrow_slow))
OPERATOR(void *, _ZnamRKSt9nothrow_t, (size_t size, const void *nothrow), (void)nothrow;
         return allocate_or(size, nothrow_slow))
OPERATOR(void *, _ZnwmSt11align_val_t, (size_t size, size_t alignment),
         return new_aligned(size, alignment))
OPERATOR(void *, _ZnamSt11align_val_t, (size_t size, size_t alignment),
         return new_aligned(size, alignment))
OPERATOR(void *, _ZnwmSt11align_val_tRKSt9nothrow_t,
         (size_t size, size_t alignment, const void *nothrow), (void)nothrow;
         return nothrow_aligned(size, alignment))
OPERATOR(void *, _ZnamSt11align_val_tRKSt9nothrow_t,
         (size_t size, size_t alignment, const void *nothrow), (void)nothrow;
         return nothrow_aligned(size, alignment))

#define DELETE_OPERATOR(name, parameters) OPERATOR(void, name, parameters, release(block))

/* What delete knows besides the address, it need not say: the address knows. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
DELETE_OPERATOR(_ZdlPv, (void *block))
DELETE_OPERATOR(_ZdaPv, (void *block))
DELETE_OPERATOR(_ZdlPvm, (void *block, size_t size))
DELETE_OPERATOR(_ZdaPvm, (void *block, size_t size))
DELETE_OPERATOR(_ZdlPvRKSt9nothrow_t, (void *block, const void *nothrow))
DELETE_OPERATOR(_ZdaPvRKSt9nothrow_t, (void *block, const void *nothrow))
DELETE_OPERATOR(_ZdlPvSt11align_val_t, (void *block, size_t alignment))
DELETE_OPERATOR(_ZdaPvSt11align_val_t, (void *block, size_t alignment))
DELETE_OPERATOR(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment))
DELETE_OPERATOR(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment))
DELETE_OPERATOR(_ZdlPvSt11align_val_tRKSt9nothrow_t,
                (void *block, size_t alignment, const void *nothrow))
DELETE_OPERATOR(_ZdaPvSt11align_val_tRKSt9nothrow_t,
                (void *block, size_t alignment, const void *nothrow))
