/* Passive false sharing: cache-scratch from the Hoard paper (Berger, McKinley, Blumofe and Wilson,
 * 2000).
 *
 * The main thread allocates one small object for each thread, so that they are neighbours on one
 * cache line; each thread frees the one that it got, and then allocates, writes many times and
 * frees objects of its own. An allocator that hands the neighbours out again, each to another
 * thread, makes the threads fight for the line as long as they run.
 */
#include "sharing.h"

int main(int argc, char **argv) {
    sharing_run(argc, argv, "Passive false sharing: threads free neighbours, then write.", 1);
    return 0;
}
