/* fault.c - see fault.h. */
#include "os/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static fault_function *told;           /* (const after fault_catch) */
static struct sigaction former_action; /* (const after fault_catch) */

static enum fault_access access_of(const ucontext_t *context) {
#if defined(__x86_64__) && defined(REG_ERR)
    enum { WRITE_BIT = 2 }; /* of the page fault's error code */
    return context->uc_mcontext.gregs[REG_ERR] & WRITE_BIT ? FAULT_WRITE : FAULT_READ;
#else
    (void)context;
    return FAULT_ACCESS;
#endif
}

/* Where nobody else was told, the default action ends the program: at the same instruction again,
 * or by the same signal where somebody sent it. */
static void pass_on(int signal, siginfo_t *info, void *context) {
    if (former_action.sa_flags & SA_SIGINFO) {
        former_action.sa_sigaction(signal, info, context);
    } else if (former_action.sa_handler != SIG_DFL && former_action.sa_handler != SIG_IGN) {
        former_action.sa_handler(signal);
    } else if (former_action.sa_handler == SIG_DFL || info->si_code > 0) {
        struct sigaction fallback;
        memset(&fallback, 0, sizeof fallback);
        fallback.sa_handler = SIG_DFL;
        sigaction(signal, &fallback, NULL);
        if (info->si_code <= 0) {
            raise(signal);
        }
    }
}

static void handle(int signal, siginfo_t *info, void *context) {
    int saved_errno = errno;
    bool is_mended =
        info->si_code > 0 && told((uintptr_t)info->si_addr, access_of((ucontext_t *)context));
    errno = saved_errno;
    if (!is_mended) {
        pass_on(signal, info, context);
    }
}

void fault_catch(fault_function *function) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (told) {
        return;
    }
    told = function;
    sigaction(SIGSEGV, NULL, &former_action);
    sigaction(SIGSEGV, &action, NULL);
}
