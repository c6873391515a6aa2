/* A library that allocates for the programs. */
#include <stdlib.h>

static void *volatile kept;
static __thread void *volatile kept_local;

void plugin_keep(void) {
    kept = malloc(77);
}
void plugin_keep_local(void) {
    kept_local = malloc(78);
}
void plugin_lose(void) {
    void *block = malloc(79);
    __asm__ volatile("" : : "r"(block));
}
