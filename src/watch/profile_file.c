/* profile_file.c - see profile_file.h. The encoding is protobuf.dev/programming-guides/encoding. */
#include "watch/profile_file.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "objects/tag.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/symbol_file.h"
#include "primalloc.h"
#include "watch/stack.h"
#include "watch/thread_label.h"

/* The field numbers: FIELD_profile_sample and so on. */
enum field {
#define VIEW(name, unit)
#define LEAK_VIEW(name, unit)
#define FACT(key)
#define FIELD(message, name, number) FIELD_##message##_##name = number,
#include "watch/profile_format.def"
#undef VIEW
#undef LEAK_VIEW
#undef FACT
#undef FIELD
};

/* One text, the strings one behind the other, so that it needs no relocation. */
static const char fixed_strings[] = "\0"
#define VIEW(name, unit) #name "\0"
#define LEAK_VIEW(name, unit) #name "\0"
#define FACT(key)
#define FIELD(message, name, number)
#include "watch/profile_format.def"
#undef VIEW
#undef LEAK_VIEW
#undef FACT
#undef FIELD
                                    "count\0bytes\0space\0thread\0tag\0kind\0lost\0inner";

static const char fact_keys[] =
#define VIEW(name, unit)
#define LEAK_VIEW(name, unit)
#define FACT(key) #key "\0"
#define FIELD(message, name, number)
#include "watch/profile_format.def"
    ;
#undef VIEW
#undef LEAK_VIEW
#undef FACT
#undef FIELD

enum {
    COMMENT_SIZE_MAX = 100,
    WIRE_NUMBER = 0,
    WIRE_BLOCK = 2,
};

static void put_varint(struct message *message, uint64_t value) {
    while (value >= 0x80 && message->used < MESSAGE_SIZE) {
        message->bytes[message->used++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    if (message->used < MESSAGE_SIZE) {
        message->bytes[message->used++] = (uint8_t)value;
    }
}

static void put_number(struct message *message, enum field field, uint64_t value) {
    if (value) {
        put_varint(message, (uint64_t)field << 3 | WIRE_NUMBER);
        put_varint(message, value);
    }
}

static void put_block(struct message *message, enum field field, const void *bytes, size_t size) {
    put_varint(message, (uint64_t)field << 3 | WIRE_BLOCK);
    put_varint(message, size);
    size = bits_min(size, MESSAGE_SIZE - message->used);
    memcpy(message->bytes + message->used, bytes, size);
    message->used += size;
}

/* A field of the whole profile, whose bytes follow. */
static void begin_block(struct profile_file *out, enum field field, size_t size) {
    out->head.used = 0;
    put_varint(&out->head, (uint64_t)field << 3 | WIRE_BLOCK);
    put_varint(&out->head, size);
    gzip_write(&out->gzip, out->head.bytes, out->head.used);
}

static void write_block(struct profile_file *out, enum field field, const void *bytes,
                        size_t size) {
    begin_block(out, field, size);
    gzip_write(&out->gzip, bytes, size);
}

/* The message becomes such a field, and is empty again. */
static void write_message(struct profile_file *out, enum field field) {
    write_block(out, field, out->message.bytes, out->message.used);
    out->message.used = 0;
}

static void write_number(struct profile_file *out, enum field field, uint64_t value) {
    put_number(&out->message, field, value);
    gzip_write(&out->gzip, out->message.bytes, out->message.used);
    out->message.used = 0;
}

PRIM_COLD struct profile_file *profile_file_open(const char *path) {
    struct profile_file *out = memory_map(sizeof *out);
    if (out && !output_file_open(&out->file, path)) {
        memory_unmap(out, sizeof *out);
        return NULL;
    }
    if (out) {
        gzip_open(&out->gzip, &out->file);
        out->thread_count = thread_label_count();
        out->tag_count = load_relaxed(&tag_was_used) ? TAG_COUNT_MAX : 0;
        out->facts = print_to(out->facts_text, FACTS_SIZE);
    }
    return out;
}

static void write_value_type(struct profile_file *out, enum field field, unsigned type,
                             unsigned unit) {
    put_number(&out->message, FIELD_value_type_type, type);
    put_number(&out->message, FIELD_value_type_unit, unit);
    write_message(out, field);
}

PRIM_COLD void profile_file_head(struct profile_file *out, enum profile_string first,
                                 unsigned count, enum profile_string shown, uint64_t period,
                                 uint64_t duration_us) {
    for (unsigned i = 0; i < count; i++) {
        write_value_type(out, FIELD_profile_sample_type, first + i,
                         i % 2 ? STRING_BYTES_UNIT : STRING_COUNT_UNIT);
    }
    write_value_type(out, FIELD_profile_period_type, STRING_SPACE, STRING_BYTES_UNIT);
    write_number(out, FIELD_profile_period, period);
    write_number(out, FIELD_profile_time_nanos, machine_time_ns());
    write_number(out, FIELD_profile_duration_nanos, duration_us * 1000);
    write_number(out, FIELD_profile_default_sample_type, shown);
}

/* A module has a mapping for each of its texts; the first ones have the modules' numbers. */
static unsigned mapping_id(unsigned module, unsigned nth) {
    return module + nth * MODULES_MAX;
}

static unsigned mapping_of(uint64_t frame) {
    unsigned module = stack_frame_module(frame);
    uintptr_t address = stack_frame_address(frame) - 1;
    const struct module_text *second = &module_at(module)->text[1];
    return mapping_id(module, second->start <= address && address < second->end);
}

/* The number of a frame's location, which is written when it is met first. Return addresses are
 * lowered by one, so that they lie inside the call. */
static uint64_t location_of(struct profile_file *out, uint64_t frame) {
    const struct live_block *known = live_table_find(&out->locations, (uintptr_t)frame);
    if (known) {
        return known->size;
    }
    size_t number = out->locations.count + 1;
    if (!live_table_put_number(&out->locations, (uintptr_t)frame, number)) {
        out->is_out_of_memory = true;
        return 0;
    }
    put_number(&out->message, FIELD_location_id, number);
    put_number(&out->message, FIELD_location_mapping_id, mapping_of(frame));
    put_number(&out->message, FIELD_location_address, stack_frame_address(frame) - 1);
    write_message(out, FIELD_profile_location);
    return number;
}

static void put_label(struct profile_file *out, enum profile_string key, unsigned text) {
    out->part.used = 0;
    put_number(&out->part, FIELD_label_key, key);
    put_number(&out->part, FIELD_label_str, text);
    put_block(&out->message, FIELD_sample_label, out->part.bytes, out->part.used);
}

/* Strings that are not always there: names of threads and tags, two for each module, the facts. */
static unsigned string_of_thread(unsigned label) {
    return STRING_FIXED_COUNT + label;
}

/* Tags are numbered from 1. */
static unsigned string_of_tag(const struct profile_file *out, unsigned tag) {
    return string_of_thread(out->thread_count) + tag - 1;
}

static unsigned string_of_module(const struct profile_file *out, unsigned module) {
    return string_of_tag(out, out->tag_count + 1) + 2 * (module - 1);
}

PRIM_COLD void profile_file_sample(struct profile_file *out, const struct profile_sample *sample) {
    struct message *part = &out->part;
    part->used = 0;
    for (unsigned i = 0; i < sample->frame_count; i++) {
        put_varint(part, location_of(out, sample->frames[i]));
    }
    put_block(&out->message, FIELD_sample_location_id, part->bytes, part->used);
    part->used = 0;
    for (unsigned i = 0; i < sample->value_count; i++) {
        put_varint(part, (uint64_t)sample->values[i]);
    }
    put_block(&out->message, FIELD_sample_value, part->bytes, part->used);
    if (sample->thread && sample->thread < out->thread_count) {
        put_label(out, STRING_THREAD, string_of_thread(sample->thread));
    }
    if (sample->tag && sample->tag <= out->tag_count) {
        put_label(out, STRING_TAG, string_of_tag(out, sample->tag));
    }
    if (sample->kind != STRING_EMPTY) {
        put_label(out, STRING_KIND, sample->kind);
    }
    write_message(out, FIELD_profile_sample);
}

static void end_fact(struct profile_file *out) {
    if (out->facts.length > out->fact_start) {
        print_bytes(&out->facts, "", 1);
    } else {
        out->facts.length = out->facts_used;
    }
}

PRIM_COLD struct print *profile_fact(struct profile_file *out, enum profile_fact fact) {
    end_fact(out);
    out->facts_used = out->facts.length;
    print_format(&out->facts, "%s ", text_at(fact_keys, fact));
    out->fact_start = out->facts.length;
    return &out->facts;
}

PRIM_COLD void profile_file_about(struct profile_file *out) {
    print_text(profile_fact(out, FACT_library), PRIM_VERSION_STRING);
    print_format(profile_fact(out, FACT_program), "%u %s", process_id(), process_program_name());
}

static void write_mapping(struct profile_file *out, unsigned i, unsigned nth) {
    const struct module *module = module_at(i);
    const struct module_text *text = &module->text[nth];
    bool has_text = text->start != 0;
    put_number(&out->message, FIELD_mapping_id, mapping_id(i, nth));
    put_number(&out->message, FIELD_mapping_memory_start, has_text ? text->start : module->start);
    put_number(&out->message, FIELD_mapping_memory_limit, has_text ? text->end : module->end);
    put_number(&out->message, FIELD_mapping_file_offset, text->offset);
    put_number(&out->message, FIELD_mapping_filename, string_of_module(out, i));
    put_number(&out->message, FIELD_mapping_build_id,
               module->build_id_length ? string_of_module(out, i) + 1 : 0);
    write_message(out, FIELD_profile_mapping);
}

static void write_mappings(struct profile_file *out, unsigned count) {
    for (unsigned i = 1; i <= count; i++) {
        if (!module_is_complete(i)) {
            continue; /* found after this profile was begun */
        }
        write_mapping(out, i, 0);
        if (module_at(i)->text[1].start) {
            write_mapping(out, i, 1);
        }
    }
}

/* Readers of protocol buffers refuse a file with a string that is not UTF-8: a name that was cut
 * within a character, say, or a path in another code. */
static void write_text(struct profile_file *out, enum field field, const char *text,
                       size_t length) {
    begin_block(out, field, length);
    for (size_t at = 0; at < length;) {
        size_t step = text_character(text + at, length - at);
        gzip_write(&out->gzip, step ? text + at : "?", step ? step : 1);
        at += step ? step : 1;
    }
}

static void write_string(struct profile_file *out, const char *text, size_t length) {
    write_text(out, FIELD_profile_string_table, text, length);
}

static void write_strings(struct profile_file *out, unsigned modules) {
    for (unsigned i = 0; i < STRING_FIXED_COUNT; i++) {
        const char *text = text_at(fixed_strings, i);
        write_string(out, text, strlen(text));
    }
    for (unsigned i = 0; i < out->thread_count; i++) {
        write_string(out, thread_label_name(i), strlen(thread_label_name(i)));
    }
    for (unsigned i = 1; i <= out->tag_count; i++) {
        write_string(out, tag_name(i), strlen(tag_name(i)));
    }
    static const struct module unfinished = {.path = ""}; /* keeps its place in the table */
    for (unsigned i = 1; i <= modules; i++) {
        const struct module *module = module_is_complete(i) ? module_at(i) : &unfinished;
        char digits[2 * BUILD_ID_MAX];
        for (size_t n = 0; n < module->build_id_length; n++) {
            digits[2 * n] = "0123456789abcdef"[module->build_id[n] >> 4];
            digits[2 * n + 1] = "0123456789abcdef"[module->build_id[n] & 15];
        }
        write_string(out, out->path, symbol_file_path(module, out->path, sizeof out->path));
        write_string(out, digits, (size_t)2 * module->build_id_length);
    }
}

static void write_facts(struct profile_file *out, unsigned next_string) {
    end_fact(out);
    for (size_t at = 0; at < out->facts.length;) {
        const char *fact = out->facts_text + at;
        size_t length = strnlen(fact, out->facts.length - at);
        if (length > COMMENT_SIZE_MAX) { /* people are shown the comments */
            write_text(out, FIELD_profile_fact, fact, length);
        } else {
            write_string(out, fact, length);
            write_number(out, FIELD_profile_comment, next_string++);
        }
        at += length + 1;
    }
}

PRIM_COLD bool profile_file_close(struct profile_file *out) {
    unsigned modules = module_count();
    write_mappings(out, modules);
    write_strings(out, modules);
    write_facts(out, string_of_module(out, modules + 1));
    gzip_close(&out->gzip);
    out->file.has_failed |= out->is_out_of_memory;
    bool is_done = output_file_close(&out->file);
    live_table_empty(&out->locations);
    memory_unmap(out, sizeof *out);
    return is_done;
}
