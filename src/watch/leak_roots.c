/* leak_roots.c - see leak_roots.h. */
#include "watch/leak_roots.h"

#include <link.h>
#include <sys/auxv.h>

#include "base/bits.h"
#include "os/alone.h"
#include "os/memory.h"
#include "os/module.h"
#include "os/readable.h"
#include "os/suspend.h"
#include "os/text_file.h"
#include "os/thread.h"
#include "pages/span.h"

enum {
    RANGES_MAX = 64 << 10, /* more than Linux lets a process have, as a rule */
    RED_ZONE = 128,        /* below the stack pointer */
    LIBC_DATA = 64 << 10,  /* around a thread pointer, beside the modules' thread-local data */
    SLOTS_MAX = 100000,
};

struct range {
    uintptr_t start;
    uintptr_t end;
};

struct ranges {
    unsigned count;
    struct range list[RANGES_MAX];
};

/* Large: for mapped memory. */
struct search {
    struct leak_graph *graph;
    size_t local_size; /* of what lies around each thread pointer */
    struct suspension suspension;
    struct ranges globals;
    struct ranges mappings;
};

static void add(struct ranges *ranges, uintptr_t start, uintptr_t end) {
    if (ranges->count < RANGES_MAX && start < end) {
        ranges->list[ranges->count++] = (struct range){start, end};
    }
}

/* Whether it belongs to this library: never where that is linked into a program or another one. */
static bool is_own(uintptr_t address) {
    unsigned own = module_find((uintptr_t)&leak_roots_follow);
    return module_is_ours_alone && own && module_find(address) == own;
}

/* Writable segments, up to the end of their last page: the loader allocates behind its own. */
static int add_globals(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_TLS) {
            search->local_size += segment->p_memsz + segment->p_align;
        }
        bool is_data = segment->p_type == PT_LOAD && (segment->p_flags & PF_W);
        if (is_data && !is_own(start)) {
            add(&search->globals, start,
                bits_round_up(start + segment->p_memsz, memory_page_size()));
        }
    }
    return 0;
}

static uintptr_t read_address(struct text_file *file, int *behind) {
    uintptr_t value = 0;
    for (;;) {
        int byte = text_file_byte(file);
        int digit = byte >= '0' && byte <= '9' ? byte - '0' : byte - 'a' + 10;
        if (byte == TEXT_FILE_END || digit < 0 || digit > 15) {
            *behind = byte;
            return value;
        }
        value = value << 4 | (uintptr_t)digit;
    }
}

/* What is mapped and can be written to. What a stack holds that is left out would seem to leak:
 * returns what is missing, or NULL. */
static const char *read_mappings(struct ranges *ranges) {
    struct text_file file;
    if (!text_file_open(&file, "/proc/thread-self/maps")) {
        return "/proc/self/maps";
    }
    for (int byte = 0; byte != TEXT_FILE_END;) {
        uintptr_t start = read_address(&file, &byte);
        uintptr_t end = byte == '-' ? read_address(&file, &byte) : 0;
        if (byte == ' ' && text_file_byte(&file) == 'r' && text_file_byte(&file) == 'w') {
            add(ranges, start, end);
        }
        while (byte != '\n' && byte != TEXT_FILE_END) {
            byte = text_file_byte(&file);
        }
    }
    text_file_close(&file);
    return ranges->count == 0           ? "/proc/self/maps"
           : ranges->count < RANGES_MAX ? NULL
                                        : "room for so many mappings";
}

static struct range mapping_of(const struct ranges *mappings, uintptr_t address) {
    for (unsigned i = 0; i < mappings->count; i++) {
        if (mappings->list[i].start <= address && address < mappings->list[i].end) {
            return mappings->list[i];
        }
    }
    return (struct range){address, address};
}

static void follow(struct leak_graph *graph, uintptr_t start, uintptr_t end) {
    leak_graph_follow(graph, start, end, LEAK_REACHABLE);
}

/* A mapping may go on into our heap, which is not to be followed as a whole. */
static void follow_outside_heap(struct leak_graph *graph, uintptr_t start, uintptr_t end) {
    for (uintptr_t at = start; at < end;) {
        uintptr_t next = bits_min(bits_round_down(at, SLICE_SIZE) + SLICE_SIZE, end);
        const struct span *slice = span_of_slice(at);
        if (!slice || slice->address == 0) {
            follow(graph, at, next);
        }
        at = next;
    }
}

/* The table of the modules' thread-local blocks that were allocated for themselves. */
static void follow_slots(struct leak_graph *graph, uintptr_t thread_pointer) {
    uintptr_t *slots = ((uintptr_t **)thread_pointer)[THREAD_TABLE];
    if (slots && readable_page((uintptr_t)(slots - 2)) && slots[-2] < SLOTS_MAX) {
        follow(graph, (uintptr_t)slots, (uintptr_t)(slots + 2 * (slots[-2] + 1)));
    }
}

/* The stack that a thread is on; all of its own, whoever made it, if that is another one, as in a
 * coroutine or a signal's handler; and its thread-local data, which lie behind the own one, but for
 * the main thread. */
static void follow_thread(struct search *search, const struct suspended_thread *thread) {
    uintptr_t stack_pointer = thread->stack_pointer;
    uintptr_t pointer = thread->thread_pointer;
    struct range stack = mapping_of(&search->mappings, stack_pointer);
    struct range data = mapping_of(&search->mappings, pointer);
    struct range own = {data.start, bits_min(data.end, pointer + search->local_size)};
    if (thread->id == search->suspension.process) {
        data.start = bits_max(data.start, pointer - search->local_size);
        follow_outside_heap(search->graph, data.start, own.end);
        own = mapping_of(&search->mappings, getauxval(AT_RANDOM)); /* lies where it begins */
    }
    const struct span *slice = span_of_slice(stack_pointer);
    bool is_on_own = stack_pointer >= own.start && stack_pointer < own.end;
    if (slice && slice->address) { /* a stack in a block */
        follow(search->graph, (uintptr_t)&stack_pointer, (uintptr_t)(&stack_pointer + 1));
    } else {
        follow_outside_heap(search->graph, bits_max(stack.start, stack_pointer - RED_ZONE),
                            is_on_own ? own.end : stack.end);
    }
    if (!is_on_own) {
        follow_outside_heap(search->graph, own.start, own.end);
    }
    if (data.start != data.end) {
        follow_slots(search->graph, pointer);
    }
}

/* Called, not inlined, by whoever has put its caller's registers on the stack. */
static PRIM_NOINLINE void follow_own_stack(struct search *search) {
    struct suspended_thread self = {.id = search->suspension.caller,
                                    .stack_pointer = (uintptr_t)__builtin_frame_address(0),
                                    .thread_pointer = thread_mark()};
    follow_thread(search, &self);
}

static PRIM_NOINLINE void follow_all(struct search *search) {
    __builtin_unwind_init();
    for (unsigned i = 0; i < search->globals.count; i++) {
        follow(search->graph, search->globals.list[i].start, search->globals.list[i].end);
    }
    for (unsigned i = 0; i < search->suspension.count; i++) {
        const struct suspended_thread *thread = &search->suspension.threads[i];
        follow(search->graph, (uintptr_t)thread->registers,
               (uintptr_t)(thread->registers + SUSPEND_REGISTERS));
        follow_thread(search, thread);
    }
    follow_own_stack(search);
    __asm__ volatile("" ::: "memory");
}

PRIM_COLD bool leak_roots_follow(struct leak_graph *graph, const struct live_table *blocks,
                                 bool *are_threads_missed) {
    struct search *search = memory_map(sizeof *search);
    bool is_done = false;
    if (search) {
        search->graph = graph;
        search->local_size = LIBC_DATA;
        dl_iterate_phdr(add_globals, search);
        bool is_stopped = suspend_others(&search->suspension);
        *are_threads_missed = !is_stopped && !process_is_alone();
        graph->lacks = read_mappings(&search->mappings);
        is_done = !graph->lacks && leak_graph_make(graph, blocks);
        if (is_done) {
            follow_all(search);
        }
        if (is_stopped) {
            suspend_end(&search->suspension);
        }
        memory_unmap(search, sizeof *search);
    }
    return is_done;
}
