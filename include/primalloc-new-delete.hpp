// primalloc-new-delete.hpp - C++'s operators new and delete from primalloc, for the whole program.
//
// Include it in exactly one source file of a program that holds the prim_ names beside libc's
// malloc. A program that links libprimalloc.so or libprimalloc.a has these operators already; one
// whose C++ library is static may include it all the same: docs/compatibility.md, known limits.
#ifndef PRIMALLOC_NEW_DELETE_HPP
#define PRIMALLOC_NEW_DELETE_HPP

#include "primalloc.hpp"

// C++17 [new.delete]: the nothrow forms do what the others do, and catch.
namespace prim {
namespace detail {

inline void *allocate_nothrow(std::size_t size, std::size_t alignment) noexcept {
    void *block = try_allocate(size, alignment);
#if defined(__cpp_exceptions)
    try {
        return block ? block : try_handlers(size, alignment);
    } catch (...) {
        return nullptr;
    }
#else
    return block ? block : try_handlers(size, alignment);
#endif
}

}  // namespace detail
}  // namespace prim

void *operator new(std::size_t size) {
    return prim::allocate(size);
}
void *operator new[](std::size_t size) {
    return prim::allocate(size);
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return prim::detail::allocate_nothrow(size, 1);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return prim::detail::allocate_nothrow(size, 1);
}
void operator delete(void *block) noexcept {
    prim_free(block);
}
void operator delete[](void *block) noexcept {
    prim_free(block);
}
void operator delete(void *block, const std::nothrow_t &) noexcept {
    prim_free(block);
}
void operator delete[](void *block, const std::nothrow_t &) noexcept {
    prim_free(block);
}

#if defined(__cpp_sized_deallocation) || __cplusplus >= 201402L
void operator delete(void *block, std::size_t) noexcept {
    prim_free(block);
}
void operator delete[](void *block, std::size_t) noexcept {
    prim_free(block);
}
#endif

#if defined(__cpp_aligned_new)
void *operator new(std::size_t size, std::align_val_t alignment) {
    return prim::allocate(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
    return prim::allocate(size, static_cast<std::size_t>(alignment));
}
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
    return prim::detail::allocate_nothrow(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment,
                     const std::nothrow_t &) noexcept {
    return prim::detail::allocate_nothrow(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *block, std::align_val_t) noexcept {
    prim_free(block);
}
void operator delete[](void *block, std::align_val_t) noexcept {
    prim_free(block);
}
void operator delete(void *block, std::align_val_t, const std::nothrow_t &) noexcept {
    prim_free(block);
}
void operator delete[](void *block, std::align_val_t, const std::nothrow_t &) noexcept {
    prim_free(block);
}
void operator delete(void *block, std::size_t, std::align_val_t) noexcept {
    prim_free(block);
}
void operator delete[](void *block, std::size_t, std::align_val_t) noexcept {
    prim_free(block);
}
#endif

#endif
