/* Counts the words of its arguments, and says whose malloc counted. */
#include <primalloc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    struct word *next;
    unsigned count;
    char text[];
};

static struct word *count_word(struct word *first, const char *text) {
    for (struct word *word = first; word; word = word->next) {
        if (strcmp(word->text, text) == 0) {
            word->count++;
            return first;
        }
    }
    struct word *word = malloc(sizeof *word + strlen(text) + 1);
    if (!word) {
        fputs("words: no memory\n", stderr);
        exit(1);
    }
    word->next = first;
    word->count = 1;
    strcpy(word->text, text);
    return word;
}

int main(int argc, char **argv) {
    struct word *first = NULL;
    for (int i = 1; i < argc; i++) {
        first = count_word(first, argv[i]);
    }
    void *probe = malloc(1);
    printf("primalloc %s %s\n", prim_version(),
           prim_malloc_usable_size(probe) ? "serves malloc" : "does not serve malloc");
    free(probe);
    while (first) {
        struct word *next = first->next;
        printf("%u %s\n", first->count, first->text);
        free(first);
        first = next;
    }
    return 0;
}
