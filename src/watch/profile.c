/* profile.c - see profile.h. */
#include "watch/profile.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/bits.h"
#include "base/print.h"
#include "objects/sampler.h"
#include "objects/tag.h"
#include "objects/thread_cache.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/process.h"
#include "settings/options.h"
#include "watch/check.h"
#include "watch/profile_exact.h"
#include "watch/profile_write.h"
#include "watch/stack.h"
#include "watch/thread_label.h"

enum { TICKS_BETWEEN_LOOKS = 1 << 24 };

struct lock profile_lock;
_Atomic bool profile_is_absent = true;
static struct heap_profile profile;      /* (lock: PROFILE) */
static struct profile_settings settings; /* (lock: PROFILE) of the profile */
static _Atomic bool is_file_wanted;      /* (atomic: hint) a signal came while the lock was taken */
static unsigned file_number;             /* (lock: PROFILE) of the next file */
static double next_bytes;                /* (lock: PROFILE) allocated when the next file is due */
static uint64_t next_us;                 /* (lock: PROFILE) the same by the clock */
static uint64_t next_look;               /* (lock: PROFILE) ticks, when the clock is read again */
static double peak_written;              /* (lock: PROFILE) bytes at the peak of the last file */
static unsigned process;                 /* (lock: PROFILE) that began the profile */
static struct output_mark old_profile;   /* (lock: PROFILE) what had the profile's name then */
static struct output_mark old_report;    /* (lock: PROFILE) and that of the report of leaks */

/* Text in which %p stands for the process's number. */
static void print_path(struct print *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '%' && i + 1 < length && text[i + 1] == 'p') {
            print_decimal(out, process_id());
            i++;
        } else {
            print_bytes(out, &text[i], 1);
        }
    }
}

/* Whether the plain name may be another process's: in a fork's child, or if another file has it
 * than when we started. NULL: none of ours is going to have it. */
static bool is_shared_name(const char *given, const struct output_mark *old) {
    if (strstr(given, "%p")) {
        return false;
    }
    struct output_mark now = output_file_mark(old ? given : "");
    return process != process_id() ||
           (old && now.inode && (now.inode != old->inode || now.time_ns != old->time_ns));
}

/* "DIR/NAME.pb.gz" to "DIR/NAME.1234.0001.pb.gz": with the process's number where the name is
 * shared, and with the file's number where there is one. */
static void name_file(char path[OUTPUT_PATH_SIZE], const char *given, bool is_shared,
                      const unsigned *number) {
    const char *slash = strrchr(given, '/');
    const char *dot = strrchr(given, '.');
    const char *compound = strstr(slash ? slash : given, ".pb.gz");
    const char *end = compound ? compound : dot && dot > slash ? dot : given + strlen(given);
    struct print out = print_to(path, OUTPUT_PATH_SIZE - 1);
    print_path(&out, given, (size_t)(end - given));
    if (is_shared) {
        print_format(&out, ".%u", process_id());
    }
    if (number) {
        print_text(&out, ".");
        for (unsigned unit = 1000; unit > *number && unit > 1; unit /= 10) {
            print_text(&out, "0");
        }
        print_decimal(&out, *number);
    }
    print_path(&out, end, strlen(end));
    path[out.length] = '\0';
}

/* Under the lock. */
static PRIM_COLD bool write_file(const char *path, enum profile_event event) {
    char name[OUTPUT_PATH_SIZE];
    if (!path) {
        if (!settings.path[0]) {
            return false;
        }
        bool is_last = event == PROFILE_EXIT;
        name_file(name, settings.path, is_shared_name(settings.path, is_last ? &old_profile : NULL),
                  is_last ? NULL : &file_number);
        path = name;
    }
    heap_profile_look(&profile);
    bool is_done = profile_write(&profile, path,
                                 &(struct profile_occasion){event, file_number, settings.rate});
    file_number++;
    if (is_done) {
        heap_profile_mark(&profile);
        if (strcmp(path, settings.path) == 0) {
            old_profile = output_file_mark(path); /* by a call; now the name is ours */
        }
    } else {
        process_complain("cannot write the profile ", path);
    }
    return is_done;
}

/* What is due by what has happened. */
static PRIM_COLD void write_if_due(void) {
    if (settings.bytes && profile.allocated.bytes >= next_bytes) {
        next_bytes = profile.allocated.bytes + (double)settings.bytes;
        write_file(NULL, PROFILE_BYTES);
    }
    if (settings.seconds && machine_ticks() >= next_look) {
        next_look = machine_ticks() + TICKS_BETWEEN_LOOKS;
        uint64_t now = machine_clock_us();
        uint64_t interval = settings.seconds * 1000000;
        if (machine_is_time(now, next_us, interval)) {
            next_us = now + interval;
            write_file(NULL, PROFILE_SECONDS);
        }
    }
    if (settings.peak && profile.live.bytes < profile.peak.bytes / 16 * 15 &&
        profile.peak.bytes > peak_written / 16 * 17) {
        peak_written = profile.peak.bytes;
        write_file(NULL, PROFILE_PEAK);
    }
}

static void leave(void) {
    while (load_relaxed(&is_file_wanted)) {
        store_relaxed(&is_file_wanted, false);
        write_file(NULL, PROFILE_SIGNAL);
    }
    lock_release(&profile_lock, LOCK_PROFILE);
    thread_cache_leave();
}

static void enter(void) {
    thread_cache_nest();
    lock_acquire(&profile_lock, LOCK_PROFILE);
}

PRIM_COLD void profile_name_leaks(char path[OUTPUT_PATH_SIZE], const char *given, bool is_ours) {
    enter();
    name_file(path, given, is_shared_name(given, is_ours ? NULL : &old_report), NULL);
    leave();
}

void profile_record(void *block, const struct sample *sample, const void *caller) {
    uint64_t frames[SITE_FRAMES_MAX];
    unsigned count = stack_capture(frames, SITE_FRAMES_MAX, caller);
    if (count == 0 && caller) { /* no tables to unwind by, as in most static programs */
        frames[count++] = stack_frame(module_find((uintptr_t)caller), (uintptr_t)caller);
    }
    unsigned label = caller ? thread_label_soon() : thread_label();
    enter();
    write_if_due(); /* the block would be in use more often than others when a file is written */
    struct live_block live = {.address = (uintptr_t)block,
                              .site = site_find(&profile.sites, frames, count, label, tag_now()),
                              .size = sample->size,
                              .weight = sample->weight,
                              .is_coarse = sample->stretch > 0};
    if (live.site) {
        heap_profile_begin(&profile, &live);
        heap_profile_note_stretch(&profile, sample->stretch);
    } else {
        profile.lost++;
    }
    leave();
}

bool profile_forget(void *block, size_t size) {
    enter();
    struct live_block known;
    bool is_over = !size && live_table_take(&profile.blocks, (uintptr_t)block, &known);
    if (is_over) {
        heap_profile_end(&profile, &known);
    } else if (size) {
        heap_profile_resize(&profile, (uintptr_t)block, size);
    }
    write_if_due();
    leave();
    return is_over;
}

void profile_lift(const void *block, struct live_block *known) {
    enter();
    live_table_take(&profile.blocks, (uintptr_t)block, known);
    leave();
}

/* A profile that was started meanwhile does not know it. */
void profile_settle(const struct live_block *known, bool is_over) {
    enter();
    bool is_ours = known->born >= profile.start_ticks;
    if (is_ours && is_over) {
        heap_profile_end(&profile, known);
        write_if_due();
    } else if (is_ours) {
        live_table_put(&profile.blocks, known);
    }
    leave();
}

PRIM_COLD void profile_ignore(const void *block) {
    enter();
    struct live_block *known = live_table_find(&profile.blocks, (uintptr_t)block);
    if (known) {
        known->is_ignored = true;
    }
    leave();
}

PRIM_COLD const struct live_table *profile_lock_blocks(void) {
    if (!profile_was_started()) {
        return NULL;
    }
    enter();
    return &profile.blocks;
}

void profile_unlock_blocks(void) {
    leave();
}

/* What a signal's handler allocates within a call is not checked, and may be smaller. */
static void begin(void *block, const struct sample *sample) {
    struct sample asked = *sample;
    asked.size -= bits_min(asked.size, check_zones_size(asked.alignment));
    profile_record(block, &asked, NULL);
}

static struct sampler_user user = {.begin = begin, .end = profile_forget};

static void on_signal(int number) {
    (void)number;
    int saved_errno = errno;
    store_relaxed(&is_file_wanted, true);
    if (!thread_cache_is_inside()) {
        thread_cache_nest(); /* before the lock: another handler may come on top of this one */
        if (lock_try_acquire_unranked(&profile_lock)) {
            lock_rank_entered(LOCK_PROFILE);
            leave();
        } else {
            thread_cache_leave();
        }
    }
    errno = saved_errno;
}

PRIM_COLD bool profile_start(const struct profile_settings *wanted) {
    /* Who looks for leaks must know of every block. */
    uint64_t rate = options.leak_check ? 1 : wanted->rate;
    stack_prepare();
    enter();
    settings = *wanted;
    settings.rate = rate;
    heap_profile_start(&profile);
    file_number = 0;
    next_bytes = (double)settings.bytes;
    next_us = profile.start_us + settings.seconds * 1000000;
    next_look = 0;
    peak_written = 0;
    process = process_id();
    old_profile = output_file_mark(settings.path);
    old_report = output_file_mark(options.leak_report ? options.leak_report : "");
    store_relaxed(&profile_is_absent, false);
    leave();
    if (wanted->signal) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigaction(wanted->signal, &action, NULL);
    }
    if (rate == 1) {
        sampler_stop(&user);
        profile_exact_start();
        return true;
    }
    profile_exact_stop();
    store_relaxed(&user.budget, wanted->budget);
    return sampler_start(&user, rate);
}

/* What is freed from here on would be a leak if nobody saw it. */
PRIM_COLD void profile_stop(void) {
    sampler_stop(&user);
    if (!options.leak_check) {
        profile_exact_stop();
    }
}

PRIM_COLD bool profile_dump(const char *path) {
    bool is_done = false;
    if (profile_was_started()) {
        enter();
        is_done = write_file(path, PROFILE_CALL);
        leave();
    }
    return is_done;
}

PRIM_STARTUP bool profile_exit(void) {
    bool is_inside = thread_cache_is_inside();
    if (profile_was_started() && is_inside) {
        process_complain("no profile, no leak check: a signal's handler called exit inside malloc",
                         "");
    } else if (profile_was_started()) {
        enter();
        write_file(NULL, PROFILE_EXIT);
        leave();
    }
    return !is_inside;
}

void profile_begin_child(void) {
    store_relaxed(&is_file_wanted, false);
    file_number = 0;
}
