/* leak_roots.c - see leak_roots.h. */
#include "watch/leak_roots.h"

#include <link.h>

#include "base/bits.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/readable.h"
#include "os/suspend.h"
#include "os/text_file.h"
#include "pages/span.h"
#include "watch/profile.h"
#include "watch/stack.h"

enum {
    RANGES_MAX = 4096,
    RANGES_SIZE = 64 << 10,    /* RANGES_MAX of them */
    RED_ZONE = 128,            /* below the stack pointer */
    CONTROL_BLOCK_SIZE = 4096, /* of a thread: at most, with libc's own data */
    STATIC_TLS_MAX = 64 << 10, /* what lies before that of the main thread */
    SLOTS_MAX = 100000,
};

struct range {
    uintptr_t start;
    uintptr_t end;
};

struct ranges {
    struct range *list;
    unsigned count;
};

static void add(struct ranges *ranges, uintptr_t start, uintptr_t end) {
    if (ranges->count < RANGES_MAX && start < end) {
        ranges->list[ranges->count++] = (struct range){start, end};
    }
}

/* Writable segments, up to the end of their last page: the loader allocates behind its own. */
static int add_globals(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        bool is_data = segment->p_type == PT_LOAD && (segment->p_flags & PF_W);
        if (is_data && !(profile_own_module() && module_find(start) == profile_own_module())) {
            add(context, start, bits_round_up(start + segment->p_memsz, memory_page_size()));
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

/* What is mapped and can be written to. */
static void read_mappings(struct ranges *ranges) {
    struct text_file file;
    if (!text_file_open(&file, "/proc/thread-self/maps")) {
        return;
    }
    for (int byte = 0; byte != TEXT_FILE_END;) {
        uintptr_t start = read_address(&file, &byte);
        uintptr_t end = byte == '-' ? read_address(&file, &byte) : 0;
        bool is_readable = byte == ' ' && text_file_byte(&file) == 'r';
        bool is_writable = is_readable && text_file_byte(&file) == 'w';
        if (is_writable) {
            add(ranges, start, end);
        }
        while (byte != '\n' && byte != TEXT_FILE_END) {
            byte = text_file_byte(&file);
        }
    }
    text_file_close(&file);
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
    uintptr_t *slots = ((uintptr_t **)thread_pointer)[1];
    if (slots && readable_page((uintptr_t)(slots - 2)) && slots[-2] < SLOTS_MAX) {
        follow(graph, (uintptr_t)slots, (uintptr_t)(slots + 2 * (slots[-2] + 1)));
    }
}

/* A thread's stack and, behind it in the same mapping, its thread-local data; where they are apart
 * (the main thread, a stack of the program's own making) each for itself. */
static void follow_thread(struct leak_graph *graph, const struct ranges *mappings,
                          uintptr_t stack_pointer, uintptr_t thread_pointer) {
    struct range stack = mapping_of(mappings, stack_pointer);
    struct range data = mapping_of(mappings, thread_pointer);
    const struct span *slice = span_of_slice(stack_pointer);
    uintptr_t start = bits_max(stack.start, stack_pointer - RED_ZONE);
    uintptr_t data_end = bits_min(data.end, thread_pointer + CONTROL_BLOCK_SIZE);
    if (slice && slice->address) { /* a stack in a block */
        follow(graph, (uintptr_t)&stack_pointer, (uintptr_t)(&stack_pointer + 1));
    } else if (stack.start == data.start && stack_pointer < thread_pointer) {
        follow_outside_heap(graph, start, data_end);
    } else {
        follow_outside_heap(graph, start, stack.end);
    }
    if (stack.start != data.start && data.start != data.end) {
        start = bits_max(data.start, thread_pointer - STATIC_TLS_MAX);
        follow_outside_heap(graph, start, data_end);
    }
    if (data.start != data.end) {
        follow_slots(graph, thread_pointer);
    }
}

/* Called, not inlined, by whoever has put its caller's registers on the stack. */
static PRIM_NOINLINE void follow_own_stack(struct leak_graph *graph,
                                           const struct ranges *mappings) {
    follow_thread(graph, mappings, (uintptr_t)__builtin_frame_address(0),
                  suspend_own_thread_pointer());
}

static PRIM_NOINLINE void follow_all(struct leak_graph *graph, const struct ranges *globals,
                                     const struct ranges *mappings,
                                     const struct suspension *suspension) {
    __builtin_unwind_init();
    for (unsigned i = 0; i < globals->count; i++) {
        follow(graph, globals->list[i].start, globals->list[i].end);
    }
    for (unsigned i = 0; i < suspension->count; i++) {
        const struct suspended_thread *thread = &suspension->threads[i];
        follow(graph, (uintptr_t)thread->registers,
               (uintptr_t)(thread->registers + SUSPEND_REGISTERS));
        follow_thread(graph, mappings, thread->stack_pointer, thread->thread_pointer);
    }
    follow_own_stack(graph, mappings);
    __asm__ volatile("" ::: "memory");
}

PRIM_COLD bool leak_roots_follow(struct leak_graph *graph, const struct live_table *blocks,
                                 struct leak_roots *roots) {
    struct ranges globals = {memory_map(RANGES_SIZE), 0};
    struct ranges mappings = {memory_map(RANGES_SIZE), 0};
    struct suspension suspension = {0};
    bool is_done = false;
    if (globals.list && mappings.list) {
        dl_iterate_phdr(add_globals, &globals);
        bool is_stopped = suspend_others(&suspension);
        roots->are_threads_missed = !is_stopped;
        is_done = leak_graph_make(graph, blocks);
        if (is_done) {
            read_mappings(&mappings);
            follow_all(graph, &globals, &mappings, &suspension);
        }
        if (is_stopped) {
            suspend_end(&suspension);
        }
    }
    if (globals.list) {
        memory_unmap(globals.list, RANGES_SIZE);
    }
    if (mappings.list) {
        memory_unmap(mappings.list, RANGES_SIZE);
    }
    return is_done;
}
