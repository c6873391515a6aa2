/*
 * Runs one program and reports what it cost, itself costing next to nothing.
 *
 *   launch SECONDS REPORT PROGRAM [NAME=VALUE]... -- WORD...
 *
 * PROGRAM is started with the words after "--" as its argument vector and with the assignments in
 * its environment (only there: LD_PRELOAD never reaches this process). When it and all its
 * descendants have ended, or after SECONDS, one line of JSON goes to the file REPORT. Times are in
 * microseconds, memory in KiB.
 *
 * Why not straight from Python: the kernel's peak of a process begins at the size of the process
 * that forked it, so everything would appear to need at least the interpreter's 30 MiB. This
 * program is linked statically and is smaller than any program it measures.
 *
 * Invariant: every descendant is waited for (this process is their subreaper), so RUSAGE_CHILDREN
 * is the whole tree's: sums for times, faults and switches, the largest process for the peak.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_CANNOT_START = 127 };
enum { ONE_MILLION = 1000000, KILL_INTERVAL_US = 10000 };

static long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * ONE_MILLION + now.tv_nsec / 1000;
}

static long long microseconds(struct timeval span) {
    return (long long)span.tv_sec * ONE_MILLION + span.tv_usec;
}

/* A child's end; and being told to stop, which ends the program like a timeout. */
static sigset_t awaited_signals(void) {
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGTERM);
    return awaited;
}

/* In the child: a process group of its own, so that a timeout reaches all of it. */
static void become_program(char **words, char **assignments, int assignment_count, char *program) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    for (int i = 0; i < assignment_count; i++) putenv(assignments[i]);
    execvp(program, words);
    fprintf(stderr, "launch: can't start %s: %s\n", program, strerror(errno));
    _exit(EXIT_CANNOT_START);
}

/* Kills the program's group and every process that was handed to us because its parent ended. */
static void kill_descendants(pid_t group) {
    char path[64];
    int orphan;
    kill(-group, SIGKILL);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "r");
    if (children == NULL) return;
    while (fscanf(children, "%d", &orphan) == 1) kill(orphan, SIGKILL);
    fclose(children);
}

/*
 * Waits until no descendant is left; says whether the program was still running at the deadline.
 * The clock stops when the program itself ends; what it left behind is killed, not timed. Killing
 * is repeated, since the children of a killed process become ours only when it has ended.
 */
static int wait_for_all(pid_t child, long long deadline_us, int *status, long long *ended_us) {
    sigset_t awaited = awaited_signals();
    int timed_out = 0, is_running = 1;
    for (;;) {
        int one_status;
        pid_t ended = waitpid(-1, &one_status, WNOHANG);
        if (ended < 0 && errno == ECHILD) return timed_out;
        if (ended == child) {
            *status = one_status;
            *ended_us = now_us();
            is_running = 0;
        }
        if (ended > 0) continue;

        long long left_us = is_running ? deadline_us - now_us() : 0;
        if (left_us <= 0) {
            timed_out |= is_running;
            kill_descendants(child);
            left_us = KILL_INTERVAL_US;
        }
        struct timespec left = {left_us / ONE_MILLION, left_us % ONE_MILLION * 1000};
        int signal = sigtimedwait(&awaited, NULL, &left);
        if (signal == SIGINT || signal == SIGTERM) {
            deadline_us = 0;
        }
    }
}

static int write_report(const char *path, int status, int timed_out, long long wall_us) {
    struct rusage use;
    FILE *report = fopen(path, "w");
    if (report == NULL) {
        fprintf(stderr, "launch: can't write %s: %s\n", path, strerror(errno));
        return EXIT_FAILURE;
    }
    getrusage(RUSAGE_CHILDREN, &use);
    fprintf(report,
            "{\"wall_us\": %lld, \"user_us\": %lld, \"system_us\": %lld, \"peak_rss_kib\": %ld, "
            "\"minor_faults\": %ld, \"major_faults\": %ld, \"voluntary_switches\": %ld, "
            "\"involuntary_switches\": %ld, \"exit_status\": %d, \"signal\": %d, "
            "\"timed_out\": %s}\n",
            wall_us, microseconds(use.ru_utime), microseconds(use.ru_stime), use.ru_maxrss,
            use.ru_minflt, use.ru_majflt, use.ru_nvcsw, use.ru_nivcsw,
            WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            WIFSIGNALED(status) ? WTERMSIG(status) : 0, timed_out ? "true" : "false");
    return fclose(report) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    int separator = 4;
    while (separator < argc && strcmp(argv[separator], "--") != 0) separator++;
    if (argc < 5 || separator + 1 >= argc) {
        fprintf(stderr, "usage: launch SECONDS REPORT PROGRAM [NAME=VALUE]... -- WORD...\n");
        return EXIT_USAGE;
    }
    long long limit_us = (long long)(atof(argv[1]) * ONE_MILLION);

    sigset_t awaited = awaited_signals();
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);

    long long started_us = now_us(), ended_us = started_us;
    pid_t child = fork();
    if (child == 0) become_program(argv + separator + 1, argv + 4, separator - 4, argv[3]);
    if (child < 0) {
        fprintf(stderr, "launch: can't fork: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    int status = 0;
    int timed_out = wait_for_all(child, started_us + limit_us, &status, &ended_us);
    return write_report(argv[2], status, timed_out, ended_us - started_us);
}
