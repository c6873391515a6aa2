/* tag.h - thread tags (prim_tag_push): memory attributed to parts of a program.
 *
 * A tag is a name with an arena of its own, of kind ARENA_TAG; it never ends. Each thread has a
 * stack of tags, in its cache. While one is in force its visible cache is the empty one, so that
 * its calls come by the slow door, where the tag's arena serves them. Free knows nothing of tags:
 * as with every arena, it finds the owner by the block. Hence a block keeps its tag when realloc
 * makes it greater, and others take part in no count of anybody's.
 *
 * Tags are numbered from 1 in a table by hash of their names: entries are added with a release, and
 * never change. In a hardened heap tags are known by name, but attribute nothing: its blocks are
 * better guarded where they are. */
#ifndef PRIM_OBJECTS_TAG_H
#define PRIM_OBJECTS_TAG_H

#include "base/atomics.h"

enum { TAG_COUNT_MAX = 256 };

struct arena;

extern PRIM_HIDDEN _Atomic bool tag_was_used; /* (atomic: hint) a tag exists */

/* Puts a name in force for the calling thread; NULL or an empty one: no tag. False if that failed:
 * then the one before stays in force, but a pop belongs to this push as well. */
bool tag_push(const char *name);

/* Takes back what the last push did that was not yet taken back, if there is one. */
void tag_pop(void);

/* The number of the tag in force; 0: none. And the name of a number; empty if there is none. */
unsigned tag_now(void);
const char *tag_name(unsigned tag);

/* Who serves the calling thread's calls; NULL: the default heap. */
struct arena *tag_arena_now(void);

PRIM_INLINE struct arena *tag_arena(void) {
    return PRIM_UNLIKELY(load_relaxed(&tag_was_used)) ? tag_arena_now() : NULL;
}

#endif
