/* module.h - which program or library an address belongs to, told without a lock.
 *
 * A table that only grows: each program or library that was ever found has one entry, which stays
 * when it is unloaded, and is found again when the same file, by its build ID, comes back to the
 * same place. Another that takes its place gets an entry of its own. glibc from 2.35 on is
 * asked for each address (_dl_find_object: no lock, safe in signal handlers and while libraries
 * come and go); elsewhere the table knows what module_note_all() found.
 *
 * Entries are claimed by an atomic count, written once and then marked complete. Nobody waits for
 * anybody, so that signal handlers and threads that fork may read and add. */
#ifndef PRIM_OS_MODULE_H
#define PRIM_OS_MODULE_H

#include "base/atomics.h"

enum { MODULES_MAX = 1024, MODULE_TEXTS = 2, BUILD_ID_MAX = 20 };

/* A segment of code, in whole pages. */
struct module_text {
    uintptr_t start; /* (const) 0: not known */
    uintptr_t end;   /* (const) */
    uint64_t offset; /* (const) of start in its file */
};

struct module {
    uintptr_t start;                       /* (const) first address */
    uintptr_t end;                         /* (const) address behind the last */
    uintptr_t bias;                        /* (const) what is added to its file's addresses */
    struct module_text text[MODULE_TEXTS]; /* (const) the first ones */
    const uint8_t *table;                  /* (const) its .eh_frame_hdr, or NULL */
    const void *_Atomic identity;          /* (atomic: hint) the loader's latest entry for it */
    uint64_t name_hash;                    /* (const) of the loader's name for it */
    const char *path;                      /* (const) "" for the program, or if it does not fit */
    uint8_t build_id[BUILD_ID_MAX];        /* (const) */
    uint8_t build_id_length;               /* (const) 0: none */
    bool is_permanent;                     /* (const) was there at the start: stays to the end */
    uint16_t build_id_offset;              /* (const) in its first page; 0: not there */
};

/* Whether this library is a file of its own, so that all of its module is ours: start_main.c says
 * so. An archive is a part of a program or of another library: start_constructor.c. */
extern PRIM_HIDDEN const bool module_is_ours_alone;

/* Index of the module of this address, 0 if there is none or no room for another one. Indices go
 * from 1 to module_count(). */
unsigned module_find(uintptr_t address);

/* The same for an address that belonged to this module a while ago: quick if it still does. */
unsigned module_find_again(uintptr_t address, unsigned index);

unsigned module_count(void);
const struct module *module_at(unsigned index);

/* Whether it is the program, or its first part: nobody is before module_note_all(). */
bool module_is_program(const struct module *module);

/* Whether the entry can be read: always, for an index that module_find() returned; of those up to
 * module_count() another thread may be writing one. */
bool module_is_complete(unsigned index);

/* Enters all that is loaded now; takes the loader's lock. What is found by the first call, in a
 * constructor, counts as permanent. */
void module_note_all(void);

#endif
