// C++'s operators of the library under test: standard.h's renaming, under their mangled names.
#include <new>

#include "fuzz/calls.h"

#define UNDER_TEST(name) __asm__("under_test_" name)

using align = std::align_val_t;
using nothrow = const std::nothrow_t &;

void *new_single(std::size_t size) UNDER_TEST("_Znwm");
void *new_array(std::size_t size) UNDER_TEST("_Znam");
void *new_single_nothrow(std::size_t size, nothrow) UNDER_TEST("_ZnwmRKSt9nothrow_t");
void *new_array_nothrow(std::size_t size, nothrow) UNDER_TEST("_ZnamRKSt9nothrow_t");
void *new_single_aligned(std::size_t size, align) UNDER_TEST("_ZnwmSt11align_val_t");
void *new_array_aligned(std::size_t size, align) UNDER_TEST("_ZnamSt11align_val_t");
void *new_single_aligned_nothrow(std::size_t size, align, nothrow)
    UNDER_TEST("_ZnwmSt11align_val_tRKSt9nothrow_t");
void *new_array_aligned_nothrow(std::size_t size, align, nothrow)
    UNDER_TEST("_ZnamSt11align_val_tRKSt9nothrow_t");
void delete_single(void *) UNDER_TEST("_ZdlPv");
void delete_array(void *) UNDER_TEST("_ZdaPv");
void delete_single_sized(void *, std::size_t) UNDER_TEST("_ZdlPvm");
void delete_array_sized(void *, std::size_t) UNDER_TEST("_ZdaPvm");
void delete_single_aligned(void *, align) UNDER_TEST("_ZdlPvSt11align_val_t");
void delete_array_aligned(void *, align) UNDER_TEST("_ZdaPvSt11align_val_t");
void delete_single_sized_aligned(void *, std::size_t, align) UNDER_TEST("_ZdlPvmSt11align_val_t");
void delete_array_sized_aligned(void *, std::size_t, align) UNDER_TEST("_ZdaPvmSt11align_val_t");

namespace {

void *plain(unsigned form, std::size_t size) {
    switch (form) {
    case 0:
        return new_single(size);
    case 1:
        return new_array(size);
    case 2:
        return new_single_nothrow(size, std::nothrow);
    default:
        return new_array_nothrow(size, std::nothrow);
    }
}

void *aligned(unsigned form, std::size_t size, align alignment) {
    switch (form) {
    case 0:
        return new_single_aligned(size, alignment);
    case 1:
        return new_array_aligned(size, alignment);
    case 2:
        return new_single_aligned_nothrow(size, alignment, std::nothrow);
    default:
        return new_array_aligned_nothrow(size, alignment, std::nothrow);
    }
}

}  // namespace

void *operator_new(unsigned form, std::size_t size, std::size_t alignment) {
    try {
        return alignment > 0 ? aligned(form, size, static_cast<align>(alignment))
                             : plain(form, size);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void operator_delete(unsigned form, void *block, std::size_t size, std::size_t alignment) {
    auto align_value = static_cast<align>(alignment);
    switch (form) {
    case 0:
        return alignment > 0 ? delete_single_aligned(block, align_value) : delete_single(block);
    case 1:
        return alignment > 0 ? delete_array_aligned(block, align_value) : delete_array(block);
    case 2:
        return alignment > 0 ? delete_single_sized_aligned(block, size, align_value)
                             : delete_single_sized(block, size);
    default:
        return alignment > 0 ? delete_array_sized_aligned(block, size, align_value)
                             : delete_array_sized(block, size);
    }
}
