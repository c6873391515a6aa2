/* misuse.cc - little programs with one fault each: misuse NAME runs one, misuse --list tells all,
 * each with the sentence that a report says of it. tests/preload/test_misuse.py runs them at every
 * level of checks. Each prints "survived" if it comes to its end. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>
#include <thread>

#define DOUBLE_FREE "double free: this block is free already"
#define REALLOC_FREED "realloc of a block that was freed"
#define INTERIOR "this pointer leads into a block, not to its beginning"
#define INVALID "this pointer leads into the heap, but to no block"
#define FOREIGN "this memory is not from the heap"
#define WRONG_SIZE "the size stated is not the block's"
#define WRONG_ALIGNMENT "the alignment stated is not the block's"
#define WRONG_FUNCTION "this function does not go with the one that allocated the block"
#define UNDERRUN "memory before the block was overwritten"
#define OVERRUN "memory behind the block was overwritten"
#define USE_AFTER_FREE "the block was written to after it was freed"

extern "C" {
__attribute__((weak)) void free_sized(void *block, size_t size);
__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);
__attribute__((weak)) void *prim_heap_new();
__attribute__((weak)) void prim_heap_destroy(void *heap);
__attribute__((weak)) void *prim_heap_malloc(void *heap, size_t size);
__attribute__((weak)) void *prim_heap_realloc(void *heap, void *block, size_t size);
__attribute__((weak)) void *prim_heap_malloc_aligned_at(void *heap, size_t size, size_t alignment,
                                                        size_t offset);
}

/* The compiler must neither see through what is done here nor leave it out. */
static char *take(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return static_cast<char *>(block);
}

static void write(char *where, size_t size = 1) {
    for (size_t i = 0; i < size; i++) {
        static_cast<volatile char *>(where)[i] = 'X';
    }
}

static void drop(void *block) {
    free(take(block));
}

struct misuse {
    const char *name;
    const char *sentence;
    void (*run)();
};

static int variable[16];

/* A block of a heap that has others, too. */
static char *take_from(void *heap, size_t size) {
    take(prim_heap_malloc(heap, 40));
    return take(prim_heap_malloc(heap, size));
}

static const misuse all[] = {
    {"double_free", DOUBLE_FREE,
     [] {
         char *block = take(malloc(100));
         drop(block);
         drop(block);
     }},
    {"double_free_later", DOUBLE_FREE,
     [] {
         char *block = take(malloc(40));
         drop(block);
         for (int i = 0; i < 1000; i++) {
             drop(malloc(static_cast<size_t>(i)));
         }
         drop(block);
     }},
    {"double_free_large", DOUBLE_FREE,
     [] {
         char *block = take(malloc(900000));
         drop(block);
         drop(block);
     }},
    {"double_free_of_calloc", DOUBLE_FREE,
     [] {
         char *block = take(calloc(3, 5));
         drop(block);
         drop(block);
     }},
    {"double_free_in_two_threads", DOUBLE_FREE,
     [] {
         char *block = take(malloc(64));
         std::thread([block] { drop(block); }).join();
         drop(block);
     }},
    {"double_delete", DOUBLE_FREE,
     [] {
         char *block = take(operator new(24));
         operator delete(take(block));
         operator delete(take(block));
     }},
    {"double_delete_array", DOUBLE_FREE,
     [] {
         char *block = take(operator new[](24));
         operator delete[](take(block));
         operator delete[](take(block));
     }},
    {"free_after_realloc_moved", DOUBLE_FREE,
     [] {
         char *block = take(malloc(100));
         char *moved = take(realloc(block, 100000));
         drop(block);
         drop(moved);
     }},
    {"free_after_realloc_to_nothing", DOUBLE_FREE,
     [] {
         char *block = take(malloc(100));
         take(realloc(block, 0));
         drop(block);
     }},
    {"realloc_of_freed", REALLOC_FREED,
     [] {
         char *block = take(malloc(100));
         drop(block);
         if (take(realloc(take(block), 200))) {
             puts("realloc gave a block");
         }
     }},
    {"realloc_of_freed_large", REALLOC_FREED,
     [] {
         char *block = take(malloc(500000));
         drop(block);
         if (take(realloc(take(block), 1000000))) {
             puts("realloc gave a block");
         }
     }},
    {"free_inside", INTERIOR, [] { drop(take(malloc(100)) + 8); }},
    {"free_one_beyond_start", INTERIOR, [] { drop(take(malloc(100)) + 1); }},
    {"free_inside_large", INTERIOR, [] { drop(take(malloc(3000000)) + 1500000); }},
    {"free_before_block", INVALID, [] { drop(take(malloc(100)) - 16); }},
    {"free_behind_block", INVALID, [] { drop(take(malloc(100)) + 100); }},
    {"free_behind_last_block_of_slab", INVALID,
     [] {
         auto place = reinterpret_cast<uintptr_t>(take(malloc(100))); /* 144 with zones */
         drop(reinterpret_cast<void *>((place | 16383) - 15));
     }},
    {"free_beside_blocks", INVALID, [] { drop(take(malloc(100)) + 1024); }},
    {"free_inside_aligned", INTERIOR, [] { drop(take(aligned_alloc(4096, 5000)) + 64); }},
    {"free_inside_freed", INTERIOR,
     [] {
         char *block = take(malloc(64));
         drop(block);
         drop(block + 32);
     }},
    {"realloc_inside", INTERIOR,
     [] {
         if (take(realloc(take(malloc(100)) + 16, 50))) {
             puts("realloc gave a block");
         }
     }},
    {"delete_inside_array", INTERIOR, [] { operator delete[](take(operator new[](80)) + 8); }},
    {"free_of_stack", FOREIGN,
     [] {
         char local[64];
         drop(local + 16);
     }},
    {"free_of_static", FOREIGN, [] { drop(variable); }},
    {"free_of_text", FOREIGN, [] { drop(const_cast<char *>("a text")); }},
    {"free_of_number", FOREIGN, [] { drop(reinterpret_cast<void *>(uintptr_t{0x12340})); }},
    {"realloc_of_static", FOREIGN,
     [] {
         if (take(realloc(take(variable), 100))) {
             puts("realloc gave a block");
         }
     }},
    {"sized_delete_too_small", WRONG_SIZE,
     [] { operator delete (take(operator new(100)), size_t{50}); }},
    {"sized_delete_too_large", WRONG_SIZE,
     [] { operator delete (take(operator new(100)), size_t{200}); }},
    {"sized_delete_array", WRONG_SIZE,
     [] { operator delete[](take(operator new[](100)), size_t{99}); }},
    {"free_sized_wrong", WRONG_SIZE, [] { free_sized(take(malloc(100)), 101); }},
    {"free_aligned_sized_wrong_size", WRONG_SIZE,
     [] { free_aligned_sized(take(aligned_alloc(64, 128)), 64, 64); }},
    {"free_aligned_sized_wrong_alignment", WRONG_ALIGNMENT,
     [] { free_aligned_sized(take(aligned_alloc(64, 128)), 32, 128); }},
    {"aligned_delete_of_plain", WRONG_ALIGNMENT,
     [] { operator delete (take(operator new(64)), std::align_val_t{64}); }},
    {"plain_delete_of_aligned", WRONG_ALIGNMENT,
     [] { operator delete(take(operator new (64, std::align_val_t{64}))); }},
    {"delete_of_malloc", WRONG_FUNCTION, [] { operator delete(take(malloc(100))); }},
    {"free_of_new", WRONG_FUNCTION, [] { drop(operator new(100)); }},
    {"delete_of_array", WRONG_FUNCTION, [] { operator delete(take(operator new[](100))); }},
    {"delete_array_of_new", WRONG_FUNCTION, [] { operator delete[](take(operator new(100))); }},
    {"realloc_of_new", WRONG_FUNCTION, [] { drop(realloc(take(operator new(100)), 200)); }},
    {"realloc_of_aligned_new", WRONG_FUNCTION,
     [] { drop(realloc(take(operator new (100, std::align_val_t{64})), 200)); }},
    {"realloc_of_array", WRONG_FUNCTION, [] { drop(realloc(take(operator new[](100)), 50)); }},
    {"free_of_array", WRONG_FUNCTION, [] { drop(operator new[](100)); }},
    {"delete_array_of_malloc", WRONG_FUNCTION, [] { operator delete[](take(malloc(100))); }},
    {"underrun", UNDERRUN,
     [] {
         char *block = take(malloc(100));
         write(block - 1);
         drop(block);
     }},
    {"underrun_of_array", UNDERRUN,
     [] {
         char *block = take(operator new[](100));
         write(block - 8, 8);
         operator delete[](block);
     }},
    {"underrun_of_aligned", UNDERRUN,
     [] {
         char *block = take(aligned_alloc(256, 256));
         write(block - 4);
         drop(block);
     }},
    {"underrun_found_by_realloc", UNDERRUN,
     [] {
         char *block = take(malloc(100));
         write(block - 3);
         drop(realloc(block, 200));
     }},
    {"overrun_by_one", OVERRUN,
     [] {
         char *block = take(malloc(100));
         write(block + 100);
         drop(block);
     }},
    {"overrun_by_one_of_round_size", OVERRUN,
     [] {
         char *block = take(malloc(64));
         write(block + 64);
         drop(block);
     }},
    {"overrun_by_terminator", OVERRUN,
     [] {
         char *block = take(malloc(5));
         strcpy(block, take(const_cast<char *>("12345")));
         drop(block);
     }},
    {"overrun_of_nothing", OVERRUN,
     [] {
         char *block = take(malloc(0));
         write(block);
         drop(block);
     }},
    {"overrun_of_large", OVERRUN,
     [] {
         char *block = take(malloc(400000));
         write(block + 400003);
         drop(block);
     }},
    {"overrun_of_calloc", OVERRUN,
     [] {
         char *block = take(calloc(10, 10));
         write(block + 104);
         drop(block);
     }},
    {"overrun_found_by_realloc", OVERRUN,
     [] {
         char *block = take(malloc(100));
         write(block + 100, 4);
         drop(realloc(block, 300));
     }},
    {"overrun_found_at_exit", OVERRUN, [] { write(take(malloc(100)) + 101); }},
    {"overrun_of_new", OVERRUN,
     [] {
         char *block = take(operator new(33));
         write(block + 33);
         operator delete(block);
     }},
    {"overrun_in_heap", OVERRUN,
     [] {
         char *block = take_from(prim_heap_new(), 100);
         write(block + 100);
         drop(block);
     }},
    {"overrun_in_heap_found_at_its_end", OVERRUN,
     [] {
         void *heap = prim_heap_new();
         write(take_from(heap, 20000) + 20000);
         prim_heap_destroy(heap);
     }},
    {"overrun_in_heap_of_aligned", OVERRUN,
     [] {
         char *block = take(prim_heap_malloc_aligned_at(prim_heap_new(), 100, 64, 8));
         write(block + 100);
         drop(block);
     }},
    {"underrun_in_heap_found_by_realloc", UNDERRUN,
     [] {
         void *heap = prim_heap_new();
         char *block = take_from(heap, 100);
         write(block - 1);
         drop(prim_heap_realloc(heap, block, 300));
     }},
    {"double_free_in_heap", INVALID,
     [] {
         char *block = take_from(prim_heap_new(), 100);
         drop(block);
         drop(block);
     }},
    {"free_inside_block_of_heap", INVALID, [] { drop(take_from(prim_heap_new(), 100) + 8); }},
    {"free_before_block_of_heap", INVALID, [] { drop(take_from(prim_heap_new(), 100) - 16); }},
    {"delete_in_heap", WRONG_FUNCTION, [] { operator delete(take_from(prim_heap_new(), 100)); }},
    {"write_after_free", USE_AFTER_FREE,
     [] {
         char *block = take(malloc(100));
         drop(block);
         write(block + 10);
     }},
    {"write_after_free_of_large", USE_AFTER_FREE,
     [] {
         char *block = take(malloc(600000));
         drop(block);
         write(block + 5000);
     }},
    {"write_after_delete", USE_AFTER_FREE,
     [] {
         char *block = take(operator new(48));
         operator delete(block);
         write(block, 8);
     }},
    {"write_after_realloc_moved", USE_AFTER_FREE,
     [] {
         char *block = take(malloc(100));
         char *moved = take(realloc(block, 50000));
         write(take(block));
         drop(moved);
     }},
    {"write_after_free_seen_in_use", USE_AFTER_FREE,
     [] {
         char *block = take(malloc(1000));
         drop(block);
         write(block + 999);
         for (int i = 0; i < 40; i++) {
             drop(malloc(1000000));
         }
     }},
};

int main(int count, char **words) {
    bool is_list = count == 2 && strcmp(words[1], "--list") == 0;
    bool is_known = is_list;
    for (const misuse &one : all) {
        if (is_list) {
            printf("%s\t%s\n", one.name, one.sentence);
        } else if (count == 2 && strcmp(words[1], one.name) == 0) {
            is_known = true;
            one.run();
            puts("survived");
        }
    }
    return is_known ? 0 : 2;
}
