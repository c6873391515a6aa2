// primalloc.hpp - primalloc for C++11 and later: allocators, memory resources, owners, heaps.
//
// A program whose malloc is primalloc has it under new and every container already. This header is
// for those that hold the prim_ names beside libc's malloc and choose place by place; for all of a
// program's new and delete see primalloc-new-delete.hpp. When memory is out, the new-handler is
// called until one frees enough, throws or is missing; then std::bad_alloc is thrown, as by new.
// Heaps have no new-handler: their limit is not the process's. Without exceptions the program is
// terminated where one would be thrown, as by new; nothing else in here ends it.
#ifndef PRIMALLOC_HPP
#define PRIMALLOC_HPP

#include <cerrno>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
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

[[noreturn]] inline void not_lendable() {
#if defined(__cpp_exceptions)
    throw std::invalid_argument("primalloc: memory that cannot be lent to a heap");
#else
    std::terminate();
#endif
}

// From a heap; null is the default one, without new-handlers all the same.
inline void *allocate_in(prim_heap_t *heap, std::size_t size, std::size_t alignment) {
    void *block = is_aligned_by_malloc(size, alignment)
                      ? prim_heap_malloc(heap, size)
                      : prim_heap_aligned_alloc(heap, alignment, size);
    if (!block) {
        out_of_memory();
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

// new T(arguments...) in a block that is freed if the constructor throws.
template <class T, class... Arguments> T *construct(void *place, Arguments &&...arguments) {
    struct guard {
        void *block;
        ~guard() {
            prim_free(block);
        }
    } guard = {place};
    T *object = ::new (guard.block) T(std::forward<Arguments>(arguments)...);
    guard.block = nullptr;
    return object;
}

template <class T> constexpr std::size_t most() noexcept {
    return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T);
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
        return detail::most<T>();
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

// destroy, as an owner's last word.
template <class T> struct deleter {
    constexpr deleter() noexcept = default;
    template <class U, class = typename std::enable_if<std::is_convertible<U *, T *>::value>::type>
    deleter(const deleter<U> &) noexcept {}
    void operator()(T *object) const noexcept {
        destroy(object);
    }
};

// Owner of one object. A pointer to a derived class converts, as with destroy.
template <class T> using unique_ptr = std::unique_ptr<T, deleter<T>>;

// new T(arguments...) from primalloc.
template <class T, class... Arguments> T *make(Arguments &&...arguments) {
    return detail::construct<T>(allocate(sizeof(T), alignof(T)),
                                std::forward<Arguments>(arguments)...);
}

// The same with an owner.
template <class T, class... Arguments> unique_ptr<T> make_unique(Arguments &&...arguments) {
    return unique_ptr<T>(make<T>(std::forward<Arguments>(arguments)...));
}

// The same with shared owners, whose count lies in the object's block.
template <class T, class... Arguments> std::shared_ptr<T> make_shared(Arguments &&...arguments) {
    return std::allocate_shared<T>(allocator<T>(), std::forward<Arguments>(arguments)...);
}

// What a heap's owner does with it at its end.
enum class at_end {
    keep_blocks,  // prim_heap_delete: blocks that are left become the default heap's
    end_blocks,   // prim_heap_destroy: all of them end with the heap, without their destructors
};

template <class T> class heap_allocator;

// Owner of a heap; moves, does not copy. Any thread may use the heap, through any reference.
template <at_end End> class basic_heap {
  public:
    basic_heap() : heap_(prim_heap_new()) {
        if (!heap_) {
            detail::out_of_memory();
        }
    }

    // A heap in the caller's memory, which is not primalloc's; prim_heap_new_in tells for which
    // sizes and alignments. std::invalid_argument: no whole unit of 16 KiB, or lent already.
    basic_heap(void *memory, std::size_t size) : heap_(prim_heap_new_in(memory, size)) {
        if (!heap_) {
            errno == EINVAL ? detail::not_lendable() : detail::out_of_memory();
        }
    }

    // Takes over a heap; null is none.
    explicit basic_heap(prim_heap_t *heap) noexcept : heap_(heap) {}

    basic_heap(basic_heap &&other) noexcept : heap_(other.release()) {}
    basic_heap &operator=(basic_heap &&other) noexcept {
        basic_heap(std::move(other)).swap(*this);
        return *this;
    }
    ~basic_heap() {
        End == at_end::end_blocks ? prim_heap_destroy(heap_) : prim_heap_delete(heap_);
    }

    void swap(basic_heap &other) noexcept {
        std::swap(heap_, other.heap_);
    }
    friend void swap(basic_heap &one, basic_heap &other) noexcept {
        one.swap(other);
    }

    // The heap for functions of C; it stays the owner's. Null after a move or release.
    prim_heap_t *get() const noexcept {
        return heap_;
    }

    // Gives the heap away.
    prim_heap_t *release() noexcept {
        prim_heap_t *heap = heap_;
        heap_ = nullptr;
        return heap;
    }

    // Blocks, freed by deallocate, prim_free or, if one wants, by the heap's end.
    void *allocate(std::size_t size, std::size_t alignment = 1) {
        return detail::allocate_in(heap_, size, alignment);
    }
    static void deallocate(void *block) noexcept {
        prim_free(block);
    }

    // Objects; prim::destroy ends them, or make_unique's owner, which must not outlive the block.
    template <class T, class... Arguments> T *make(Arguments &&...arguments) {
        return detail::construct<T>(allocate(sizeof(T), alignof(T)),
                                    std::forward<Arguments>(arguments)...);
    }
    template <class T, class... Arguments> unique_ptr<T> make_unique(Arguments &&...arguments) {
        return unique_ptr<T>(make<T>(std::forward<Arguments>(arguments)...));
    }

    // Bytes that all blocks together may hold: std::bad_alloc beyond. 0: no limit.
    void set_limit(std::size_t bytes) noexcept {
        prim_heap_set_limit(heap_, bytes);
    }
    struct prim_heap_counts counts() const noexcept {
        struct prim_heap_counts result = {};
        if (heap_) {
            prim_heap_counts(heap_, &result);
        }
        return result;
    }
    bool contains(const void *block) const noexcept {
        return heap_ && prim_heap_contains(heap_, block);
    }

  private:
    prim_heap_t *heap_;
};

// Blocks that are left when a heap's scope ends stay valid.
using heap = basic_heap<at_end::keep_blocks>;
// Blocks that are left end with their region.
using region = basic_heap<at_end::end_blocks>;

// Allocator of the C++ standard over one heap, which must live as long as what it allocated. Equal
// are allocators of the same heap. A container keeps its heap when it is assigned to: what is moved
// in from another heap is moved element by element, so nothing in it ends with a heap that is not
// its own. Copies of a container are in its heap; swapped containers swap their heaps.
template <class T> class heap_allocator {
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;
    template <class U> struct rebind { using other = heap_allocator<U>; };

    template <at_end End>
    heap_allocator(const basic_heap<End> &heap) noexcept : heap_(heap.get()) {}
    explicit heap_allocator(prim_heap_t *heap) noexcept : heap_(heap) {}  // null: the default heap
    template <class U>
    heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.heap()) {}

    prim_heap_t *heap() const noexcept {
        return heap_;
    }

    T *allocate(size_type count) {
        if (count > max_size()) {
            detail::size_overflows();
        }
        return static_cast<T *>(detail::allocate_in(heap_, count * sizeof(T), alignof(T)));
    }

    void deallocate(T *block, size_type) noexcept {
        prim_free(block);
    }

    size_type max_size() const noexcept {
        return detail::most<T>();
    }

    template <class U>
    friend bool operator==(const heap_allocator &one, const heap_allocator<U> &other) noexcept {
        return one.heap() == other.heap();
    }
    template <class U>
    friend bool operator!=(const heap_allocator &one, const heap_allocator<U> &other) noexcept {
        return one.heap() != other.heap();
    }

  private:
    prim_heap_t *heap_;
};

#if defined(__cpp_lib_memory_resource)

// Resource over the default heap. All are equal: one frees what another allocated.
class memory_resource : public std::pmr::memory_resource {
  private:
    void *do_allocate(std::size_t size, std::size_t alignment) override {
        return prim::allocate(size, alignment);
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override {
        prim_free(block);  // malloc's, where that aligns enough: no alignment was asked for
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        return dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

// Resource over a heap, which must live as long as what it allocated. Equal are those of one heap.
class heap_resource : public std::pmr::memory_resource {
  public:
    template <at_end End>
    explicit heap_resource(const basic_heap<End> &heap) noexcept : heap_(heap.get()) {}
    explicit heap_resource(prim_heap_t *heap) noexcept : heap_(heap) {}  // null: the default heap

    prim_heap_t *heap() const noexcept {
        return heap_;
    }

  private:
    void *do_allocate(std::size_t size, std::size_t alignment) override {
        return detail::allocate_in(heap_, size, alignment);
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override {
        prim_free(block);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        const heap_resource *resource = dynamic_cast<const heap_resource *>(&other);
        return resource && resource->heap_ == heap_;
#else
        return this == &other;
#endif
    }

    prim_heap_t *heap_;
};

// One for the whole program, there until its very end.
inline memory_resource *default_resource() noexcept {
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const resource = ::new (place) memory_resource;
    return resource;
}

#endif

// A tag in force from here to the end of the scope: what the thread allocates meanwhile is counted
// under its name, in statistics and profiles (prim_tag_push). Scopes end in the thread that began
// them, the last first. Where the tag cannot be in force, is_counted is false and the one before it
// stays.
class tag_scope {
  public:
    explicit tag_scope(const char *name) noexcept : is_counted_(prim_tag_push(name)) {}
    ~tag_scope() {
        prim_tag_pop();
    }
    tag_scope(const tag_scope &) = delete;
    tag_scope &operator=(const tag_scope &) = delete;

    bool is_counted() const noexcept {
        return is_counted_;
    }

  private:
    bool is_counted_;
};

// What hears the calls of malloc's family, or serves them: derived classes have members of these
// names in place of the ones they want; those here go on to the allocator, as does what a member
// itself allocates. Members keep to what struct prim_hooks says of them, and do not throw.
struct hooks {
    void *on_allocate(const struct prim_hook_call &call) noexcept {
        return call.alignment ? prim_aligned_alloc(call.alignment, call.size)
                              : prim_malloc(call.size);
    }
    void *on_reallocate(void *block, const struct prim_hook_call &call) noexcept {
        return prim_realloc(block, call.size);
    }
    void on_release(void *block, const struct prim_hook_call &) noexcept {
        prim_free(block);
    }
    std::size_t on_usable_size(const void *block) noexcept {
        return prim_malloc_usable_size(const_cast<void *>(block));
    }
};

// Hooks in force in the whole process from here to the end of the scope, which puts back those that
// were before it (prim_hooks_set); the last scope ends first. The object lives on until no thread
// is inside a call that began in the scope. Without memory is_set is false and nothing changes.
template <class Hooks> class hook_scope {
  public:
    explicit hook_scope(Hooks &object) noexcept {
        const struct prim_hooks own = {allocate, reallocate, release, usable_size, &object};
        int saved = errno;
        errno = 0;
        before_ = prim_hooks_set(&own);
        is_set_ = errno != ENOMEM;
        errno = saved;
    }
    ~hook_scope() {
        is_set_ ? prim_hooks_set(before_) : nullptr;
    }
    hook_scope(const hook_scope &) = delete;
    hook_scope &operator=(const hook_scope &) = delete;

    bool is_set() const noexcept {
        return is_set_;
    }

  private:
    static void *allocate(const struct prim_hook_call *call, void *self) noexcept {
        return static_cast<Hooks *>(self)->on_allocate(*call);
    }
    static void *reallocate(void *block, const struct prim_hook_call *call, void *self) noexcept {
        return static_cast<Hooks *>(self)->on_reallocate(block, *call);
    }
    static void release(void *block, const struct prim_hook_call *call, void *self) noexcept {
        static_cast<Hooks *>(self)->on_release(block, *call);
    }
    static std::size_t usable_size(const void *block, void *self) noexcept {
        return static_cast<Hooks *>(self)->on_usable_size(block);
    }

    const struct prim_hooks *before_;
    bool is_set_;
};

}  // namespace prim

#endif
