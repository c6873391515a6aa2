/* outside.c - tells who can only read the process where the heap's books are.
 *
 * `primalloc explain` runs no code in a process that it explains, and need not stop it: it reads
 * descriptors of spans, counts of slabs' lists and rooms of thread caches in the process's memory,
 * and which options are set. An ELF note says where, and how far apart: it lies in the file's first
 * page, survives strip, and the linker takes it along into static programs. What reads it is in
 * cli/src/explain: note.rs, and options.rs knows struct option_row by its offsets.
 *
 * The owner is "primalloc", the type 1. Addresses are words of 32 bits, counted from themselves;
 * the rest are halves of words. What is new comes last: older tools pass over it. Whoever changes
 * an order here, or what a field below means, makes it another version: an older tool then says
 * that it doesn't know this library. */
#include <stddef.h>

#include "objects/bin.h"
#include "objects/slab_set.h"
#include "objects/thread_cache.h"
#include "objects/thread_sampler.h"
#include "pages/metadata.h"
#include "pages/span.h"
#include "settings/option_table.h"

_Static_assert(offsetof(struct span, address) == 0, "the tool expects it there");
_Static_assert(offsetof(struct span_chunk, number) == offsetof(struct span_chunk, next) + 8,
               "and the chunk's number behind its link");
_Static_assert(offsetof(struct metadata_block, before) == 0, "and this link first");
_Static_assert(offsetof(struct thread_cache, head) == 0, "and the lists of bins");

#define NOTE_SECTION(text) ".pushsection .note.primalloc,\"a\",%%note\n\t" text "\n\t.popsection"
#define NOTE(text) __asm__ volatile(NOTE_SECTION(text) :)
#define NOTE_OF(text, operand) __asm__ volatile(NOTE_SECTION(text) : : operand)
#define NOTE_ADDRESS(variable) NOTE_OF(".long " PRIM_BARE "0 - .", PRIM_ADDRESS_OF(variable))
#define NOTE_WORD(number) NOTE_OF(".long " PRIM_BARE "0", "i"(number))
#define NOTE_HALF(number) NOTE_OF(".short " PRIM_BARE "0", "i"(number))

/* Never called: a function is where the assembler can be told of what the compiler knows. */
static __attribute__((used)) PRIM_COLD void write_note(void) {
    NOTE(".balign 4\n\t.long 2f - 1f, 4f - 3f, 1\n"
         "1:\t.asciz \"primalloc\"\n"
         "2:\t.balign 4\n"
         "3:");
    NOTE_ADDRESS(&span_newest_chunk);
    NOTE_ADDRESS(size_classes);
    NOTE_ADDRESS(slab_shards);
    NOTE_ADDRESS(&thread_cache_active);
    NOTE_ADDRESS(&metadata_newest);
    NOTE_WORD(offsetof(struct span_chunk, next));
    NOTE_HALF(SLICE_SHIFT);
    NOTE_HALF(CHUNK_SHIFT);
    NOTE_HALF(sizeof(union span_slot));
    NOTE_HALF(offsetof(struct span, slice_count));
    NOTE_HALF(offsetof(struct span, used_count));
    NOTE_HALF(offsetof(struct span, state));
    NOTE_HALF(offsetof(struct span, object_class));
    NOTE_HALF(offsetof(struct span, bucket));
    NOTE_HALF(CLASS_COUNT);
    NOTE_HALF(SHARD_MAX);
    NOTE_HALF(offsetof(struct shard, rests));
    NOTE_HALF(sizeof(struct slab_set_rest));
    NOTE_HALF(offsetof(struct slab_set_rest, listed_count));
    NOTE_HALF(offsetof(struct thread_cache, next));
    NOTE_HALF(offsetof(struct thread_cache, room));
    NOTE_HALF(offsetof(struct thread_cache, in_use));
    NOTE_HALF(offsetof(struct thread_cache, bins));
    NOTE_HALF(offsetof(struct thread_cache, rest));
    NOTE_HALF(sizeof(struct bin));
    NOTE_HALF(offsetof(struct bin, capacity));
    NOTE_HALF(offsetof(struct bin, spare_count));
    NOTE_HALF(SMALL_CLASS_LAST);
    NOTE_HALF(FEW_BLOCKS);
    NOTE_HALF(METADATA_BLOCK_SIZE >> 10);
    NOTE_HALF(offsetof(struct thread_cache, sampler));
    NOTE_HALF(offsetof(struct thread_sampler, counted));
    NOTE_HALF(sizeof(struct counted));
    NOTE_HALF(offsetof(struct counted, given));
    NOTE_HALF(OPTION_COUNT);
    NOTE_HALF(sizeof(struct option_row));
    NOTE(".balign 4");
    NOTE_ADDRESS(option_rows);
    NOTE_ADDRESS(&option_texts);
    NOTE_ADDRESS(&options);
    NOTE_ADDRESS(option_sources);
    NOTE("4:");
}
