/* memory.h - address space and physical pages; the only file that maps memory.
 *
 * All sizes and addresses are bytes and multiples of memory_page_size() unless said otherwise. What
 * is mapped wherever there is room, and unmapped whole, may have any size: the kernel rounds it up.
 * Every function keeps errno and reports failure by its result alone. */
#ifndef PRIM_OS_MEMORY_H
#define PRIM_OS_MEMORY_H

#include "base/atomics.h"

/* What the functions below did so far; those that protect, advise or map a pool do not count. */
struct memory_counts {
    _Atomic uint64_t map_calls; /* (atomic: counter) as all of these */
    _Atomic uint64_t unmap_calls;
    _Atomic uint64_t purge_calls;
    _Atomic uint64_t purged_bytes; /* of address space: not all need have been resident */
    _Atomic uint64_t move_calls;
    _Atomic uint64_t moved_bytes;
};

extern PRIM_HIDDEN struct memory_counts memory_counts;

/* The system's page size, read at run time: 4, 16 or 64 KiB; and the least that it can be. */
enum { PAGE_LEAST = 4096 };
size_t memory_page_size(void);

/* Whether the process's address space has a limit below this (RLIMIT_AS). Where the kernel may not
 * be asked it may have any limit: below SIZE_MAX, but none that is known. */
bool memory_is_limited(size_t size);

/* Fresh private zero pages, readable and writable, or NULL. */
void *memory_map(size_t size);

/* The same at exactly this address, or NULL when any of it is taken. */
void *memory_map_at(void *address, size_t size);

/* The same at this address if all of it is free there, and else anywhere. */
void *memory_map_near(void *address, size_t size);

/* Address space that reads as zero and is charged to nobody, or NULL. */
void *memory_reserve(size_t size);

/* Makes part of a reservation writable. */
bool memory_commit(void *address, size_t size);

/* Forbids every access to the range, whose contents are gone. */
bool memory_forbid(void *address, size_t size);

/* The same, by marks in the page tables: no mapping is cut in two, and no limit on data counts when
 * it ends. False on kernels before 6.13, and for locked pages. */
bool memory_guard(void *address, size_t size);

/* Ends that; the range reads as zero. False where a filter forbids it by now. */
bool memory_unguard(void *address, size_t size);

void memory_unmap(void *address, size_t size);

/* Gives the physical pages back; the range stays mapped and reads as zero afterwards. Returns
 * false when the kernel refuses (locked pages), and then the contents are unspecified. */
bool memory_purge(void *address, size_t size);

/* Whether nobody tells what is resident, as the process is confined or a filter refuses to: known
 * once it was asked for. */
extern PRIM_HIDDEN _Atomic bool memory_is_blind; /* (atomic: hint) */

/* Of a range's pages at every step bytes, from its first on, how many are resident; 0 where that is
 * not told. Steps below this divide 2 MiB, and so much is looked at in one call, which
 * costs as much as one for a page. */
enum { MEMORY_STEP_COARSE = 256 << 10 };
size_t memory_samples(void *address, size_t size, size_t step);

/* How many bytes of the range hold physical pages; 0 where that is not told. */
size_t memory_resident(void *address, size_t size);

/* Whether the page at this address is locked in memory or a huge page of the system's pool: then it
 * must stay where it is. True on kernels before 5.4, which do not tell and cannot move pages. */
bool memory_is_pinned(void *address);

/* Whether qemu's user mode stands for the kernel: of advice that there is none of it says that it
 * was taken. */
bool memory_is_emulated(void);

/* Whether an emulator takes for unmapped what pages are moved from: known once some were. */
extern PRIM_HIDDEN _Atomic bool memory_loses_source; /* (atomic: hint) */

/* Moves the physical pages of [from, from + size) to [to, to + size), whose own are given back.
 * The source stays mapped and reads as zero. False, with nothing changed, on kernels before 5.7, or
 * for a source that lies in two mappings. */
bool memory_move(void *from, void *to, size_t size);

/* Whether the range lies in one of the kernel's mappings. */
bool memory_is_one_mapping(void *start, size_t size);

/* Whether core dumps hold the range; true if the kernel agrees. */
bool memory_dump(void *address, size_t size, bool wanted);

/* Gives the range a name in /proc/PID/maps where the kernel can (5.17, if so configured). The text
 * must be static. */
void memory_name(void *address, size_t size, const char *name);

/* A file from its beginning, to be read, or NULL. Not counted. */
const void *memory_map_file(int file, size_t size);

/* Fresh zero pages of the system's pool of huge pages, or NULL; size is whole 2 MiB. */
void *memory_map_pool(size_t size);

/* Asks for huge pages in the range, or forbids them; false when the kernel has none. */
bool memory_advise_huge(void *address, size_t size, bool wanted);

#endif
