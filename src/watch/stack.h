/* stack.h - who called: the return addresses of the calling thread's stack, innermost first.
 *
 * By the unwind tables where the code has them, by frame pointers elsewhere. Takes no lock but one
 * of its own that it never waits for, allocates nothing, and reads only memory that is there: it
 * may be called anywhere, on small and foreign stacks, in signal handlers, while libraries come and
 * go. Rules are kept per address, so that a frame costs some tens of instructions the second time,
 * and ways through this library's own frames as a whole.
 *
 * Code without either (some hand-written assembler, machine code made at run time without frame
 * pointers) ends the walk. */
#ifndef PRIM_WATCH_STACK_H
#define PRIM_WATCH_STACK_H

#include "base/atomics.h"
#include "os/module.h"

/* Fills in at most max addresses and returns how many. Each has the index of its module (see
 * module.h) in the upper bits: it stays meaningful when libraries are unloaded and others take
 * their place. The first is that of who called this library; or the caller of this function, where
 * the library is linked into the program. Begins behind the frame that returns to `caller`, if
 * there is such a one: those before were the library's, too. */
unsigned stack_capture(uint64_t *frames, unsigned max, const void *caller);

enum { STACK_MODULE_SHIFT = 48 };

PRIM_INLINE uint64_t stack_frame(unsigned module, uintptr_t address) {
    return (uint64_t)module << STACK_MODULE_SHIFT | address;
}

PRIM_INLINE uintptr_t stack_frame_address(uint64_t frame) {
    return (uintptr_t)(frame & (((uint64_t)1 << STACK_MODULE_SHIFT) - 1));
}

PRIM_INLINE unsigned stack_frame_module(uint64_t frame) {
    return (unsigned)(frame >> STACK_MODULE_SHIFT);
}

/* To be called before the first capture, and again at will: notes what is loaded. Takes a lock of
 * the loader; for constructors, and functions that a program calls by name. */
void stack_prepare(void);

/* (atomic: route writer) Somebody adds a way through this library's frames. */
extern PRIM_HIDDEN _Atomic uint32_t stack_route_writer;

/* Who was adding one when the process forked is not in the child. */
PRIM_INLINE void stack_fork_child(void) {
    store_relaxed(&stack_route_writer, false);
}

#endif
