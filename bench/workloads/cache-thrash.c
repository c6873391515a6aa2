/* Active false sharing: cache-thrash from the Hoard paper (Berger, McKinley, Blumofe and Wilson,
 * 2000).
 *
 * Threads side by side allocate, write many times and free small objects of their own. An allocator
 * that serves several threads from one cache line makes them fight for it.
 */
#include "sharing.h"

int main(int argc, char **argv) {
    sharing_run(argc, argv, "Active false sharing: threads allocate side by side and write.", 0);
    return 0;
}
