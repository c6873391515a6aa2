/* extent_tree.h - free spans ordered by size, then address: a treap threaded through descriptors.
 *
 * The heap order of the treap is a hash of the address, so its shape is random but reproducible;
 * searches take about 2 log2(n) steps. Nothing here locks or allocates. */
#ifndef PRIM_PAGES_EXTENT_TREE_H
#define PRIM_PAGES_EXTENT_TREE_H

#include "pages/span.h"

void extent_tree_insert(struct span **root, struct span *span);
void extent_tree_remove(struct span **root, struct span *span);

/* The smallest span of at least slice_count slices, at the lowest address among equals; or NULL. */
struct span *extent_tree_best_fit(struct span *root, size_t slice_count);

/* The last span before where one of this size at this address would stand; or NULL. */
struct span *extent_tree_before(struct span *root, size_t slice_count, uintptr_t address);

#endif
