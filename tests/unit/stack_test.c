/* Captured stacks against what each function says of itself: __builtin_return_address(0). */
#include "watch/stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "unit/unit.h"

enum { DEPTH_MAX = 80, FRAMES_MAX = 128 };

/* Return addresses as the functions themselves tell them, outermost first. */
static void *told[DEPTH_MAX];
static unsigned told_count;

static void *frames[FRAMES_MAX];
static unsigned frame_count;

/* Addresses alone. The first is that of who calls this. */
static __attribute__((noinline)) unsigned capture_plain(void **addresses, unsigned max) {
    uint64_t marked[FRAMES_MAX];
    unsigned count = stack_capture(marked, FRAMES_MAX, __builtin_return_address(0));
    count = count < max ? count : max;
    for (unsigned i = 0; i < count; i++) {
        addresses[i] = (void *)stack_frame_address(marked[i]);
    }
    return count;
}

static void capture(void) {
    frame_count = capture_plain(frames, FRAMES_MAX);
}

#define TELL() (told[told_count++] = __builtin_return_address(0))

/* Every told address is in the capture, in order and without another one between; those before
 * belong to functions that tell nothing (capture, signal handlers, libc). */
static void check_told(void) {
    unsigned first = 0;
    while (first < frame_count && frames[first] != told[told_count - 1]) {
        first++;
    }
    assert_true(first < frame_count);
    for (unsigned i = 0; i < told_count; i++) {
        assert_true(first + i < frame_count);
        assert_ptr_equal(frames[first + i], told[told_count - 1 - i]);
    }
}

static void (*innermost)(void) = capture;

/* Kinds of frames: small, with a variable size, aligned, with a frame pointer. */
static __attribute__((noinline)) void small(unsigned depth, uint64_t choice);
static __attribute__((noinline)) void variable(unsigned depth, uint64_t choice);
static __attribute__((noinline)) void aligned(unsigned depth, uint64_t choice);
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) void pointed(unsigned depth,
                                                                                 uint64_t choice);

static __attribute__((noinline)) void deeper(unsigned depth, uint64_t choice) {
    static void (*const kinds[])(unsigned, uint64_t) = {small, variable, aligned, pointed};
    TELL();
    if (depth == 0) {
        innermost();
    } else {
        kinds[choice % 4](depth - 1, choice / 4);
    }
    __asm__ volatile("" ::: "memory");
}

static void small(unsigned depth, uint64_t choice) {
    TELL();
    deeper(depth, choice);
    __asm__ volatile("" ::: "memory");
}

static void variable(unsigned depth, uint64_t choice) {
    char *room = opaque(__builtin_alloca(opaque_size(depth * 100 + 1)));
    TELL();
    deeper(depth, choice);
    room[0] = 1;
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* With arguments on the stack a function that aligns its own finds them by a pointer: its CFA is
 * what lies there. */
static __attribute__((noinline)) void aligned_with_arguments(int a, int b, int c, int d, int e,
                                                             int f, unsigned depth,
                                                             uint64_t choice) {
    _Alignas(64) char room[200];
    room[0] = (char)(a + b + c + d + e + f);
    char *more = opaque(__builtin_alloca(opaque_size(depth * 10 + 1)));
    assert_int_equal((uintptr_t)opaque(room) % 64, 0);
    TELL();
    deeper(depth, choice);
    __asm__ volatile("" : : "r"(room), "r"(more) : "memory");
}

static void aligned(unsigned depth, uint64_t choice) {
    TELL();
    aligned_with_arguments(1, 2, 3, 4, 5, 6, depth, choice);
    __asm__ volatile("" ::: "memory");
}

static void pointed(unsigned depth, uint64_t choice) {
    TELL();
    deeper(depth, choice);
    __asm__ volatile("" ::: "memory");
}

static void walk_deep(uint64_t choice) {
    told_count = 0;
    deeper(20, choice);
}

static void every_kind_of_frame(void **state) {
    (void)state;
    struct random random = unit_random();
    for (unsigned i = 0; i < 200; i++) {
        walk_deep(random_next(&random));
        check_told();
    }
}

static void what_is_asked_for_is_all_there_is(void **state) {
    (void)state;
    walk_deep(0);
    unsigned all = frame_count;
    uint64_t few[FRAMES_MAX];
    uint64_t marked[FRAMES_MAX];
    errno = ERRNO_MARK;
    assert_int_equal(stack_capture(few, 0, NULL), 0);
    assert_int_equal(stack_capture(few, 1, NULL), 1);
    unsigned whole = stack_capture(marked, FRAMES_MAX, NULL);
    unsigned part = stack_capture(few, 3, NULL);
    assert_int_equal(errno, ERRNO_MARK);
    assert_int_equal(part, 3);
    assert_memory_equal(few + 1, marked + 1, 2 * sizeof *few);
    assert_true(all > whole);
}

static int compare(const void *a, const void *b) {
    if (frame_count == 0) {
        capture();
    }
    return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void sort(void) {
    int numbers[100];
    TELL();
    for (int i = 0; i < 100; i++) {
        numbers[i] = i * 37 % 100;
    }
    qsort(numbers, 100, sizeof numbers[0], compare);
    assert_int_equal(numbers[99], 99);
}

static void through_libc(void **state) {
    (void)state;
    told_count = frame_count = 0;
    sort();
    check_told();
    assert_true(frame_count > 4);
}

static void on_signal(int number) {
    (void)number;
    capture();
}

static void raise_signal(void) {
    raise(SIGUSR1);
}

static void through_a_signal(void **state) {
    (void)state;
    if (is_emulated()) {
        skip(); /* qemu's code that handlers return to has no unwind table */
    }
    static char alternative[16384];
    stack_t stack = {.ss_sp = alternative, .ss_size = sizeof alternative};
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    innermost = raise_signal;
    for (int flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
        sigaction(SIGUSR1, &action, NULL);
        walk_deep(0x1b1b1b);
        check_told();
    }
    innermost = capture;
    signal(SIGUSR1, SIG_DFL);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

static ucontext_t outside;

static void coroutine(void) {
    told_count = 0;
    deeper(8, 0x1b1b);
}

static void on_a_small_stack_of_ones_own(void **state) {
    (void)state;
    enum { SIZE = 16384 };
    ucontext_t inside;
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = SIZE;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    check_told();
    assert_in_range(frame_count, told_count, told_count + 3);
    munmap(memory, SIZE);
}

static void *thread_body(void *argument) {
    void *own[FRAMES_MAX];
    unsigned expected = capture_plain(own, FRAMES_MAX);
    for (unsigned i = 0; i < 1000; i++) {
        void *again[FRAMES_MAX];
        unsigned count = capture_plain(again, FRAMES_MAX);
        CHECK(count == expected, "%u frames, not %u", count, expected);
        CHECK(memcmp(again + 1, own + 1, (count - 1) * sizeof *own) == 0, "other callers");
    }
    return argument;
}

static void in_many_threads(void **state) {
    (void)state;
    pthread_t threads[8];
    for (unsigned i = 0; i < ARRAY_LENGTH(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_body, NULL), 0);
    }
    for (unsigned i = 0; i < ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
}

static void marked_frames_begin_at_the_caller(void **state) {
    (void)state;
    uint64_t marked[FRAMES_MAX];
    walk_deep(0);
    const void *caller = __builtin_return_address(0);
    unsigned whole = stack_capture(marked, FRAMES_MAX, NULL);
    uint64_t own = marked[0];
    assert_true(stack_frame_module(own) > 0);
    const struct module *module = module_at(stack_frame_module(own));
    assert_in_range(stack_frame_address(own), module->start, module->end - 1);
    unsigned rest = stack_capture(marked, FRAMES_MAX, caller);
    assert_int_equal(rest, whole - 1);
    assert_ptr_equal((void *)stack_frame_address(marked[0]), caller);
    assert_int_equal(stack_capture(marked, FRAMES_MAX, (void *)1), whole);
}

#if defined(__x86_64__)
/* Machine code made at run time, for which there are no tables. */
static void *make_code(const unsigned char *bytes, size_t size) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, bytes, size);
    mprotect(memory, 4096, PROT_READ | PROT_EXEC);
    return memory;
}

static void code_with_frame_pointers_needs_no_tables(void **state) {
    (void)state;
    /* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
    static const unsigned char bytes[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void (*code)(void (*)(void)) = make_code(bytes, sizeof bytes);
    told_count = 0;
    void *caller = __builtin_return_address(0);
    code(capture);
    bool is_found = false;
    for (unsigned i = 0; i < frame_count; i++) {
        is_found |= frames[i] == caller;
    }
    assert_true(is_found);
    assert_ptr_equal(frames[1], (char *)code + 6);
    munmap((void *)code, 4096);
}

static void a_wrong_frame_pointer_ends_the_walk(void **state) {
    (void)state;
    /* push rbp; mov rbp, rsi; call rdi; pop rbp; ret */
    static const unsigned char bytes[] = {0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3};
    void (*code)(void (*)(void), uintptr_t) = make_code(bytes, sizeof bytes);
    char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const uintptr_t wrong[] = {0,
                               1,
                               16,
                               4096,
                               here & ~(uintptr_t)15,
                               here + 3,
                               (uintptr_t)hole,
                               UINTPTR_MAX,
                               UINTPTR_MAX / 2,
                               here + (256 << 10)};
    for (unsigned i = 0; i < ARRAY_LENGTH(wrong); i++) {
        code(capture, wrong[i]);
        assert_true(frame_count >= 2);
        assert_ptr_equal(frames[1], (char *)code + 6);
    }
    munmap(hole, 4096);
    munmap((void *)code, 4096);
}

/* Where a register that is no frame pointer leads to other data, such as text, beside the stack
 * pointer: what cannot be an address has no module either. */
static void a_frame_pointer_to_data_ends_the_walk(void **state) {
    (void)state;
    static const unsigned char bytes[] = {0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3};
    void (*code)(void (*)(void), uintptr_t) = make_code(bytes, sizeof bytes);
    _Alignas(16) char text[] = "this is no return address";
    code(capture, (uintptr_t)opaque(text));
    assert_int_equal(frame_count, 2);
    assert_ptr_equal(frames[1], (char *)code + 6);
    munmap((void *)code, 4096);
}

static void (*code_beside)(void (*)(void), uintptr_t);
static uintptr_t beside;

static void coroutine_with_a_wrong_pointer(void) {
    code_beside(capture, beside);
}

/* To where something was when a walk was there last. */
static void a_frame_pointer_to_what_is_gone_ends_the_walk(void **state) {
    (void)state;
    enum { SIZE = 65536 };
    static const unsigned char bytes[] = {0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3};
    char *memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    code_beside = make_code(bytes, sizeof bytes);
    beside = (uintptr_t)memory + SIZE;
    for (unsigned i = 0; i < 2; i++) {
        ucontext_t inside;
        getcontext(&inside);
        inside.uc_stack.ss_sp = memory;
        inside.uc_stack.ss_size = SIZE;
        inside.uc_link = &outside;
        makecontext(&inside, coroutine_with_a_wrong_pointer, 0);
        swapcontext(&outside, &inside);
        assert_int_equal(frame_count, 2);
        munmap(memory + SIZE, SIZE);
    }
    munmap(memory, SIZE);
    munmap((void *)code_beside, 4096);
}
#endif

int main(void) {
    expect_allocator();
    watchdog_start(120, "stack");
    stack_prepare();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_frame),
        cmocka_unit_test(what_is_asked_for_is_all_there_is),
        cmocka_unit_test(through_libc),
        cmocka_unit_test(through_a_signal),
        cmocka_unit_test(on_a_small_stack_of_ones_own),
        cmocka_unit_test(in_many_threads),
        cmocka_unit_test(marked_frames_begin_at_the_caller),
#if defined(__x86_64__)
        cmocka_unit_test(code_with_frame_pointers_needs_no_tables),
        cmocka_unit_test(a_wrong_frame_pointer_ends_the_walk),
        cmocka_unit_test(a_frame_pointer_to_data_ends_the_walk),
        cmocka_unit_test(a_frame_pointer_to_what_is_gone_ends_the_walk),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
