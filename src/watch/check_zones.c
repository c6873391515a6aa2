/* check_zones.c - see check_zones.h. */
#include "watch/check_zones.h"

#include <string.h>

#include "base/bits.h"

enum { BYTE_BEFORE = 0xf1, BYTE_BEHIND = 0xf2, BYTE_FREED = 0xdf };

static size_t size_behind(const struct check_record *record, size_t plain_size) {
    return bits_min(plain_size - record->front - record->size, ZONE_BEHIND_MAX);
}

void check_zones_write(const struct check_record *record, size_t plain_size) {
    memset((char *)record->block - ZONE_SIZE, BYTE_BEFORE, ZONE_SIZE);
    memset((char *)record->block + record->size, BYTE_BEHIND, size_behind(record, plain_size));
}

/* The address of a byte that differs, or 0; all are equal afterwards. */
static PRIM_UNWATCHED uintptr_t look_for_change(uintptr_t start, size_t size, unsigned char byte,
                                                bool is_backwards) {
    unsigned char *bytes = (unsigned char *)start;
    for (size_t i = 0; i < size; i++) {
        size_t at = is_backwards ? size - 1 - i : i;
        if (bytes[at] != byte) {
            memset(bytes, byte, size);
            return start + at;
        }
    }
    return 0;
}

enum check_fault check_zones_look(const struct check_record *record, size_t plain_size,
                                  uintptr_t *changed) {
    *changed = look_for_change(record->block - ZONE_SIZE, ZONE_SIZE, BYTE_BEFORE, true);
    if (*changed) {
        return FAULT_UNDERRUN;
    }
    *changed = look_for_change(record->block + record->size, size_behind(record, plain_size),
                               BYTE_BEHIND, false);
    return *changed ? FAULT_OVERRUN : FAULT_NONE;
}

void check_zones_fill_freed(const struct check_record *record) {
    memset((void *)record->block, BYTE_FREED, bits_min(record->size, FILLED_SIZE_MAX));
}

enum check_fault check_zones_look_freed(const struct check_record *record, size_t most,
                                        uintptr_t *changed) {
    size_t size = bits_min(bits_min(record->size, FILLED_SIZE_MAX), most);
    *changed = look_for_change(record->block, size, BYTE_FREED, false);
    return *changed ? FAULT_USE_AFTER_FREE : FAULT_NONE;
}
