/* output_file.c - see output_file.h. */
#include "os/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/print.h"
#include "os/confined.h"
#include "os/kernel.h"
#include "os/process.h"

static bool make(struct output_file *file, const char *name, int flags) {
    file->descriptor =
        (int)kernel_call(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    return file->descriptor >= 0;
}

/* A link may lead to what is not there yet, but to no pipe: one that nobody reads ends programs. */
static bool make_in_place(struct output_file *file) {
    struct stat status;
    bool is_writable =
        stat(file->path, &status) != 0 || S_ISREG(status.st_mode) || S_ISCHR(status.st_mode);
    return is_writable && make(file, file->path, O_TRUNC);
}

static bool make_beside(struct output_file *file, size_t length) {
    struct print out = {file->temporary, OUTPUT_PATH_SIZE - 1, length};
    memcpy(file->temporary, file->path, length);
    print_format(&out, ".%u.part", process_id());
    file->temporary[out.length] = '\0';
    kernel_call(SYS_unlinkat, AT_FDCWD, file->temporary, 0); /* of a process that was killed */
    return make(file, file->temporary, O_EXCL);
}

/* What takes another's place is as readable as that was, and root's files stay whose they were. */
static void resemble(const struct output_file *file, const struct stat *old) {
    struct stat own;
    if (fstat(file->descriptor, &own) != 0) {
        return;
    }
    if (own.st_uid != old->st_uid || own.st_gid != old->st_gid) {
        long error = kernel_call(SYS_fchown, file->descriptor, old->st_uid, old->st_gid);
        (void)error; /* root alone may do that */
    }
    if (own.st_mode != old->st_mode) { /* without set-user-ID */
        kernel_call(SYS_fchmod, file->descriptor, old->st_mode & 0777);
    }
}

bool output_file_open(struct output_file *file, const char *path) {
    struct stat status;
    size_t length = strlen(path);
    int saved_errno = errno;
    bool is_open = false;
    file->has_failed = false;
    file->size = 0;
    file->temporary[0] = '\0';
    if (length + 32 < OUTPUT_PATH_SIZE) {
        memcpy(file->path, path, length + 1);
        bool is_there = lstat(path, &status) == 0;
        bool is_special = is_there && !S_ISREG(status.st_mode);
        is_open = is_special ? make_in_place(file) : make_beside(file, length);
        if (is_open && is_there && !is_special) {
            resemble(file, &status);
        }
    }
    errno = saved_errno;
    return is_open;
}

/* A write beyond the process's limit would end it by a signal. */
static PRIM_NOINLINE bool may_grow_to(uint64_t size) {
    struct rlimit limit;
    return kernel_call(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || size <= limit.rlim_cur;
}

void output_file_write(struct output_file *file, const void *bytes, size_t size) {
    int saved_errno = errno;
    file->size += size;
    file->has_failed |= !may_grow_to(file->size);
    while (size && !file->has_failed) {
        long written = kernel_call(SYS_write, file->descriptor, bytes, size);
        if (written > 0) {
            bytes = (const char *)bytes + written;
            size -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            file->has_failed = true;
        }
    }
    errno = saved_errno;
}

static bool rename_file(const char *from, const char *to) {
#if defined(SYS_renameat)
    return kernel_call(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to) == 0;
#else /* riscv64 */
    return kernel_call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) == 0;
#endif
}

bool output_file_close(struct output_file *file) {
    int saved_errno = errno;
    bool is_done = kernel_call(SYS_close, file->descriptor) == 0 && !file->has_failed;
    if (file->temporary[0]) {
        is_done = is_done && rename_file(file->temporary, file->path);
        if (!is_done) {
            kernel_call(SYS_unlinkat, AT_FDCWD, file->temporary, 0);
        }
    }
    errno = saved_errno;
    return is_done;
}

/* It waits for nobody who may read a pipe. What has no end is not limited. */
bool output_file_append(const char *path, const char *text, size_t length) {
    enum { FLAGS = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK };
    int saved_errno = errno;
    bool may_ask = confined_may_ask();
    int file = may_ask ? (int)kernel_call(SYS_openat, AT_FDCWD, path, FLAGS, 0644) : -1;
    bool is_written =
        file >= 0 &&
        may_grow_to((uint64_t)kernel_call(SYS_lseek, file, (off_t)0, SEEK_END) + length) &&
        kernel_call(SYS_write, file, text, length) == (long)length;
    if (file >= 0) {
        kernel_call(SYS_close, file);
    }
    if (may_ask) {
        confined_asked();
    }
    errno = saved_errno;
    return is_written;
}

struct output_mark output_file_mark(const char *path) {
    struct stat status;
    struct output_mark mark = {0, 0};
    int saved_errno = errno;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        mark.inode = status.st_ino;
        mark.time_ns =
            (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
    }
    errno = saved_errno;
    return mark;
}
