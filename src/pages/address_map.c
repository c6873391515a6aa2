/* address_map.c - see address_map.h. */
#include "pages/address_map.h"

#include "base/bits.h"
#include "os/memory.h"

#define MAP_SIZE ((size_t)1 << (PRIM_ADDRESS_BITS - SLICE_SHIFT))

enum { LIMIT_PARTS = 4 }; /* of a limit on address space the map takes at most one */

static _Atomic uint8_t no_map[1]; /* the only byte while there is no map: "not ours" */

_Atomic uint8_t *address_map_bytes = no_map;
uintptr_t address_map_mask;
uintptr_t address_map_later_mask;

void address_map_initialise(void) {
    void *bytes = memory_is_limited(MAP_SIZE * LIMIT_PARTS) ? NULL : memory_reserve(MAP_SIZE);
    if (bytes) {
        memory_name(bytes, MAP_SIZE, "primalloc map");
        address_map_bytes = bytes;
        address_map_mask = MAP_SIZE - 1;
    }
}

PRIM_COLD size_t address_map_resident_bytes(uintptr_t address, size_t size) {
    if (address_map_mask == 0) {
        return 0;
    }
    size_t page = memory_page_size();
    uintptr_t map = (uintptr_t)address_map_bytes;
    uintptr_t start = bits_round_down(map + (address >> SLICE_SHIFT), page);
    return memory_resident((void *)start, bits_round_up(size >> SLICE_SHIFT, page));
}

PRIM_COLD bool address_map_abandon(void) {
    if (address_map_mask == 0) {
        return false;
    }
    void *bytes = (void *)address_map_bytes;
    address_map_mask = 0;
    address_map_later_mask = 0;
    address_map_bytes = no_map;
    memory_unmap(bytes, MAP_SIZE);
    return true;
}

bool address_map_cover(uintptr_t address, size_t size) {
    if (address_map_mask == 0) {
        return true;
    }
    size_t page = memory_page_size();
    uintptr_t map = (uintptr_t)address_map_bytes;
    uintptr_t start = bits_round_down(map + (address >> SLICE_SHIFT), page);
    uintptr_t end = bits_round_up(map + ((address + size - 1) >> SLICE_SHIFT) + 1, page);
    return memory_commit((void *)start, end - start);
}
