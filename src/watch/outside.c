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

#define PLACE(structure, member) "i"(offsetof(struct structure, member))

/* Never called: a function is where the assembler can be told of what the compiler knows. */
static __attribute__((used)) PRIM_COLD void write_note(void) {
    __asm__ volatile(".pushsection .note.primalloc,\"a\",%%note\n\t"
                     ".balign 4\n\t"
                     ".long 2f - 1f, 4f - 3f, 1\n"
                     "1:\t.asciz \"primalloc\"\n"
                     "2:\t.balign 4\n"
                     "3:\t.long %c0 - ., %c1 - ., %c2 - ., %c3 - ., %c4 - ., %c5\n\t"
                     ".short %c6, %c7, %c8, %c9, %c10, %c11, %c12, %c13\n\t"
                     ".popsection"
                     :
                     : PRIM_ADDRESS_OF(&span_newest_chunk), PRIM_ADDRESS_OF(size_classes),
                       PRIM_ADDRESS_OF(slab_shards), PRIM_ADDRESS_OF(&thread_cache_active),
                       PRIM_ADDRESS_OF(&metadata_newest), PLACE(span_chunk, next), "i"(SLICE_SHIFT),
                       "i"(CHUNK_SHIFT), "i"(sizeof(union span_slot)), PLACE(span, slice_count),
                       PLACE(span, used_count), PLACE(span, state), PLACE(span, object_class),
                       PLACE(span, bucket));
    __asm__ volatile(".pushsection .note.primalloc\n\t"
                     ".short %c0, %c1, %c2, %c3, %c4\n\t"
                     ".popsection"
                     :
                     : "i"(CLASS_COUNT), "i"(SHARD_MAX), PLACE(shard, rests),
                       "i"(sizeof(struct slab_set_rest)), PLACE(slab_set_rest, listed_count));
    __asm__ volatile(
        ".pushsection .note.primalloc\n\t"
        ".short %c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7, %c8, %c9\n\t"
        ".short %c10, %c11, %c12, %c13, %c14\n"
        ".popsection"
        :
        : PLACE(thread_cache, next), PLACE(thread_cache, room), PLACE(thread_cache, in_use),
          PLACE(thread_cache, bins), PLACE(thread_cache, rest), "i"(sizeof(struct bin)),
          PLACE(bin, capacity), PLACE(bin, spare_count), "i"(SMALL_CLASS_LAST), "i"(FEW_BLOCKS),
          "i"(METADATA_BLOCK_SIZE >> 10), PLACE(thread_cache, sampler),
          PLACE(thread_sampler, counted), "i"(sizeof(struct counted)), PLACE(counted, given));
    __asm__ volatile(".pushsection .note.primalloc\n\t"
                     ".short %c0, %c1\n\t"
                     ".balign 4\n\t"
                     ".long %c2 - ., %c3 - ., %c4 - ., %c5 - .\n"
                     "4:\t.popsection"
                     :
                     : "i"(OPTION_COUNT), "i"(sizeof(struct option_row)),
                       PRIM_ADDRESS_OF(option_rows), PRIM_ADDRESS_OF(&option_texts),
                       PRIM_ADDRESS_OF(&options), PRIM_ADDRESS_OF(option_sources));
}
