#include "os/module.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include "unit/unit.h"

#pragma weak dlopen /* hardly in static programs, and then not for us */

enum { LATE_COUNT = 4, FINDERS = 8 };

static int variable_of_the_program = 1;
static uintptr_t late[LATE_COUNT]; /* where libraries begin that came after the table was made */

static void addresses_have_their_module(void **state) {
    (void)state;
    unsigned program = module_find((uintptr_t)&variable_of_the_program);
    assert_true(program > 0 && program <= module_count());
    const struct module *module = module_at(program);
    assert_true(module->is_permanent);
    assert_string_equal(module->path, "");
    assert_in_range((uintptr_t)&variable_of_the_program, module->start, module->end - 1);
    assert_int_equal(module_find((uintptr_t)addresses_have_their_module), program);
    assert_int_equal(module_find_again((uintptr_t)&variable_of_the_program, program), program);
    int on_the_stack;
    assert_int_equal(module_find((uintptr_t)&on_the_stack), 0);
    assert_int_equal(module_find(0), 0);
    assert_int_equal(module_find(UINTPTR_MAX), 0);
}

/* The loader's own list, for comparison. */
static int compare(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME) {
            const void *table = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
            unsigned index = module_find((uintptr_t)table);
            assert_true(index > 0);
            assert_ptr_equal(module_at(index)->table, table);
            assert_string_equal(module_at(index)->path, info->dlpi_name);
            assert_int_equal(module_is_program(module_at(index)), info->dlpi_name[0] == '\0');
            ++*(unsigned *)context;
        }
    }
    return 0;
}

static void tables_are_those_of_the_loader(void **state) {
    (void)state;
    unsigned compared = 0;
    unsigned count = module_count();
    dl_iterate_phdr(compare, &compared);
    assert_true(compared > 0);
    module_note_all();
    assert_int_equal(module_count(), count);
}

static void build_ids_are_read(void **state) {
    (void)state;
    unsigned with_id = 0;
    for (unsigned i = 1; i <= module_count(); i++) {
        unsigned length = module_at(i)->build_id_length;
        assert_true(length <= BUILD_ID_MAX);
        with_id += length == BUILD_ID_MAX; /* SHA-1, as linkers make by default */
    }
    assert_true(with_id > 0);
}

static void find_late(unsigned number) {
    for (unsigned i = 0; i < LATE_COUNT; i++) {
        uintptr_t start = late[(i + number) % LATE_COUNT];
        unsigned index = module_find(start);
        CHECK(index > 0 && module_is_complete(index), "thread %u finds no module", number);
        CHECK(module_at(index)->start == start, "thread %u finds another module", number);
    }
}

/* Threads that meet new libraries at the same moment all find them, whoever enters them. */
static void threads_add_at_once(void **state) {
    (void)state;
    static const char *const names[LATE_COUNT] = {"libresolv.so.2", "libnss_compat.so.2",
                                                  "libanl.so.1", "libBrokenLocale.so.1"};
    for (unsigned i = 0; i < LATE_COUNT; i++) {
        struct link_map *library = dlopen && getauxval(AT_BASE) ? dlopen(names[i], RTLD_NOW) : NULL;
        if (!library) {
            skip();
        }
        late[i] = library->l_addr;
    }
    unsigned before = module_count();
    unit_run_threads(FINDERS, find_late);
    unsigned after = module_count();
    assert_in_range(after, before + LATE_COUNT, before + (LATE_COUNT * FINDERS));
    find_late(0);
    assert_int_equal(module_count(), after);
}

int main(void) {
    expect_allocator();
    module_note_all();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_their_module),
        cmocka_unit_test(tables_are_those_of_the_loader),
        cmocka_unit_test(build_ids_are_read),
        cmocka_unit_test(threads_add_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
