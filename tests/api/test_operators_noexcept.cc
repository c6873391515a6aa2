// A program compiled with -fno-exceptions: the nothrow forms are its way to see a failure.
#include "support/support.h"

#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
#include <cmocka.h>
}

namespace {

constexpr std::size_t impossible = SIZE_MAX / 2 + 1;

void test_nothrow_gives_null(void **) {
    assert_null(opaque(::operator new(opaque_size(impossible), std::nothrow)));
    assert_null(opaque(::operator new[](opaque_size(impossible), std::nothrow)));
    assert_null(opaque(new (std::nothrow) char[opaque_size(impossible)]));
    auto align = static_cast<std::align_val_t>(256);
    assert_null(opaque(::operator new(opaque_size(impossible), align, std::nothrow)));
}

void test_objects(void **) {
    for (int i = 0; i < 1000; i++) {
        auto *numbers = new long[static_cast<std::size_t>(i) + 1];
        std::memset(opaque(numbers), 1, (static_cast<std::size_t>(i) + 1) * sizeof *numbers);
        delete[] numbers;
        delete static_cast<long *>(opaque(new (std::nothrow) long(5)));
    }
}

int handler_calls;

void handler() {
    handler_calls++;
    std::set_new_handler(nullptr);
}

void test_t38_handler_is_called(void **) {
    std::set_new_handler(handler);
    assert_null(opaque(::operator new(opaque_size(impossible), std::nothrow)));
    assert_int_equal(handler_calls, 1);
}

}  // namespace

int main() {
    expect_allocator();
    watchdog_start(60, "api/test_operators_noexcept");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothrow_gives_null),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_t38_handler_is_called),
    };
    return cmocka_run_group_tests_name("operators without exceptions", tests, nullptr, nullptr);
}
