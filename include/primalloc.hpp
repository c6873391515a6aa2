// primalloc.hpp - primalloc for C++11 and later: a standard allocator, a memory resource, owners.
//
// A program whose malloc is primalloc has it under new and every container already. This header is
// for those that hold the prim_ names beside libc's malloc and choose place by place; for all of a
// program's new and delete see primalloc-new-delete.hpp. When memory is out, the new-handler is
// called until one frees enough, throws or is missing; then std::bad_alloc is thrown, as by new.
// Without exceptions the program is terminated there, as by new; nothing else in here ends it.
#ifndef PRIMALLOC_HPP
#define PRIMALLOC_HPP

#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if __cplusplus >= 201703L && defined(__has_include)
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#endif

#include "primalloc.h"

namespace prim {

namespace detail {

[[noreturn]] inline void out_of_memory() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::terminate();
#endif
}

[[noreturn]] inline void size_overflows() {
#if defined(__cpp_exceptions)
    throw std::bad_array_new_length();
#else
    std::terminate();
#endif
}

// What malloc aligns to; blocks of 8 bytes at most are aligned to 8 only.
inline bool is_aligned_by_malloc(std::size_t size, std::size_t alignment) noexcept {
    return alignment <= 8 || (alignment <= 16 && size > 8);
}

inline void *try_allocate(std::size_t size, std::size_t alignment) noexcept {
    return is_aligned_by_malloc(size, alignment) ? prim_malloc(size)
                                                 : prim_aligned_alloc(alignment, size);
}

inline void *try_handlers(std::size_t size, std::size_t alignment) {
    void *block = nullptr;
    while (!block) {
        std::new_handler handler = std::get_new_handler();
        if (!handler) {
            return nullptr;
        }
        handler();
        block = try_allocate(size, alignment);
    }
    return block;
}

// Where the whole object begins that this may be a base of.
template <class T> void *begin(T *object, std::true_type) noexcept {
    return const_cast<void *>(dynamic_cast<const volatile void *>(object));
}
template <class T> void *begin(T *object, std::false_type) noexcept {
    return const_cast<void *>(static_cast<const volatile void *>(object));
}

}  // namespace detail

// operator new from primalloc: never null, aligned as malloc does or better. Freed by prim_free.
inline void *allocate(std::size_t size, std::size_t alignment = 1) {
    void *block = detail::try_allocate(size, alignment);
    if (!block) {
        block = detail::try_handlers(size, alignment);
    }
    if (!block) {
        detail::out_of_memory();
    }
    return block;
}

// Allocator of the C++ standard, without state: all are equal.
template <class T> class allocator {
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::true_type;
    template <class U> struct rebind { using other = allocator<U>; };

    allocator() = default;
    template <class U> allocator(const allocator<U> &) noexcept {}

    T *allocate(size_type count) {
        if (count > max_size()) {
            detail::size_overflows();
        }
        return static_cast<T *>(prim::allocate(count * sizeof(T), alignof(T)));
    }

    void deallocate(T *block, size_type) noexcept {
        prim_free(block);
    }

    size_type max_size() const noexcept {
        return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(T);
    }

    template <class U> friend bool operator==(const allocator &, const allocator<U> &) noexcept {
        return true;
    }
    template <class U> friend bool operator!=(const allocator &, const allocator<U> &) noexcept {
        return false;
    }
};

// Destroys and frees what make and make_unique made, through a pointer to a base, too, if the base
// has virtual functions and a virtual destructor.
template <class T> void destroy(T *object) noexcept {
    if (object) {
        void *block = detail::begin(object, std::is_polymorphic<T>());
        object->~T();
        prim_free(block);
    }
}

template <class T> struct deleter {
    constexpr deleter() noexcept = default;
    template <class U, class = typename std::enable_if<std::is_convertible<U *, T *>::value>::type>
    deleter(const deleter<U> &) noexcept {}
    void operator()(T *object) const noexcept {
        destroy(object);
    }
};

template <class T> using unique_ptr = std::unique_ptr<T, deleter<T>>;

// new T(arguments...) from primalloc.
template <class T, class... Arguments> T *make(Arguments &&...arguments) {
    struct guard {
        void *block;
        ~guard() {
            prim_free(block);
        }
    } guard = {allocate(sizeof(T), alignof(T))};
    T *object = ::new (guard.block) T(std::forward<Arguments>(arguments)...);
    guard.block = nullptr;
    return object;
}

template <class T, class... Arguments> unique_ptr<T> make_unique(Arguments &&...arguments) {
    return unique_ptr<T>(make<T>(std::forward<Arguments>(arguments)...));
}

template <class T, class... Arguments> std::shared_ptr<T> make_shared(Arguments &&...arguments) {
    return std::allocate_shared<T>(allocator<T>(), std::forward<Arguments>(arguments)...);
}

#if defined(__cpp_lib_memory_resource)

// Resource over the default heap. All are equal: one frees what another allocated.
class memory_resource : public std::pmr::memory_resource {
  private:
    void *do_allocate(std::size_t size, std::size_t alignment) override {
        return prim::allocate(size, alignment);
    }
    void do_deallocate(void *block, std::size_t size, std::size_t alignment) override {
        prim_free_aligned_sized(block, alignment, size);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        return dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

// One for the whole program, there until its very end.
inline memory_resource *default_resource() noexcept {
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const resource = ::new (place) memory_resource;
    return resource;
}

#endif

}  // namespace prim

#endif
