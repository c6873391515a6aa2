/* vdso.c - see vdso.h. The object is an ELF library like any other; its hash tables tell how many
 * symbols there are. */
#include "os/vdso.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/text.h"

struct vdso {
    uintptr_t bias; /* what is added to its addresses */
    const ElfW(Sym) * symbols;
    const char *names;
    const Elf_Symndx *hash;   /* System V's table, or NULL; of words of 64 bits on s390x */
    const uint32_t *gnu_hash; /* GNU's table, or NULL */
};

static void read_dynamic(struct vdso *vdso, const ElfW(Dyn) * entry) {
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *target = (const void *)(vdso->bias + entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            vdso->symbols = target;
            break;
        case DT_STRTAB:
            vdso->names = target;
            break;
        case DT_HASH:
            vdso->hash = target;
            break;
        case DT_GNU_HASH:
            vdso->gnu_hash = target;
            break;
        default:
            break;
        }
    }
}

static bool find_vdso(struct vdso *vdso) {
    uintptr_t base = getauxval(AT_SYSINFO_EHDR);
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)base;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(base + (base ? header->e_phoff : 0));
    const ElfW(Dyn) *dynamic = NULL;
    for (unsigned i = 0; base && i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && vdso->bias == 0) {
            vdso->bias = base + segments[i].p_offset - segments[i].p_vaddr;
        } else if (segments[i].p_type == PT_DYNAMIC) {
            dynamic = (const ElfW(Dyn) *)(base + segments[i].p_offset);
        }
    }
    if (dynamic) {
        read_dynamic(vdso, dynamic);
    }
    return vdso->symbols && vdso->names && (vdso->hash || vdso->gnu_hash);
}

/* GNU's table tells the end of the last chain only. */
static uint32_t count_by_gnu_hash(const uint32_t *table) {
    uint32_t bucket_count = table[0];
    uint32_t first = table[1];
    const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *chains = buckets + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++) {
        last = buckets[i] > last ? buckets[i] : last;
    }
    if (last < first) {
        return 0;
    }
    while (!(chains[last - first] & 1)) {
        last++;
    }
    return last + 1;
}

static bool is_named(const char *symbol, const char *name) {
    const char *rest = text_behind(symbol, "__vdso_");
    rest = rest ? rest : text_behind(symbol, "__kernel_");
    return rest && strcmp(rest, name) == 0;
}

void *vdso_function(const char *name) {
    struct vdso vdso = {0};
    if (!find_vdso(&vdso)) {
        return NULL;
    }
    uint32_t count = vdso.hash ? (uint32_t)vdso.hash[1] : count_by_gnu_hash(vdso.gnu_hash);
    for (uint32_t i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = &vdso.symbols[i];
        if (symbol->st_shndx != SHN_UNDEF && is_named(vdso.names + symbol->st_name, name)) {
            return (void *)(vdso.bias + symbol->st_value);
        }
    }
    return NULL;
}
