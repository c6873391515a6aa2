/* module.c - see module.h. */
#include "os/module.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/bits.h"
#include "os/memory.h"

#pragma weak dlsym /* not in fully static programs, which load nothing */

/* What glibc 2.35 fills in; its own header may be older. */
struct found_object {
    unsigned long long flags;
    void *start;
    void *end;
    struct link_map *link_map;
    void *table;
    unsigned long long reserved[11];
};

/* Looked up by name, so that a library built on this system runs on older ones. */
typedef int object_finder(void *address, struct found_object *result);
static _Atomic(object_finder *) finder; /* (atomic: hint) _dl_find_object; NULL: there is none */

typedef Elf64_Phdr program_header;

enum { PATHS_SIZE = 64 << 10, NOTE_BUILD_ID = 3 };

static PRIM_FAR struct module
    modules[MODULES_MAX + 1]; /* (const once complete) the first is unused */
static PRIM_FAR _Atomic bool is_complete[MODULES_MAX + 1]; /* (atomic: modules) entries */
static _Atomic unsigned claimed_count; /* (atomic: counter) may exceed MODULES_MAX by late comers */
static PRIM_FAR char paths[PATHS_SIZE]; /* (const once claimed) names, terminated */
static _Atomic size_t paths_claimed;    /* (atomic: counter) bytes; may exceed PATHS_SIZE as well */
static _Atomic bool is_starting;        /* (atomic: hint) what is found now is permanent */

/* (atomic: modules) The whole of the program, once the end is not 0. Where gaps lie between its
 * segments, as before those that an optimiser of binaries adds, each is an object of its own to the
 * finder. */
static _Atomic uintptr_t program_start, program_end;

unsigned module_count(void) {
    return bits_min(load_relaxed(&claimed_count), MODULES_MAX);
}

bool module_is_complete(unsigned index) {
    return load_acquire(&is_complete[index]); /* order pair: modules */
}

const struct module *module_at(unsigned index) {
    return &modules[index];
}

bool module_is_program(const struct module *module) {
    return module->start == load_relaxed(&program_start);
}

static uint64_t hash_of_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325;
    for (; name && *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    }
    return hash;
}

/* An entry of the same place, for what the loader calls the same. */
static bool is_alike(unsigned index, const struct module *wanted) {
    const struct module *module = &modules[index];
    return module_is_complete(index) && module->start == wanted->start &&
           module->end == wanted->end && module->table == wanted->table &&
           module->name_hash == wanted->name_hash;
}

/* Whether what is in a module's place has its build ID still. Another file may be alike in all
 * else, as the loader's entry for it may come to lie where that of the first one was. */
static bool has_build_id(const struct module *module) {
    size_t offset = module->build_id_offset;
    return offset == 0 || memcmp((const uint8_t *)module->start + offset, module->build_id,
                                 module->build_id_length) == 0;
}

static void read_notes(struct module *module, uintptr_t note, uintptr_t end) {
    while (note + sizeof(ElfW(Nhdr)) < end) {
        const ElfW(Nhdr) *entry = (const ElfW(Nhdr) *)note;
        const uint8_t *text = (const uint8_t *)(entry + 1) + bits_round_up(entry->n_namesz, 4);
        if (entry->n_type == NOTE_BUILD_ID && entry->n_namesz == 4 &&
            entry->n_descsz <= BUILD_ID_MAX && memcmp(entry + 1, "GNU", 4) == 0) {
            memcpy(module->build_id, text, entry->n_descsz);
            module->build_id_length = (uint8_t)entry->n_descsz;
            uintptr_t offset = (uintptr_t)text - module->start;
            module->build_id_offset = offset < PAGE_LEAST - BUILD_ID_MAX ? (uint16_t)offset : 0;
        }
        note = (uintptr_t)text + bits_round_up(entry->n_descsz, 4);
    }
}

static void read_segment(struct module *module, const program_header *segment) {
    uintptr_t start = module->bias + segment->p_vaddr;
    uintptr_t end = start + segment->p_filesz;
    if (start < module->start || end > module->end) {
        return;
    }
    if (segment->p_type == PT_NOTE) {
        read_notes(module, start, end);
    } else if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
        struct module_text *text = &module->text[module->text[0].start != 0];
        if (!text->start) {
            uintptr_t before = start % PAGE_LEAST;
            *text = (struct module_text){.start = start - before,
                                         .end = bits_round_up(end, PAGE_LEAST),
                                         .offset = segment->p_offset - before};
        }
    }
}

/* In memory: the first page holds the headers of everything that a linker makes. */
static void read_headers(struct module *module) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)module->start;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > PAGE_LEAST) {
        return;
    }
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(module->start + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        read_segment(module, &segments[i]);
    }
}

static const char *keep_path(const char *name) {
    size_t size = name && *name ? strlen(name) + 1 : 0;
    size_t place = add_relaxed(&paths_claimed, size);
    return size && place + size <= PATHS_SIZE ? memcpy(paths + place, name, size) : "";
}

static unsigned index_of(const struct module *wanted) {
    const void *identity = load_relaxed(&wanted->identity);
    unsigned index = module_count();
    while (index &&
           !(is_alike(index, wanted) && load_relaxed(&modules[index].identity) == identity &&
             has_build_id(&modules[index]))) {
        index--;
    }
    return index;
}

/* What came back by another dlopen is the same if its build ID is. */
static unsigned index_of_file(const struct module *wanted) {
    size_t length = wanted->build_id_length;
    unsigned index = length ? module_count() : 0;
    while (index && !(is_alike(index, wanted) && modules[index].build_id_length == length &&
                      memcmp(modules[index].build_id, wanted->build_id, length) == 0)) {
        index--;
    }
    return index;
}

/* Threads that add the same one at the same moment make two entries of it, which does no harm: both
 * say the same, and from then on one of them is found. A lock would be worse: whoever holds it may
 * sleep in a page fault while another thread forks, or be what a signal handler interrupted. */
static PRIM_COLD unsigned add(struct module *found, const char *name) {
    read_headers(found);
    unsigned index = index_of_file(found);
    if (index) {
        store_relaxed(&modules[index].identity, load_relaxed(&found->identity));
        return index;
    }
    if (load_relaxed(&claimed_count) >= MODULES_MAX) {
        return 0;
    }
    index = add_relaxed(&claimed_count, 1) + 1;
    if (index > MODULES_MAX) {
        return 0;
    }
    found->path = keep_path(name);
    found->is_permanent = load_relaxed(&is_starting);
    memcpy(&modules[index], found, sizeof *found);
    store_release(&is_complete[index], true); /* order pair: modules */
    return index;
}

static unsigned find_or_add(struct module *found, const char *name) {
    unsigned index = index_of(found);
    return PRIM_LIKELY(index) ? index : add(found, name);
}

static unsigned find_by_table(uintptr_t address) {
    unsigned index = module_count();
    while (index && !(module_is_complete(index) && modules[index].start <= address &&
                      address < modules[index].end)) {
        index--;
    }
    return index;
}

/* Whether the object of this name and address is the program; says where that is. */
static bool is_program(const char *name, uintptr_t address, struct module *program) {
    program->end = load_acquire(&program_end); /* order pair: modules */
    program->start = load_relaxed(&program_start);
    return *name == '\0' && program->start <= address && address < program->end;
}

PRIM_COLD unsigned module_find(uintptr_t address) {
    object_finder *find_object = load_relaxed(&finder);
    if (!find_object) {
        return find_by_table(address);
    }
    struct found_object object;
    if (find_object((void *)address, &object) != 0) {
        return 0;
    }
    const char *name = object.link_map->l_name;
    struct module found = {.bias = object.link_map->l_addr,
                           .table = object.table,
                           .identity = object.link_map,
                           .name_hash = hash_of_name(name)};
    if (!is_program(name, address, &found)) {
        found.start = (uintptr_t)object.start;
        found.end = (uintptr_t)object.end;
    }
    return find_or_add(&found, name);
}

/* By the name itself, which is compared quicker, where there was room to keep it. */
static bool has_name(const struct module *module, const char *name) {
    return module->path[0] ? strcmp(module->path, name) == 0
                           : hash_of_name(name) == module->name_hash;
}

unsigned module_find_again(uintptr_t address, unsigned index) {
    const struct module *module = &modules[index];
    object_finder *find_object = load_relaxed(&finder);
    if (PRIM_LIKELY(module->is_permanent) || !find_object) {
        return index;
    }
    struct found_object object;
    if (find_object((void *)address, &object) == 0 && (uintptr_t)object.start == module->start &&
        (uintptr_t)object.end == module->end &&
        object.link_map == load_relaxed(&module->identity) && object.table == module->table &&
        has_name(module, object.link_map->l_name) && has_build_id(module)) {
        return index;
    }
    return module_find(address);
}

static PRIM_COLD int note(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    struct module found = {
        .start = UINTPTR_MAX, .bias = info->dlpi_addr, .identity = info->dlpi_phdr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            found.start = bits_min(found.start, bits_round_down(start, PAGE_LEAST));
            found.end = bits_max(found.end, start + segment->p_memsz);
        } else if (segment->p_type == PT_GNU_EH_FRAME) {
            found.table = (const uint8_t *)start;
        }
    }
    if (load_relaxed(&program_end) == 0) { /* the loader tells of the program first */
        store_relaxed(&program_start, found.start);
        store_release(&program_end, found.end); /* order pair: modules */
    }
    if (load_relaxed(&finder)) {
        module_find(found.start);
    } else if (found.end) {
        found.name_hash = hash_of_name(info->dlpi_name);
        find_or_add(&found, info->dlpi_name);
    }
    return 0;
}

void module_note_all(void) {
    if (dlsym && !load_relaxed(&finder)) {
        store_relaxed(&finder, (object_finder *)dlsym(RTLD_DEFAULT, "_dl_find_object"));
    }
    store_relaxed(&is_starting, module_count() == 0);
    dl_iterate_phdr(note, NULL);
    store_relaxed(&is_starting, false);
}
