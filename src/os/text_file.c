/* text_file.c - see text_file.h. */
#include "os/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bits.h"
#include "os/confined.h"
#include "os/kernel.h"

bool text_file_open(struct text_file *file, const char *path) {
    int saved_errno = errno;
    file->descriptor = (int)kernel_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    errno = saved_errno;
    file->next = 0;
    file->length = 0;
    file->is_unasked = false;
    return file->descriptor >= 0;
}

bool text_file_open_unasked(struct text_file *file, const char *path) {
    if (!confined_may_ask()) {
        return false;
    }
    bool is_open = text_file_open(file, path);
    file->is_unasked = is_open;
    if (!is_open) {
        confined_asked();
    }
    return is_open;
}

void text_file_close(struct text_file *file) {
    int saved_errno = errno;
    kernel_call(SYS_close, file->descriptor);
    errno = saved_errno;
    if (file->is_unasked) {
        confined_asked();
    }
}

static void fill(struct text_file *file) {
    int saved_errno = errno;
    long length;
    do {
        length = kernel_call(SYS_read, file->descriptor, file->buffer, sizeof file->buffer);
    } while (length < 0 && errno == EINTR);
    errno = saved_errno;
    file->next = 0;
    file->length = length > 0 ? (unsigned)length : 0;
}

static bool is_at_end(struct text_file *file) {
    if (file->next == file->length) {
        fill(file);
    }
    return file->length == 0;
}

int text_file_byte(struct text_file *file) {
    return is_at_end(file) ? TEXT_FILE_END : (unsigned char)file->buffer[file->next++];
}

/* A line that does not lie in the buffer as a whole. */
static char *gather_line(struct text_file *file, char *room, size_t size) {
    size_t length = 0;
    bool was_found = false;
    for (const char *end = NULL; !end && !is_at_end(file);) {
        const char *start = file->buffer + file->next;
        size_t here = file->length - file->next;
        end = memchr(start, '\n', here);
        here = end ? (size_t)(end - start) : here;
        file->next += (unsigned)(here + (end != NULL));
        here = bits_min(here, size - 1 - length);
        memcpy(room + length, start, here);
        length += here;
        was_found = true;
    }
    room[length] = '\0';
    return was_found ? room : NULL;
}

char *text_file_line(struct text_file *file, char *room, size_t size) {
    char *start = file->buffer + file->next;
    size_t left = file->length - file->next;
    char *end = left ? memchr(start, '\n', left) : NULL;
    if (!end) {
        return gather_line(file, room, size);
    }
    *end = '\0';
    file->next = (unsigned)(end + 1 - file->buffer);
    return start;
}

bool text_decimal(const char **text, uint64_t *number) {
    const char *at = *text;
    uint64_t value = 0;
    bool fits = true;
    for (; *at >= '0' && *at <= '9'; at++) {
        fits = fits && !__builtin_mul_overflow(value, (uint64_t)10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
    }
    bool is_number = at != *text && fits;
    *text = at;
    *number = value;
    return is_number;
}

bool text_file_number(const char *path, uint64_t *number) {
    struct text_file file;
    char room[32];
    if (!text_file_open_unasked(&file, path)) {
        return false;
    }
    const char *line = text_file_line(&file, room, sizeof room);
    bool is_number = line && text_decimal(&line, number);
    text_file_close(&file);
    return is_number;
}
