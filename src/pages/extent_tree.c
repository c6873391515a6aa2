/* extent_tree.c - see extent_tree.h. */
#include "pages/extent_tree.h"

#include "base/assert.h"

static uint32_t priority(const struct span *span) {
    return (uint32_t)(((uint64_t)(span->address >> SLICE_SHIFT) * 0x9E3779B97F4A7C15u) >> 32);
}

static bool is_before(const struct span *a, const struct span *b) {
    if (a->slice_count != b->slice_count) {
        return a->slice_count < b->slice_count;
    }
    return a->address < b->address;
}

/* Splits a tree into what lies before and what lies after the pivot. */
static void split(struct span *tree, const struct span *pivot, struct span **before,
                  struct span **after) {
    while (tree) {
        if (is_before(tree, pivot)) {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        } else {
            *after = tree;
            after = &tree->left;
            tree = tree->left;
        }
    }
    *before = NULL;
    *after = NULL;
}

void extent_tree_insert(struct span **root, struct span *span) {
    uint32_t rank = priority(span);
    while (*root && priority(*root) >= rank) {
        root = is_before(*root, span) ? &(*root)->right : &(*root)->left;
    }
    split(*root, span, &span->left, &span->right);
    *root = span;
}

void extent_tree_remove(struct span **root, struct span *span) {
    while (*root != span) {
        PRIM_ASSERT(*root != NULL);
        root = is_before(*root, span) ? &(*root)->right : &(*root)->left;
    }
    struct span *left = span->left;
    struct span *right = span->right;
    while (left && right) {
        if (priority(left) >= priority(right)) {
            *root = left;
            root = &left->right;
            left = left->right;
        } else {
            *root = right;
            root = &right->left;
            right = right->left;
        }
    }
    *root = left ? left : right;
}

struct span *extent_tree_best_fit(struct span *root, size_t slice_count) {
    struct span *best = NULL;
    while (root) {
        if (root->slice_count >= slice_count) {
            best = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return best;
}

struct span *extent_tree_before(struct span *root, size_t slice_count, uintptr_t address) {
    struct span *last = NULL;
    while (root) {
        if (root->slice_count < slice_count ||
            (root->slice_count == slice_count && root->address < address)) {
            last = root;
            root = root->right;
        } else {
            root = root->left;
        }
    }
    return last;
}
