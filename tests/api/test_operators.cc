// The C++ operators new and delete, called as programs call them (C++17 [new.delete], T38).
#include "support/support.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include <malloc.h>

namespace {

constexpr std::size_t impossible = SIZE_MAX / 2 + 1;
const std::size_t sizes[] = {0, 1, 8, 24, 100, 1000, 5000, 33000, 300000, 2 << 20};

void check_new(void *block, std::size_t size, std::size_t alignment) {
    assert_non_null(opaque(block));
    assert_int_equal(reinterpret_cast<std::uintptr_t>(block) % alignment, 0);
    assert_true(malloc_usable_size(block) >= size);
    std::memset(block, 0x5a, size);
}

void test_single_and_array(void **) {
    for (std::size_t size : sizes) {
        std::size_t alignment = size > 8 ? 16 : 8;
        for (int i = 0; i < 10; i++) {
            void *single = ::operator new(size);
            void *array = ::operator new[](size);
            check_new(single, size, alignment);
            check_new(array, size, alignment);
            assert_ptr_not_equal(single, array);
            if (i % 2 == 0) {
                ::operator delete(single);
                ::operator delete[](array);
            } else {
                ::operator delete(single, size);
                ::operator delete[](array, size);
            }
        }
    }
}

void test_nothrow(void **) {
    for (std::size_t size : sizes) {
        void *single = ::operator new(size, std::nothrow);
        void *array = ::operator new[](size, std::nothrow);
        check_new(single, size, 8);
        check_new(array, size, 8);
        ::operator delete(single, std::nothrow);
        ::operator delete[](array, std::nothrow);
    }
}

void test_aligned(void **) {
    for (std::size_t size : sizes) {
        for (std::size_t alignment = 16; alignment <= 65536; alignment *= 4) {
            auto align = static_cast<std::align_val_t>(alignment);
            void *blocks[] = {
                ::operator new(size, align),
                ::operator new[](size, align),
                ::operator new(size, align, std::nothrow),
                ::operator new[](size, align, std::nothrow),
                ::operator new(size, align),
                ::operator new[](size, align),
            };
            for (void *block : blocks) {
                check_new(block, size, alignment);
            }
            ::operator delete(blocks[0], align);
            ::operator delete[](blocks[1], align);
            ::operator delete(blocks[2], align, std::nothrow);
            ::operator delete[](blocks[3], align, std::nothrow);
            ::operator delete(blocks[4], size, align);
            ::operator delete[](blocks[5], size, align);
        }
    }
}

void test_t25_delete_of_null(void **) {
    void *null = opaque(nullptr);
    auto align = static_cast<std::align_val_t>(64);
    ::operator delete(null);
    ::operator delete[](null);
    ::operator delete(null, 100);
    ::operator delete[](null, 100);
    ::operator delete(null, std::nothrow);
    ::operator delete[](null, std::nothrow);
    ::operator delete(null, align);
    ::operator delete[](null, align);
    ::operator delete(null, 0, align);
    ::operator delete[](null, 100, align);
    ::operator delete(null, align, std::nothrow);
    ::operator delete[](null, align, std::nothrow);
}

template <typename Allocate> bool throws_bad_alloc(Allocate allocate) {
    try {
        opaque(allocate());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void test_t38_failure_throws(void **) {
    auto align = static_cast<std::align_val_t>(64);
    std::size_t size = opaque_size(impossible);
    assert_true(throws_bad_alloc([=] { return ::operator new(size); }));
    assert_true(throws_bad_alloc([=] { return ::operator new[](size); }));
    assert_true(throws_bad_alloc([=] { return ::operator new(size, align); }));
    assert_true(throws_bad_alloc([=] { return ::operator new[](size, align); }));
    assert_true(throws_bad_alloc([] { return new long[opaque_size(SIZE_MAX / 4)]; }));
}

void test_failure_without_throwing(void **) {
    auto align = static_cast<std::align_val_t>(64);
    std::size_t size = opaque_size(impossible);
    assert_null(opaque(::operator new(size, std::nothrow)));
    assert_null(opaque(::operator new[](size, std::nothrow)));
    assert_null(opaque(::operator new(size, align, std::nothrow)));
    assert_null(opaque(::operator new[](size, align, std::nothrow)));
}

int handler_calls;

void handler_that_gives_up() {
    if (++handler_calls == 3) {
        std::set_new_handler(nullptr);
    }
}

struct out_of_patience : std::bad_alloc {};

void handler_that_throws() {
    ++handler_calls;
    throw out_of_patience();
}

// operator new calls the handler again and again until one call removes it.
void test_t38_handler_is_called_in_a_loop(void **) {
    std::size_t size = opaque_size(impossible);
    auto align = static_cast<std::align_val_t>(64);
    for (int form = 0; form < 4; form++) {
        handler_calls = 0;
        std::set_new_handler(handler_that_gives_up);
        assert_true(throws_bad_alloc([=] {
            return form == 0   ? ::operator new(size)
                   : form == 1 ? ::operator new[](size)
                   : form == 2 ? ::operator new(size, align)
                               : ::operator new[](size, align);
        }));
        assert_int_equal(handler_calls, 3);
    }
    for (int form = 0; form < 4; form++) {
        handler_calls = 0;
        std::set_new_handler(handler_that_gives_up);
        assert_null(opaque(form == 0   ? ::operator new(size, std::nothrow)
                           : form == 1 ? ::operator new[](size, std::nothrow)
                           : form == 2 ? ::operator new(size, align, std::nothrow)
                                       : ::operator new[](size, align, std::nothrow)));
        assert_int_equal(handler_calls, 3);
    }
}

// The exception passes through operator new. The nothrow forms turn it into a null pointer, with
// the help of the C++ library's own, which a program linked with -static does not have.
void test_handler_may_throw(void **) {
    std::size_t size = opaque_size(impossible);
    std::set_new_handler(handler_that_throws);
    handler_calls = 0;
    bool caught = false;
    try {
        opaque(::operator new(size));
    } catch (const out_of_patience &) {
        caught = true;
    }
    assert_true(caught);
    assert_int_equal(handler_calls, 1);
#if !defined PRIM_TEST_FULLY_STATIC
    assert_null(opaque(::operator new(size, std::nothrow)));
    assert_null(opaque(::operator new[](size, std::nothrow)));
    assert_null(opaque(::operator new(size, static_cast<std::align_val_t>(64), std::nothrow)));
    assert_int_equal(handler_calls, 4);
#endif
    std::set_new_handler(nullptr);
}

// malloc never calls the handler.
void test_malloc_ignores_the_handler(void **) {
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up);
    assert_null(opaque(std::malloc(opaque_size(impossible))));
    assert_int_equal(handler_calls, 0);
    std::set_new_handler(nullptr);
}

struct base {
    virtual ~base() = default;
    char body[40] = {};
};

struct derived : base {
    std::string text = std::string(200, 'd');
    char more[400] = {};
};

struct alignas(128) wide {
    char body[128] = {};
};

// T26: through a base pointer, as arrays with cookies, over-aligned, and in containers.
void test_t26_objects_and_containers(void **) {
    for (int i = 0; i < 100; i++) {
        std::unique_ptr<base> object(new derived);
        std::unique_ptr<derived[]> array(new derived[7]);
        std::unique_ptr<wide> over(new wide);
        assert_int_equal(reinterpret_cast<std::uintptr_t>(over.get()) % alignof(wide), 0);
        std::vector<wide> wides(33);
        assert_int_equal(reinterpret_cast<std::uintptr_t>(wides.data()) % alignof(wide), 0);
        auto shared = std::make_shared<derived>();
        std::map<int, std::string> words;
        for (int j = 0; j < 200; j++) {
            words[j * 7919 % 200] = std::string(static_cast<std::size_t>(j), 'w');
        }
        for (int j = 0; j < 200; j += 2) {
            words.erase(j);
        }
        assert_int_equal(words.size(), 100);
        assert_int_equal(words.count(199), 1);
    }
}

// The standard lets malloc's blocks and operator new's differ; programs mix them all the same.
void test_new_and_malloc_share_a_heap(void **) {
    for (std::size_t size : sizes) {
        std::free(opaque(::operator new(size)));
        ::operator delete(opaque(std::malloc(size)));
    }
}

}  // namespace

int main() {
    expect_allocator();
    watchdog_start(60, "api/test_operators");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_and_array),
        cmocka_unit_test(test_nothrow),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_t25_delete_of_null),
        cmocka_unit_test(test_t38_failure_throws),
        cmocka_unit_test(test_failure_without_throwing),
        cmocka_unit_test(test_t38_handler_is_called_in_a_loop),
        cmocka_unit_test(test_handler_may_throw),
        cmocka_unit_test(test_malloc_ignores_the_handler),
        cmocka_unit_test(test_t26_objects_and_containers),
        cmocka_unit_test(test_new_and_malloc_share_a_heap),
    };
    return cmocka_run_group_tests_name("operators new and delete", tests, nullptr, nullptr);
}
