/* live_table.c - see live_table.h. */
#include "watch/live_table.h"

#include "os/memory.h"

enum { CAPACITY_FIRST = 1024 };

static size_t home(uintptr_t address, size_t capacity) {
    return ((address >> 4) * 0x9e3779b97f4a7c15 >> 20) & (capacity - 1);
}

static size_t table_bytes(size_t capacity) {
    return capacity * sizeof(struct live_block);
}

/* Where the address is, or the empty place where it would be. */
static size_t place_of(const struct live_table *table, uintptr_t address) {
    size_t place = home(address, table->capacity);
    while (table->places[place].address && table->places[place].address != address) {
        place = (place + 1) & (table->capacity - 1);
    }
    return place;
}

static PRIM_COLD bool grow(struct live_table *table) {
    struct live_table greater = {.capacity =
                                     table->capacity ? 2 * table->capacity : CAPACITY_FIRST};
    greater.places = memory_map(table_bytes(greater.capacity));
    if (!greater.places) {
        return false;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->places[i].address) {
            greater.places[place_of(&greater, table->places[i].address)] = table->places[i];
        }
    }
    greater.count = table->count;
    live_table_empty(table);
    *table = greater;
    return true;
}

bool live_table_put(struct live_table *table, const struct live_block *block) {
    if (table->count >= table->capacity / 8 * 5 && !grow(table)) {
        return false;
    }
    size_t place = place_of(table, block->address);
    table->count += table->places[place].address == 0;
    table->places[place] = *block;
    return true;
}

bool live_table_put_number(struct live_table *table, uintptr_t address, size_t number) {
    return live_table_put(table, &(struct live_block){.address = address, .size = number});
}

struct live_block *live_table_find(const struct live_table *table, uintptr_t address) {
    if (table->count == 0) {
        return NULL;
    }
    struct live_block *block = &table->places[place_of(table, address)];
    return block->address ? block : NULL;
}

bool live_table_take(struct live_table *table, uintptr_t address, struct live_block *block) {
    const struct live_block *found = live_table_find(table, address);
    if (!found) {
        return false;
    }
    *block = *found;
    size_t mask = table->capacity - 1;
    size_t gap = (size_t)(found - table->places);
    for (size_t next = (gap + 1) & mask; table->places[next].address; next = (next + 1) & mask) {
        size_t wanted = home(table->places[next].address, table->capacity);
        if (((next - wanted) & mask) >= ((next - gap) & mask)) {
            table->places[gap] = table->places[next];
            gap = next;
        }
    }
    table->places[gap].address = 0;
    table->count--;
    return true;
}

void live_table_empty(struct live_table *table) {
    if (table->places) {
        memory_unmap(table->places, table_bytes(table->capacity));
    }
    *table = (struct live_table){0};
}
