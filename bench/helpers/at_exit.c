/*
 * Runs one program and keeps what the kernel says of its memory at the moment it exits.
 *
 *   at_exit REPORT PROGRAM [NAME=VALUE]... -- WORD...
 *
 * PROGRAM is started with the words after "--" as its argument vector and the assignments in its
 * environment. When it has run its exit handlers and asks the kernel to end, it is stopped by
 * PTRACE_O_TRACEEXIT and its /proc/PID/smaps_rollup is copied to REPORT: nothing is added to the
 * measured process. The exit status is the program's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_CANNOT_START = 127, SIGNAL_EXIT_BASE = 128 };
static const int exit_stop = SIGTRAP | (PTRACE_EVENT_EXIT << 8);

static void become_program(char **words, char **assignments, int assignment_count, char *program) {
    for (int i = 0; i < assignment_count; i++) {
        putenv(assignments[i]);
    }
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);  // the parent sets its options while we wait here
    execvp(program, words);
    fprintf(stderr, "at_exit: can't start %s: %s\n", program, strerror(errno));
    _exit(EXIT_CANNOT_START);
}

static void copy_rollup(pid_t child, const char *report_path) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)child);
    FILE *rollup = fopen(path, "r");
    FILE *report = fopen(report_path, "w");
    if (rollup == NULL || report == NULL) {
        fprintf(stderr, "at_exit: can't copy %s to %s: %s\n", path, report_path, strerror(errno));
        exit(EXIT_FAILURE);
    }
    fwrite(text, 1, fread(text, 1, sizeof text, rollup), report);
    fclose(rollup);
    fclose(report);
}

/* The signal to hand on when a stopped child goes on: none for stops that tracing itself caused. */
static int signal_to_deliver(int status) {
    int is_event = status >> 16 != 0;
    return is_event || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
}

int main(int argc, char **argv) {
    int separator = 3;
    while (separator < argc && strcmp(argv[separator], "--") != 0) {
        separator++;
    }
    if (argc < 4 || separator + 1 >= argc) {
        fprintf(stderr, "usage: at_exit REPORT PROGRAM [NAME=VALUE]... -- WORD...\n");
        return EXIT_USAGE;
    }
    pid_t child = fork();
    if (child == 0) {
        become_program(argv + separator + 1, argv + 3, separator - 3, argv[2]);
    }
    int status;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL));
    ptrace(PTRACE_CONT, child, NULL, NULL);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        if (status >> 8 == exit_stop) {
            copy_rollup(child, argv[1]);
        }
        ptrace(PTRACE_CONT, child, NULL, (void *)(long)signal_to_deliver(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNAL_EXIT_BASE + WTERMSIG(status);
}
