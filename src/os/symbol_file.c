/* symbol_file.c - see symbol_file.h. */
#include "os/symbol_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/print.h"
#include "base/text.h"
#include "os/kernel.h"
#include "os/memory.h"
#include "os/process.h"

enum { PATH_SIZE = 1024 };

typedef Elf64_Shdr section_header;

struct image {
    const uint8_t *bytes;
    size_t size;
};

/* Where a link of the system's leads, not terminated. The calling thread's links are as good as the
 * process's, and are there when the main thread has ended before others. */
static size_t read_link(const char *name, char *path, size_t size) {
    int saved_errno = errno;
    long length = kernel_call(SYS_readlinkat, AT_FDCWD, name, path, size);
    errno = saved_errno;
    return length > 0 ? (size_t)length : 0;
}

/* Of a path that may be relative to where the process is: terminated, and its length. */
static size_t absolute_path(const char *name, char *path, size_t size) {
    struct print out = print_to(path, size - 1);
    out.length = *name == '/' ? 0 : read_link("/proc/thread-self/cwd", path, size - 1);
    print_format(&out, out.length ? "/%s" : "%s", name);
    path[out.length] = '\0';
    return out.length;
}

bool symbol_file_is_loader(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return text_behind(name, "ld-") || text_behind(name, "ld.so") || text_behind(name, "ld64.so");
}

/* The program's file; the one that the loader was told to start, if the loader itself was. 0 if the
 * system does not tell. */
static size_t program_path(char *path, size_t size) {
    size_t length = read_link("/proc/thread-self/exe", path, size - 1);
    path[length] = '\0';
    const char *told = (const char *)getauxval(AT_EXECFN); /* set right by the loader */
    return told && symbol_file_is_loader(path) ? absolute_path(told, path, size) : length;
}

size_t symbol_file_path(const struct module *module, char *path, size_t size) {
    const char *name = module->path;
    if (strchr(name, '/')) {
        return absolute_path(name, path, size);
    }
    struct print out = print_to(path, size - 1);
    if (name[0] == '\0' && module_is_program(module)) {
        out.length = program_path(path, size);
        name = out.length ? "" : process_program_name();
    }
    print_text(&out, name);
    path[out.length] = '\0';
    return out.length;
}

static bool open_image(const char *path, struct image *image) {
    struct stat status;
    int file = (int)kernel_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    *image = (struct image){0};
    if (file >= 0 && fstat(file, &status) == 0 && status.st_size > (off_t)sizeof(ElfW(Ehdr))) {
        image->size = (size_t)status.st_size;
        image->bytes = memory_map_file(file, image->size);
    }
    if (file >= 0) {
        kernel_call(SYS_close, file);
    }
    return image->bytes != NULL;
}

static const void *part(const struct image *image, uint64_t offset, uint64_t size) {
    return offset <= image->size && size <= image->size - offset ? image->bytes + offset : NULL;
}

static bool search(const struct image *image, const section_header *table,
                   const section_header *names, uintptr_t address, struct symbol *symbol) {
    const ElfW(Sym) *symbols = part(image, table->sh_offset, table->sh_size);
    const char *texts = part(image, names->sh_offset, names->sh_size);
    if (!symbols || !texts) {
        return false;
    }
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        if ((symbols[i].st_info & 15) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF &&
            address - symbols[i].st_value < bits_max(symbols[i].st_size, 1) &&
            symbols[i].st_name < names->sh_size) {
            const char *text = texts + symbols[i].st_name;
            size_t length =
                strnlen(text, bits_min(names->sh_size - symbols[i].st_name, SYMBOL_NAME_SIZE - 1));
            memcpy(symbol->name, text, length);
            symbol->name[length] = '\0';
            symbol->offset = address - symbols[i].st_value;
            return true;
        }
    }
    return false;
}

/* The whole table of symbols, or else that of the dynamic ones. */
static bool search_image(const struct image *image, const struct module *module, uintptr_t address,
                         struct symbol *symbol) {
    const ElfW(Ehdr) *header = part(image, 0, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shentsize != sizeof(ElfW(Shdr))) {
        return false;
    }
    const ElfW(Shdr) *sections =
        part(image, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);
    address -= module->bias;
    for (uint32_t type = SHT_SYMTAB; sections; type = SHT_DYNSYM) {
        for (unsigned i = 0; i < header->e_shnum; i++) {
            if (sections[i].sh_type == type && sections[i].sh_link < header->e_shnum &&
                search(image, &sections[i], &sections[sections[i].sh_link], address, symbol)) {
                return true;
            }
        }
        if (type == SHT_DYNSYM) {
            break;
        }
    }
    return false;
}

PRIM_COLD bool symbol_find(const struct module *module, uintptr_t address, struct symbol *symbol) {
    char path[PATH_SIZE];
    struct image image;
    int saved_errno = errno;
    symbol_file_path(module, path, sizeof path);
    bool is_found = open_image(path, &image);
    if (is_found) {
        is_found = search_image(&image, module, address, symbol);
        kernel_call(SYS_munmap, image.bytes, image.size);
    }
    errno = saved_errno;
    return is_found;
}
