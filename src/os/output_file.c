/* output_file.c - see output_file.h. */
#include "os/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/print.h"
#include "os/process.h"

bool output_file_open(struct output_file *file, const char *path) {
    int saved_errno = errno;
    struct print out = print_to(file->temporary, OUTPUT_PATH_SIZE - 1);
    print_text(&out, path);
    file->path[0] = '\0';
    file->has_failed = false;
    file->descriptor = -1;
    if (out.length + 32 < OUTPUT_PATH_SIZE) {
        memcpy(file->path, path, out.length + 1);
        print_text(&out, ".");
        print_decimal(&out, process_id());
        print_text(&out, ".part");
        file->temporary[out.length] = '\0';
        file->descriptor = (int)syscall(SYS_openat, AT_FDCWD, file->temporary,
                                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
    errno = saved_errno;
    return file->descriptor >= 0;
}

void output_file_write(struct output_file *file, const void *bytes, size_t size) {
    int saved_errno = errno;
    while (size && !file->has_failed) {
        long written = syscall(SYS_write, file->descriptor, bytes, size);
        if (written > 0) {
            bytes = (const char *)bytes + written;
            size -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            file->has_failed = true;
        }
    }
    errno = saved_errno;
}

bool output_file_close(struct output_file *file) {
    int saved_errno = errno;
    bool is_done = syscall(SYS_close, file->descriptor) == 0 && !file->has_failed &&
                   syscall(SYS_renameat, AT_FDCWD, file->temporary, AT_FDCWD, file->path) == 0;
    if (!is_done) {
        syscall(SYS_unlinkat, AT_FDCWD, file->temporary, 0);
    }
    file->descriptor = -1;
    errno = saved_errno;
    return is_done;
}

struct output_mark output_file_mark(const char *path) {
    struct stat status;
    struct output_mark mark = {0, 0};
    int saved_errno = errno;
    if (stat(path, &status) == 0) {
        mark.inode = status.st_ino;
        mark.time_ns =
            (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
    }
    errno = saved_errno;
    return mark;
}

bool output_link_target(const char *path, char *target, size_t size) {
    int saved_errno = errno;
    long length = syscall(SYS_readlinkat, AT_FDCWD, path, target, size);
    errno = saved_errno;
    if (length <= 0 || (size_t)length >= size) {
        return false;
    }
    target[length] = '\0';
    return true;
}
