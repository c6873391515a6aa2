#include "os/symbol_file.h"

#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

enum { ROOM = 64 };

static const struct module *program(void) {
    module_note_all();
    return module_at(module_find((uintptr_t)&program));
}

static void test_path_of_the_program(void **state) {
    (void)state;
    if (is_emulated()) {
        skip(); /* qemu tells its own path of /proc/thread-self/exe */
    }
    char path[4096];
    char wanted[4096] = {0};
    size_t length = symbol_file_path(program(), path, sizeof path);
    assert_true(readlink("/proc/self/exe", wanted, sizeof wanted - 1) > 0);
    assert_string_equal(path, wanted);
    assert_int_equal(length, strlen(path));
}

static void test_paths_of_libraries(void **state) {
    (void)state;
    char path[ROOM];
    assert_int_equal(symbol_file_path(&(struct module){.path = "/a/b.so"}, path, ROOM), 7);
    assert_string_equal(path, "/a/b.so");
    assert_int_equal(symbol_file_path(&(struct module){.path = "b.so"}, path, ROOM), 4);
    assert_string_equal(path, "b.so"); /* nobody says where it is */
    assert_int_equal(chdir("/tmp"), 0);
    assert_int_equal(symbol_file_path(&(struct module){.path = "a/b.so"}, path, ROOM), 11);
    assert_string_equal(path, "/tmp/a/b.so");
    assert_int_equal(symbol_file_path(&(struct module){.path = "a/b.so"}, path, 8), 7);
    assert_string_equal(path, "/tmp/a/");
}

static int note_loader(struct dl_phdr_info *info, size_t size, void *loader) {
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_INTERP) {
            *(const char **)loader = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    return 1; /* the program comes first */
}

/* In a program that the loader was told to start by a name that is longer than the room. */
static int ask_for_program(void) {
    char path[ROOM + 1] = {0};
    path[ROOM] = '#';
    return symbol_file_path(program(), path, ROOM) == ROOM - 1 && path[ROOM] == '#' ? 0 : 1;
}

static void test_long_name_of_the_program(void **state) {
    (void)state;
    char name[4096];
    const char *loader = NULL;
    int status = -1;
    memset(name, '/', ROOM);
    ssize_t length = readlink("/proc/self/exe", name + ROOM, sizeof name - ROOM - 1);
    dl_iterate_phdr(note_loader, &loader);
    if (!loader || length <= 0) {
        skip();
    }
    name[ROOM + length] = '\0';
    pid_t child = fork();
    if (child == 0) {
        execl(loader, loader, name, "ask", NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_names_of_loaders(void **state) {
    (void)state;
    assert_true(symbol_file_is_loader("/lib64/ld-linux-x86-64.so.2"));
    assert_true(symbol_file_is_loader("/lib64/ld64.so.2"));
    assert_true(symbol_file_is_loader("/usr/bin/ld.so"));
    assert_false(symbol_file_is_loader("/usr/bin/ld"));
    assert_false(symbol_file_is_loader("/lib/ld-2/libm.so"));
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "ask") == 0) {
        return ask_for_program();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_of_the_program),
        cmocka_unit_test(test_long_name_of_the_program),
        cmocka_unit_test(test_paths_of_libraries),
        cmocka_unit_test(test_names_of_loaders),
    };
    return cmocka_run_group_tests_name("symbol_file", tests, NULL, NULL);
}
