/* Runs a program as on Linux 4.18: system calls, requests and flags that came later are answered as
 * that kernel answers what it does not know. The filter stays with all that the program starts.
 *
 * Usage: old_kernel PROGRAM [ARGUMENT...] */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE AUDIT_ARCH_X86_64
#endif

/* rseq was the last new one of 4.18. */
enum { LAST_CALL = SYS_rseq, FIRST_NEW_ADVICE = 20, NEW_MREMAP_FLAG = 4 };

/* PTRACE_GET_SYSCALL_INFO. */
enum { FIRST_NEW_REQUEST = 0x420e };

#define NAME_MAPPING 0x53564d41

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Skips so many statements when the comparison holds, or when it does not. */
#define SKIP_IF(comparison, value, yes, no) BPF_JUMP(BPF_JMP | (comparison) | BPF_K, value, yes, no)

static struct sock_filter filter[] = {
    LOAD(arch),
    SKIP_IF(BPF_JEQ, ARCHITECTURE, 1, 0),
    ALLOW,
    LOAD(nr),
    SKIP_IF(BPF_JGT, LAST_CALL, 0, 1),
    ANSWER(ENOSYS),
    SKIP_IF(BPF_JEQ, SYS_ptrace, 0, 4),
    LOAD(args[0]),
    SKIP_IF(BPF_JGE, FIRST_NEW_REQUEST, 0, 1),
    ANSWER(EIO),
    ALLOW,
    SKIP_IF(BPF_JEQ, SYS_madvise, 0, 4),
    LOAD(args[2]),
    SKIP_IF(BPF_JGE, FIRST_NEW_ADVICE, 0, 1),
    SKIP_IF(BPF_JGE, 100, 0, 9), /* 100 and above are old: memory failure */
    ALLOW,
    SKIP_IF(BPF_JEQ, SYS_mremap, 0, 3),
    LOAD(args[3]),
    SKIP_IF(BPF_JSET, NEW_MREMAP_FLAG, 5, 0),
    ALLOW,
    SKIP_IF(BPF_JEQ, SYS_prctl, 0, 2),
    LOAD(args[0]),
    SKIP_IF(BPF_JEQ, NAME_MAPPING, 1, 0),
    ALLOW,
    ANSWER(EINVAL),
};

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: old_kernel PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("old_kernel");
        return 2;
    }
    execvp(arguments[1], arguments + 1);
    perror(arguments[1]);
    return 127;
}
