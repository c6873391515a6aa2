/* alone.c - see alone.h. */
#include "os/alone.h"

static const char not_alone; /* 0 */

const char *alone_flag = &not_alone;

void alone_learn(const char *flag) {
    alone_flag = flag ? flag : &not_alone;
}
