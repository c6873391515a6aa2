/* check_table.c - see check_table.h. */
#include "watch/check_table.h"

#include "os/memory.h"
#include "pages/metadata.h"

enum { BUCKETS_FIRST = 4096 };

static struct {
    struct check_record **buckets; /* (lock: CHECKS) mapped pages */
    size_t bucket_count;           /* (lock: CHECKS) a power of two, or 0 */
    size_t count;                  /* (lock: CHECKS) records in them */
    struct check_record *unused;   /* (lock: CHECKS) */
    struct check_record *oldest;   /* (lock: CHECKS) in the quarantine */
    struct check_record *newest;   /* (lock: CHECKS) */
    size_t quarantined_bytes;      /* (lock: CHECKS) */
} table;

static struct check_record **bucket_of(uintptr_t block) {
    uint64_t mixed = (block >> 4) * 0x9e3779b97f4a7c15u;
    return &table.buckets[(mixed >> 20) & (table.bucket_count - 1)];
}

static size_t bytes_of(size_t bucket_count) {
    return bucket_count * sizeof(struct check_record *);
}

/* Twice the buckets; the old ones do where there is no memory. */
static void grow(void) {
    struct check_record **old = table.buckets;
    size_t old_count = table.bucket_count;
    size_t count = old ? old_count * 2 : BUCKETS_FIRST;
    struct check_record **buckets = memory_map(bytes_of(count));
    if (!buckets) {
        return;
    }
    table.buckets = buckets;
    table.bucket_count = count;
    for (size_t i = 0; old && i < old_count; i++) {
        while (old[i]) {
            struct check_record *record = old[i];
            struct check_record **bucket = bucket_of(record->block);
            old[i] = record->next;
            record->next = *bucket;
            *bucket = record;
        }
    }
    if (old) {
        memory_unmap(old, bytes_of(old_count));
    }
}

struct check_record *check_table_find(uintptr_t block) {
    struct check_record *record = table.buckets ? *bucket_of(block) : NULL;
    while (record && record->block != block) {
        record = record->next;
    }
    return record;
}

struct check_record *check_table_add(uintptr_t block) {
    if (table.count >= table.bucket_count) {
        grow();
    }
    struct check_record *record = table.unused;
    if (!table.buckets) {
        return NULL;
    }
    if (record) {
        table.unused = record->next;
    } else {
        record = metadata_allocate(sizeof *record, 8);
        if (!record) {
            return NULL;
        }
    }
    struct check_record **bucket = bucket_of(block);
    *record = (struct check_record){.next = *bucket, .block = block};
    *bucket = record;
    table.count++;
    return record;
}

void check_table_remove(struct check_record *record) {
    struct check_record **link = bucket_of(record->block);
    while (*link != record) {
        link = &(*link)->next;
    }
    *link = record->next;
    record->next = table.unused;
    table.unused = record;
    table.count--;
}

/* What alignment puts before a block is kept with it. */
static size_t room_of(const struct check_record *record) {
    return record->front + record->size + sizeof *record;
}

void check_table_quarantine(struct check_record *record) {
    record->newer = NULL;
    if (table.newest) {
        table.newest->newer = record;
    } else {
        table.oldest = record;
    }
    table.newest = record;
    table.quarantined_bytes += room_of(record);
}

struct check_record *check_table_expired(void) {
    struct check_record *record = table.oldest;
    if (!record || table.quarantined_bytes <= QUARANTINE_SIZE) {
        return NULL;
    }
    table.oldest = record->newer;
    if (!table.oldest) {
        table.newest = NULL;
    }
    table.quarantined_bytes -= room_of(record);
    return record;
}

size_t check_table_count(void) {
    return table.count;
}

void check_table_visit(void (*visitor)(struct check_record *record, void *context), void *context) {
    for (size_t i = 0; i < table.bucket_count; i++) {
        for (struct check_record *record = table.buckets[i]; record; record = record->next) {
            visitor(record, context);
        }
    }
}
