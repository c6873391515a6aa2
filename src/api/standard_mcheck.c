/* standard_mcheck.c - mcheck and mprobe, as glibc's <mcheck.h> declares them. */
#include "api/standard.h"
#include "watch/check.h"

int mcheck(check_handler *handler);
int mcheck_pedantic(check_handler *handler);
void mcheck_check_all(void);
enum check_status mprobe(void *block);

PRIM_EXPORT int mcheck(check_handler *handler) {
    return check_begin_late(handler) ? 0 : -1;
}

/* All blocks are looked at now and then in either case. */
ALIAS(mcheck_pedantic, mcheck)

PRIM_EXPORT void mcheck_check_all(void) {
    check_all("by mcheck_check_all");
}

PRIM_EXPORT enum check_status mprobe(void *block) {
    return check_one(block);
}
