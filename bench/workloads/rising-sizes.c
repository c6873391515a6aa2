/* malloc(i * 4) and free for every i from 1 to <last>: a loop that many have timed allocators with.
 *
 * Nothing else is alive and nothing but the ends of the block is touched (with touch=1), so it
 * walks through every size class once and shows what a pair of calls costs at each size, above all
 * at the step where an allocator begins to ask the system for every block.
 */
#include "workload.h"

static struct argument arguments[] = {
    {"last", "last i", 10000000, 1, UINT32_MAX, NULL},
    {"touch", "1 = write and check the ends of each block", 0, 0, 1, NULL},
};

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "malloc(i * 4) and free for i up to a number.", arguments,
                    sizeof arguments / sizeof *arguments);
    double started_s = time_now_s();
    for (uint64_t i = 1; i <= arguments[0].value; i++) {
        void *block = block_found(malloc(i * 4), i * 4);
        if (arguments[1].value) {
            block_write(block, i * 4);
            block_verify(block, i * 4);
        }
        free(block);
    }
    report_print(arguments[0].value, started_s);
    return 0;
}
