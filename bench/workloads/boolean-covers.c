/* Boolean covers: many small arrays of a few sizes with short lives, in the manner of espresso.
 *
 * A function of <variables> variables is a cover, a list of cubes; a cube is an array of two bits
 * for each variable (0 = the variable must be false, 1 = must be true, both set = does not matter).
 * For each of <functions> random covers the program computes the complement by recursion on the
 * variable that most cubes depend on - as espresso does - and then checks on random points that
 * exactly one of cover and complement holds. Every cube and every list is a block of its own.
 */
#include "workload.h"

#define WORDS_MOST 4
#define VARIABLES_PER_WORD 32
#define SEARCHED_MOST 16

enum { MUST_BE_FALSE = 1, MUST_BE_TRUE = 2, EITHER = 3 };

static struct argument arguments[] = {
    {"variables", "variables of a function", 24, 4, WORDS_MOST *VARIABLES_PER_WORD, NULL},
    {"cubes", "cubes of a function", 40, 1, 10000, NULL},
    {"functions", "functions", 20, 1, UINT32_MAX, NULL},
};

struct cover {
    uint64_t **cubes;
    uint32_t count;
    uint32_t capacity;
};

static uint32_t variables;
static uint32_t words;
static uint64_t cubes_made;

static unsigned cube_get(const uint64_t *cube, uint32_t variable) {
    return cube[variable / VARIABLES_PER_WORD] >> (variable % VARIABLES_PER_WORD * 2) & 3;
}

static void cube_set(uint64_t *cube, uint32_t variable, unsigned value) {
    unsigned shift = variable % VARIABLES_PER_WORD * 2;
    uint64_t *word = &cube[variable / VARIABLES_PER_WORD];
    *word = (*word & ~((uint64_t)3 << shift)) | (uint64_t)value << shift;
}

static uint64_t *cube_new(const uint64_t *from) {
    size_t bytes = words * sizeof(uint64_t);
    uint64_t *cube = (uint64_t *)block_found(malloc(bytes), bytes);
    if (from)
        memcpy(cube, from, bytes);
    else
        memset(cube, 0xFF, bytes);
    cubes_made++;
    return cube;
}

static int cube_is_universal(const uint64_t *cube) {
    for (uint32_t v = 0; v < variables; v++) {
        if (cube_get(cube, v) != EITHER) return 0;
    }
    return 1;
}

static struct cover *cover_new(void) {
    struct cover *cover = (struct cover *)table_new(1, sizeof *cover);
    cover->capacity = 4;
    cover->cubes = (uint64_t **)table_new(cover->capacity, sizeof *cover->cubes);
    return cover;
}

static void cover_add(struct cover *cover, uint64_t *cube) {
    if (cover->count == cover->capacity) {
        cover->capacity *= 2;
        size_t bytes = cover->capacity * sizeof *cover->cubes;
        cover->cubes = (uint64_t **)block_found(realloc(cover->cubes, bytes), bytes);
    }
    cover->cubes[cover->count++] = cube;
}

static void cover_delete(struct cover *cover) {
    for (uint32_t c = 0; c < cover->count; c++) free(cover->cubes[c]);
    free(cover->cubes);
    free(cover);
}

/* The part of the cover where the variable has the value, without that variable. */
static struct cover *cover_cofactor(const struct cover *cover, uint32_t variable, unsigned value) {
    struct cover *cofactor = cover_new();
    for (uint32_t c = 0; c < cover->count; c++) {
        if (!(cube_get(cover->cubes[c], variable) & value)) continue;
        uint64_t *cube = cube_new(cover->cubes[c]);
        cube_set(cube, variable, EITHER);
        cover_add(cofactor, cube);
    }
    return cofactor;
}

/* The variable on which most cubes depend, or `variables` if no cube depends on any. */
static uint32_t cover_splitter(const struct cover *cover) {
    uint32_t best = variables;
    uint32_t most = 0;
    for (uint32_t v = 0; v < variables; v++) {
        uint32_t uses = 0;
        for (uint32_t c = 0; c < cover->count; c++) uses += cube_get(cover->cubes[c], v) != EITHER;
        if (uses > most) {
            most = uses;
            best = v;
        }
    }
    return best;
}

/* A single cube's complement: for each variable that it names, the cube of the other value. */
static void cube_complement(const uint64_t *cube, struct cover *complement) {
    for (uint32_t v = 0; v < variables; v++) {
        unsigned value = cube_get(cube, v);
        if (value == EITHER) continue;
        uint64_t *other = cube_new(NULL);
        cube_set(other, v, EITHER ^ value);
        cover_add(complement, other);
    }
}

/* Long lists are not searched: comparing would rule over allocating. */
static int cover_has(const struct cover *cover, const uint64_t *wanted) {
    if (cover->count > SEARCHED_MOST) return 0;
    for (uint32_t c = 0; c < cover->count; c++) {
        if (memcmp(cover->cubes[c], wanted, words * sizeof *wanted) == 0) return 1;
    }
    return 0;
}

/* Joins the halves' complements: a cube of both does not depend on the variable. */
static struct cover *covers_join(struct cover *low, struct cover *high, uint32_t variable) {
    struct cover *joined = cover_new();
    for (uint32_t c = 0; c < low->count; c++) {
        uint64_t *cube = cube_new(low->cubes[c]);
        if (!cover_has(high, cube)) cube_set(cube, variable, MUST_BE_FALSE);
        cover_add(joined, cube);
    }
    for (uint32_t c = 0; c < high->count; c++) {
        if (cover_has(low, high->cubes[c])) continue;
        uint64_t *cube = cube_new(high->cubes[c]);
        cube_set(cube, variable, MUST_BE_TRUE);
        cover_add(joined, cube);
    }
    cover_delete(low);
    cover_delete(high);
    return joined;
}

static struct cover *cover_complement(struct cover *cover) {
    struct cover *complement;
    uint32_t variable = cover_splitter(cover);
    if (cover->count < 2 || variable == variables) {
        complement = cover_new();
        if (cover->count == 0)
            cover_add(complement, cube_new(NULL));
        else if (!cube_is_universal(cover->cubes[0]))
            cube_complement(cover->cubes[0], complement);
    } else {
        complement =
            covers_join(cover_complement(cover_cofactor(cover, variable, MUST_BE_FALSE)),
                        cover_complement(cover_cofactor(cover, variable, MUST_BE_TRUE)), variable);
    }
    cover_delete(cover);
    return complement;
}

static struct cover *cover_random(struct random_stream *random) {
    struct cover *cover = cover_new();
    for (uint64_t c = 0; c < arguments[1].value; c++) {
        uint64_t *cube = cube_new(NULL);
        for (uint32_t v = 0; v < variables; v++) {
            uint64_t dice = random_below(random, 8);
            if (dice < 2) cube_set(cube, v, dice ? MUST_BE_TRUE : MUST_BE_FALSE);
        }
        cover_add(cover, cube);
    }
    return cover;
}

static int cover_holds(const struct cover *cover, const uint64_t *point) {
    for (uint32_t c = 0; c < cover->count; c++) {
        uint32_t w = 0;
        while (w < words && (cover->cubes[c][w] & point[w]) == point[w]) w++;
        if (w == words) return 1;
    }
    return 0;
}

static void covers_verify(const struct cover *cover, const struct cover *complement,
                          struct random_stream *random) {
    for (int i = 0; i < 100; i++) {
        uint64_t point[WORDS_MOST];
        memset(point, 0xFF, sizeof point);
        for (uint32_t v = 0; v < variables; v++)
            cube_set(point, v, random_below(random, 2) ? MUST_BE_TRUE : MUST_BE_FALSE);
        /* Bits beyond the last variable are set in every cube and in the point. */
        if (cover_holds(cover, point) == cover_holds(complement, point))
            workload_fail("a cover and its complement agree on a point: a cube is damaged");
    }
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Complements of Boolean covers: many small, short-lived arrays.",
                    arguments, sizeof arguments / sizeof *arguments);
    variables = (uint32_t)arguments[0].value;
    words = (variables + VARIABLES_PER_WORD - 1) / VARIABLES_PER_WORD;
    struct random_stream random = random_seeded(1);
    double started_s = time_now_s();
    for (uint64_t f = 0; f < arguments[2].value; f++) {
        struct cover *cover = cover_random(&random);
        struct cover *copy = cover_new();
        for (uint32_t c = 0; c < cover->count; c++) cover_add(copy, cube_new(cover->cubes[c]));
        struct cover *complement = cover_complement(copy);
        covers_verify(cover, complement, &random);
        cover_delete(cover);
        cover_delete(complement);
    }
    report_print(cubes_made, started_s);
    return 0;
}
