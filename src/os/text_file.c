/* text_file.c - see text_file.h. */
#include "os/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/confined.h"

bool text_file_open(struct text_file *file, const char *path) {
    int saved_errno = errno;
    file->descriptor = -1;
    if (!is_confined()) {
        file->descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    }
    errno = saved_errno;
    file->next = 0;
    file->length = 0;
    return file->descriptor >= 0;
}

void text_file_close(struct text_file *file) {
    int saved_errno = errno;
    syscall(SYS_close, file->descriptor);
    errno = saved_errno;
}

static void fill(struct text_file *file) {
    int saved_errno = errno;
    long length;
    do {
        length = syscall(SYS_read, file->descriptor, file->buffer, sizeof file->buffer);
    } while (length < 0 && errno == EINTR);
    errno = saved_errno;
    file->next = 0;
    file->length = length > 0 ? (unsigned)length : 0;
}

int text_file_byte(struct text_file *file) {
    if (file->next == file->length) {
        fill(file);
        if (file->length == 0) {
            return TEXT_FILE_END;
        }
    }
    return (unsigned char)file->buffer[file->next++];
}

int text_file_field(struct text_file *file, int end, int other_end, char *text, size_t room) {
    char *out = text;
    const char *last = text + room - 1;
    for (;;) { /* a kilobyte or ten of mounts is read so: from the buffer, byte by byte */
        const char *at = file->buffer + file->next;
        const char *stop = file->buffer + file->length;
        while (at != stop) {
            int byte = (unsigned char)*at++;
            if (byte == end || byte == other_end || byte == '\n') {
                file->next = (unsigned)(at - file->buffer);
                *out = '\0';
                return byte;
            }
            if (out != last) {
                *out++ = (char)byte;
            }
        }
        fill(file);
        if (file->length == 0) {
            *out = '\0';
            return TEXT_FILE_END;
        }
    }
}

bool text_file_decimal(struct text_file *file, uint64_t *number, int *behind) {
    uint64_t value = 0;
    bool is_number = false;
    bool fits = true;
    int byte = text_file_byte(file);
    for (; byte >= '0' && byte <= '9'; byte = text_file_byte(file)) {
        is_number = true;
        fits = fits && !__builtin_mul_overflow(value, (uint64_t)10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(byte - '0'), &value);
    }
    *number = value;
    *behind = byte;
    return is_number && fits;
}

bool text_file_number(const char *path, uint64_t *number) {
    struct text_file file;
    int behind;
    if (!text_file_open(&file, path)) {
        return false;
    }
    bool is_number = text_file_decimal(&file, number, &behind);
    text_file_close(&file);
    return is_number;
}
