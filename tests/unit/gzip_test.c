/* What we compress, the machine's gzip takes apart. */
#include "watch/gzip.h"

#include <unistd.h>

#include "unit/unit.h"

enum { SIZE_MAX_TESTED = 300000 };

static struct gzip gzip;
static uint8_t bytes[SIZE_MAX_TESTED];
static uint8_t read_back[SIZE_MAX_TESTED + 1];

/* Returns the size of the file. */
static size_t check(size_t size, size_t piece) {
    struct output_file file;
    char path[64], command[128];
    snprintf(path, sizeof path, "/tmp/gzip_test.%d.gz", getpid());
    assert_true(output_file_open(&file, path));
    gzip_open(&gzip, &file);
    for (size_t at = 0; at < size; at += piece) {
        gzip_write(&gzip, bytes + at, size - at < piece ? size - at : piece);
    }
    gzip_close(&gzip);
    assert_true(output_file_close(&file));
    snprintf(command, sizeof command, "gzip -dc %s", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fread(read_back, 1, sizeof read_back, pipe), size);
    assert_int_equal(pclose(pipe), 0);
    assert_memory_equal(read_back, bytes, size);
    FILE *written = fopen(path, "r");
    fseek(written, 0, SEEK_END);
    long length = ftell(written);
    fclose(written);
    unlink(path);
    return (size_t)length;
}

static void any_bytes_come_back(void **state) {
    (void)state;
    struct random random = unit_random();
    for (unsigned alphabet = 1; alphabet <= 256; alphabet *= 4) {
        for (size_t i = 0; i < SIZE_MAX_TESTED; i++) {
            bytes[i] = (uint8_t)(256 - alphabet + random_below(&random, alphabet));
        }
        check(SIZE_MAX_TESTED, 1 + random_below(&random, 50000));
        check(random_below(&random, 5000), 7);
    }
    for (size_t size = 0; size < 8; size++) {
        check(size, 3);
    }
}

static void what_repeats_gets_small(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZE_MAX_TESTED; i++) {
        bytes[i] = "a stack is often nearly another stack, "[i % 39];
    }
    assert_true(check(SIZE_MAX_TESTED, SIZE_MAX_TESTED) < SIZE_MAX_TESTED / 50);
    for (size_t distance = 1; distance < 32768; distance = distance * 3 + 1) {
        for (size_t i = distance; i < SIZE_MAX_TESTED; i++) {
            bytes[i] = bytes[i - distance];
        }
        check(SIZE_MAX_TESTED, 4096);
    }
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(what_repeats_gets_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
