/* One block that doubles by realloc, every byte written: is anything copied, and what does it take?
 *
 * A block of <first> KiB doubles until it has <last> KiB. Before each realloc of a block of more
 * than <watched> KiB the kernel is asked to forget which pages were referenced
 * (/proc/self/clear_refs); after it, the pages of the mappings that now hold the block tell by
 * their accessed bits whether the processor has read or written them. Moving page tables references
 * nothing; a copy references all of its destination, which the other way of growing, malloc, memcpy
 * and free, shows under any allocator.
 */
#include "figures.h"

static const char *const way_words[] = {"realloc", "copy", NULL};

static struct argument arguments[] = {
    {"first", "KiB at the start", 4, 1, (uint64_t)1 << 30, NULL},
    {"last", "KiB at the end", 1 << 20, 1, (uint64_t)1 << 30, NULL},
    {"watched", "KiB of a block above which its realloc is watched", 256, 4, (uint64_t)1 << 30,
     NULL},
    {"way", "by realloc, or by malloc, memcpy and free", 0, 0, 1, way_words},
};

/* An allocator may write a header or its neighbours' records: so much in a step is no copy. */
#define BOOKKEEPING_BYTES (64 * KIB)
#define HUGE_BYTES (2 * MIB)

static void references_forget(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "1", 1) != 1)
        workload_fail("cannot write /proc/self/clear_refs: %s", strerror(errno));
    close(file);
}

static uintptr_t hexadecimal(const char **text) {
    uintptr_t number = 0;
    for (;; (*text)++) {
        char c = **text;
        if (c >= '0' && c <= '9') {
            number = number << 4 | (uintptr_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            number = number << 4 | (uintptr_t)(c - 'a' + 10);
        } else {
            return number;
        }
    }
}

/* The referenced bytes of all mappings that overlap [block, block + bytes). Each mapping's record
 * begins with "<start>-<end> " and ends with its line VmFlags. */
static size_t referenced_bytes(const unsigned char *block, size_t bytes) {
    size_t sum = 0;
    const char *record = file_read("/proc/self/smaps");
    while (*record) {
        uintptr_t start = hexadecimal(&record);
        record++;
        uintptr_t end = hexadecimal(&record);
        if (start < (uintptr_t)block + bytes && (uintptr_t)block < end)
            sum += labelled_number(record, "\nReferenced:") * KIB;
        record = strstr(record, "\nVmFlags:");
        if (!record) workload_fail("a mapping in /proc/self/smaps has no flags");
        record = strchr(record + 1, '\n');
        if (!record) break;
        record++;
    }
    return sum;
}

static size_t huge_bytes(void) {
    return labelled_number(file_read("/proc/self/smaps_rollup"), "\nAnonHugePages:") * KIB;
}

/* What one huge page counts for that an allocator has tried for the part to come: it lies behind
 * the bytes that could be copied, perhaps in the same mapping. */
static size_t tried_bytes(size_t huge_before, size_t bytes) {
    size_t huge_now = huge_bytes();
    return huge_now > huge_before && bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
}

static unsigned char *block_doubled(unsigned char *block, size_t bytes) {
    if (arguments[3].value == 0)
        return (unsigned char *)block_found(realloc(block, 2 * bytes), 2 * bytes);
    unsigned char *copy = (unsigned char *)block_found(malloc(2 * bytes), 2 * bytes);
    memcpy(copy, block, bytes);
    free(block);
    return copy;
}

/* One step to twice the size; the bytes that it copied, as far as it is watched. */
static size_t double_once(unsigned char **block, size_t bytes) {
    int is_watched = bytes > arguments[2].value * KIB;
    size_t huge = 0;
    if (is_watched) {
        huge = huge_bytes();
        references_forget();
    }
    *block = block_doubled(*block, bytes);
    size_t referenced = is_watched ? referenced_bytes(*block, bytes) : 0;
    size_t tried = is_watched ? tried_bytes(huge, bytes) : 0;
    referenced -= referenced < tried ? referenced : tried;
    for (size_t b = 0; b < bytes; b += PAGE_BYTES) {
        if ((*block)[b] != (unsigned char)(b / PAGE_BYTES))
            workload_fail("realloc to %zu bytes lost contents", 2 * bytes);
    }
    if (referenced <= BOOKKEEPING_BYTES) return 0;
    return referenced < bytes ? referenced : bytes; /* the mapping may hold the source, too */
}

static void bytes_write(unsigned char *block, size_t from, size_t to) {
    memset(block + from, 1, to - from);
    for (size_t b = from; b < to; b += PAGE_BYTES) block[b] = (unsigned char)(b / PAGE_BYTES);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "One block that doubles by realloc.", arguments,
                    sizeof arguments / sizeof *arguments);
    size_t bytes = arguments[0].value * KIB, last = arguments[1].value * KIB;
    if (bytes % PAGE_BYTES) workload_misuse("first is not a multiple of 4");
    unsigned char *block = (unsigned char *)block_found(malloc(bytes), bytes);
    bytes_write(block, 0, bytes);
    size_t copied = 0;
    for (; bytes < last; bytes *= 2) {
        copied += double_once(&block, bytes);
        bytes_write(block, bytes, 2 * bytes);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    figure_print("copied_mib", (double)copied / MIB);
    figure_print("peak_per_final", (double)use.ru_maxrss * KIB / (double)bytes);
    free(block);
    return 0;
}
