/* A library with one place that allocates; compiled with NUMBER several times, each with a size of
 * its own and as large as the others, so that they take each other's addresses. */
#include <stdlib.h>

#define PASTE(name, number) name##number
#define NAME(name, number) PASTE(name, number)

__attribute__((noinline)) void *NAME(plugin_site_, NUMBER)(void) {
    char *block = malloc(200 + 48 * NUMBER);
    *(volatile char *)block = 1;
    return block;
}

void *plugin_allocate(void) {
    void *block = NAME(plugin_site_, NUMBER)();
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}
