/* process.h - the process around us: its environment, its output, its name. */
#ifndef PRIM_OS_PROCESS_H
#define PRIM_OS_PROCESS_H

#include "base/compiler.h"

/* The environment, or NULL while libc has not set it up yet or a set-user-ID program runs. */
char **process_environment(void);

/* Removes one variable from the environment, without libc's lock or allocation. */
void process_forget_variable(const char *name);

/* Whether an address lies near the calling thread's stack pointer: a guess. */
bool process_is_stack(uintptr_t address);

/* If standard error is closed now, nothing is ever written to it: whatever file the program opens
 * next would have its number. */
void process_note_error_output(void);

/* Writes the whole text to standard error in one system call. */
void process_write_error(const char *text, size_t length);

/* The line "primalloc: WHATREST" on standard error. */
void process_complain(const char *what, const char *rest);

/* Text to standard error, or to whom the program has named: for text that no lock of ours is
 * held for. Whoever sets a function does so before other threads print. */
typedef void process_output(const char *text, size_t length, void *context);
void process_set_output(process_output *output, void *context);
void process_write_output(const char *text, size_t length);

/* The process's number, as the kernel tells it. */
int process_number(void);

/* The same, of which a process that is confined does not ask the kernel. */
unsigned process_id(void);

/* From now on this process is ours; before the first call any is. Called when main begins, in a
 * fork's child, and before a process is confined; once it is, in the first two cases only. */
void process_note_home(void);
bool process_has_home(void);
/* Not so in a child that shares our memory (vfork), nor in one that only the kernel knows of. */
bool process_is_home(void);
/* Whether it is home, or a child that only the kernel knows of, which is home from then on, but not
 * vfork's. Who may not ask the kernel is taken for an owner, as that is safe, but home stays where
 * it was: a filter may allow no call by which either could learn its number. May set errno. */
bool process_owns_memory(void);
/* In a destructor of the library: the process, which is ending, ends with this status instead.
 * Returns where the other destructors, ours and others', can still have their turn. */
void process_exit_again(int status);

/* The program's short name, or "?" where libc does not tell. */
const char *process_program_name(void);

/* Answers a launcher that waits for a sign of life: request is "fd:device:inode" of a pipe. */
void process_answer_handshake(const char *request, const char *line, size_t length);

#endif
