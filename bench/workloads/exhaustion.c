/* Malloc where there is nothing left: it may say no, with NULL and ENOMEM; it may do nothing worse.
 *
 * maps: the program itself uses up the kernel's table of mappings (vm.max_map_count) with pages of
 * alternating protection. address-space: blocks of 1 MiB, then small ones, are taken until malloc
 * refuses; a limit (ulimit -v) must be in force, of at most <mib> MiB. In both, blocks from before
 * are freed while nothing is left, refusals must come with ENOMEM, blocks that were had must hold
 * their contents, and once there is room again every size must be had again.
 */
#include "figures.h"

static const char *const way_words[] = {"maps", "address-space", NULL};

static struct argument arguments[] = {
    {"way", "what is used up", 0, 0, 1, way_words},
    {"mib", "MiB after which malloc must have refused (address-space)", 1024, 1, 1 << 20, NULL},
};

static const size_t sizes[] = {100, 5000, 100000, 3000000};

#define SIZES (sizeof sizes / sizeof *sizes)

enum { BLOCKS_EACH = 50 };

struct chain {
    struct chain *next;
};

static uint64_t refused;
static uint64_t served;

/* NULL or a marked block; a refusal without ENOMEM is a failure. */
static void *block_asked(size_t bytes) {
    errno = 0;
    void *block = malloc(bytes);
    if (block) {
        block_write(block, bytes);
        served++;
    } else if (errno != ENOMEM) {
        workload_fail("malloc(%zu) refused with errno %d in place of ENOMEM", bytes, errno);
    } else {
        refused++;
    }
    return block;
}

static void blocks_ask(void *blocks[SIZES][BLOCKS_EACH]) {
    for (int b = 0; b < BLOCKS_EACH; b++)
        for (size_t s = 0; s < SIZES; s++) blocks[s][b] = block_asked(sizes[s]);
}

static void blocks_free(void *blocks[SIZES][BLOCKS_EACH]) {
    for (int b = 0; b < BLOCKS_EACH; b++)
        for (size_t s = 0; s < SIZES; s++)
            if (blocks[s][b]) block_delete(blocks[s][b], sizes[s]);
}

/* ---- maps ---- */

/* Adjacent pages never share a protection, so that each is a mapping of its own. */
static void maps_fill(void) {
    static const int protections[] = {PROT_READ, PROT_READ | PROT_WRITE};
    for (unsigned long i = 0;; i++) {
        void *page = mmap(NULL, PAGE_BYTES, protections[i % 2], MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return;
        if (i > 8000000) workload_fail("the table of mappings does not fill");
    }
}

static void exhaust_maps(void) {
    static void *before[SIZES][BLOCKS_EACH], *during[SIZES][BLOCKS_EACH];
    blocks_ask(before);
    if (refused) workload_fail("malloc refused before anything was used up");
    maps_fill();
    blocks_ask(during);
    blocks_free(before);
    blocks_ask(before);
    blocks_free(during);
    blocks_free(before);
}

/* ---- address space ---- */

static struct chain *chain_taken(size_t bytes) {
    struct chain *first = NULL;
    for (uint64_t had = 0;; had += bytes) {
        if (had > arguments[1].value * MIB)
            workload_fail("malloc never refused: is a limit in force (ulimit -v)?");
        struct chain *block = (struct chain *)malloc(bytes);
        if (!block) return first;
        memset(block, 1, bytes);
        block->next = first;
        first = block;
        served++;
    }
}

static void chain_free(struct chain *block, size_t bytes) {
    while (block) {
        struct chain *next = block->next;
        if (((unsigned char *)block)[bytes - 1] != 1) workload_fail("a block lost its end");
        free(block);
        block = next;
    }
}

static void exhaust_address_space(void) {
    static void *again[SIZES][BLOCKS_EACH];
    errno = 0;
    struct chain *large = chain_taken(MIB);
    if (errno != ENOMEM) workload_fail("malloc refused with errno %d in place of ENOMEM", errno);
    double had_mib = (double)served;
    struct chain *small = chain_taken(100);
    chain_free(large, MIB);
    blocks_ask(again);
    if (refused) workload_fail("malloc refuses although %.0f MiB were freed", had_mib);
    chain_free(small, 100);
    blocks_free(again);
    dprintf(STDOUT_FILENO, "figure had_mib %.0f\n", had_mib);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Malloc where there is nothing left.", arguments,
                    sizeof arguments / sizeof *arguments);
    if (arguments[0].value == 0) {
        exhaust_maps();
    } else {
        exhaust_address_space();
    }
    /* Without stdio, whose buffer would have to be had from an exhausted malloc. */
    dprintf(STDOUT_FILENO, "figure refused %llu\nfigure served %llu\n", (unsigned long long)refused,
            (unsigned long long)served);
    return 0;
}
