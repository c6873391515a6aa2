/* A treap ordered by address with a pool of nodes; one lock protects it. */
#include "model/live_map.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "support/support.h"

struct node {
    uintptr_t start;
    size_t size;
    uint64_t priority;
    struct node *left;
    struct node *right;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *root;
static struct node *pool;
static size_t pool_count;
static struct random priorities = {1};

void live_map_create(size_t capacity) {
    struct node *nodes = mmap(NULL, capacity * sizeof *nodes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(nodes != MAP_FAILED, "no memory for a map of %zu ranges", capacity);
    root = NULL;
    pool = NULL;
    for (size_t i = capacity; i > 0; i--) {
        nodes[i - 1].right = pool;
        pool = &nodes[i - 1];
    }
    pool_count = 0;
}

/* Splits tree into the ranges that begin below start and the others. */
static void split(struct node *tree, uintptr_t start, struct node **below, struct node **above) {
    if (tree == NULL) {
        *below = NULL;
        *above = NULL;
    } else if (tree->start < start) {
        split(tree->right, start, &tree->right, above);
        *below = tree;
    } else {
        split(tree->left, start, below, &tree->left);
        *above = tree;
    }
}

static struct node *merge(struct node *below, struct node *above) {
    if (below == NULL || above == NULL) {
        return below == NULL ? above : below;
    }
    if (below->priority > above->priority) {
        below->right = merge(below->right, above);
        return below;
    }
    above->left = merge(below, above->left);
    return above;
}

/* The last range that begins at or below address. */
static struct node *floor_of(uintptr_t address) {
    struct node *best = NULL;
    struct node *node = root;
    while (node != NULL) {
        if (node->start <= address) {
            best = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return best;
}

static void insert(struct node *fresh) {
    struct node **link = &root;
    while (*link != NULL && (*link)->priority > fresh->priority) {
        link = fresh->start < (*link)->start ? &(*link)->left : &(*link)->right;
    }
    struct node *rest = *link;
    split(rest, fresh->start, &fresh->left, &fresh->right);
    *link = fresh;
}

const void *live_map_add(const void *start, size_t size, size_t *overlapped_size) {
    uintptr_t address = (uintptr_t)start;
    if (size == 0) {
        size = 1;
    }
    pthread_mutex_lock(&lock);
    struct node *neighbour = floor_of(address + size - 1);
    if (neighbour != NULL && neighbour->start + neighbour->size > address) {
        const void *overlapped = (const void *)neighbour->start;
        *overlapped_size = neighbour->size;
        pthread_mutex_unlock(&lock);
        return overlapped;
    }
    struct node *fresh = pool;
    CHECK(fresh != NULL, "the map is full with %zu ranges", pool_count);
    pool = fresh->right;
    *fresh = (struct node){address, size, random_next(&priorities), NULL, NULL};
    insert(fresh);
    pool_count++;
    pthread_mutex_unlock(&lock);
    return NULL;
}

size_t live_map_remove(const void *start) {
    uintptr_t address = (uintptr_t)start;
    size_t size = 0;
    pthread_mutex_lock(&lock);
    struct node **link = &root;
    while (*link != NULL && (*link)->start != address) {
        link = address < (*link)->start ? &(*link)->left : &(*link)->right;
    }
    struct node *found = *link;
    if (found != NULL) {
        size = found->size;
        *link = merge(found->left, found->right);
        found->right = pool;
        pool = found;
        pool_count--;
    }
    pthread_mutex_unlock(&lock);
    return size;
}

size_t live_map_count(void) {
    pthread_mutex_lock(&lock);
    size_t count = pool_count;
    pthread_mutex_unlock(&lock);
    return count;
}
