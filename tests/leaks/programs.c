/* Small programs that leak or do not, one for each name on the command line. What the case used of
 * registers and stack is overwritten before the program ends, unless there is one word more. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    char text[40];
};

static void *volatile global;
static char *volatile inner;
static __thread void *volatile local_data;
static pthread_key_t key;
static pthread_barrier_t barrier;

__attribute__((noinline)) static struct node *make(struct node *next) {
    struct node *node = malloc(sizeof *node);
    memset(node, 0, sizeof *node);
    node->next = next;
    return node;
}

__attribute__((noinline)) static struct node *make_list(unsigned length) {
    struct node *list = NULL;
    while (length--) {
        list = make(list);
    }
    return list;
}

__attribute__((noinline)) static struct node *make_ring(unsigned length) {
    struct node *last = make(NULL);
    struct node *list = last;
    while (--length) {
        list = make(list);
    }
    last->next = list;
    return list;
}

static void use(void *block) {
    __asm__ volatile("" : : "r"(block) : "memory");
}

static void kept_in_global(void) {
    global = make(NULL);
}
static void lost(void) {
    use(make(NULL));
}
static void freed(void) {
    free(make(NULL));
}
static void list_kept(void) {
    global = make_list(5);
}
static void list_lost(void) {
    use(make_list(5));
}
static void ring_kept(void) {
    global = make_ring(4);
}
static void ring_lost(void) {
    use(make_ring(4));
}
static void inner_kept(void) {
    inner = make(NULL)->text;
}
static void thread_local_kept(void) {
    local_data = make(NULL);
}
static void overwritten(void) {
    global = make(NULL);
    global = make(NULL);
}

static void zeroed_lost(void) {
    use(calloc(10, 10));
}
static void aligned_lost(void) {
    use(aligned_alloc(64, 128));
}
static void grown_lost(void) {
    use(realloc(malloc(10), 3000));
}
static void large_lost(void) {
    use(malloc(1 << 20));
}
static void copied_lost(void) {
    use(strdup("a text of some length"));
}
static void empty_lost(void) {
    use(malloc(0));
}
static void empty_kept(void) {
    global = malloc(0);
}

static void only_in_freed(void) { /* the one pointer lies in a block that is free again */
    struct node *list = make_list(2);
    free(list);
}

static void only_in_moved(void) { /* the one pointer lies in what realloc has moved from */
    enum { WORDS = 25, PLACE = 3 };
    void **words = malloc(WORDS * sizeof *words);
    memset(words, 0, WORDS * sizeof *words);
    words[PLACE] = make(NULL);
    global = words;
    words = realloc(words, 5000);
    words[PLACE] = NULL;
    inner = (char *)words;
}

static void lost_beside_unwritten(void) { /* where a list of free blocks led to the lost one */
    global = malloc(sizeof(struct node));
    use(make(NULL));
}
static void lost_beside_short(void) { /* the same: it has no room for a pointer */
    global = malloc(1);
    use(malloc(5));
}

/* Memory of one's own is nobody's root. Its ends may touch a thread's data, whose surroundings are
 * looked at. */
static void only_in_mapping(void) {
    enum { SIZE = 1 << 20 };
    void **words = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    words[SIZE / 2 / sizeof *words] = make(NULL);
}

static void *hold_on_stack(void *argument) {
    struct node *volatile node = make(NULL);
    pthread_barrier_wait(&barrier);
    pause();
    use(node);
    return argument;
}

static void *hold_in_thread_local(void *argument) {
    local_data = make(NULL);
    pthread_barrier_wait(&barrier);
    pause();
    return argument;
}

static void *hold_by_key(void *argument) {
    pthread_setspecific(key, make(NULL));
    pthread_barrier_wait(&barrier);
    pause();
    return argument;
}

static volatile int is_spinning;

static void *hold_in_register(void *argument) {
#if defined(__x86_64__)
    register struct node *node __asm__("r12") = make(NULL);
    __asm__ volatile("movl $1, %1\n1:\tpause\n\tjmp 1b" : "+r"(node), "=m"(is_spinning));
#else
    (void)argument;
    hold_on_stack(argument);
#endif
    return argument;
}

static void *hold_and_end(void *argument) {
    local_data = make(NULL);
    return argument;
}

static void start(void *(*body)(void *)) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_key_create(&key, NULL);
    pthread_create(&thread, NULL, body, NULL);
    if (body == hold_and_end) {
        pthread_join(thread, NULL);
    } else if (body == hold_in_register) {
        while (!is_spinning) {}
    } else {
        pthread_barrier_wait(&barrier);
    }
}

static void on_thread_stack(void) {
    start(hold_on_stack);
}
static void in_thread_local(void) {
    start(hold_in_thread_local);
}
static void by_thread_key(void) {
    start(hold_by_key);
}
static void in_thread_register(void) {
    start(hold_in_register);
}
static void thread_ended(void) {
    start(hold_and_end);
}

static void *plugin;

static void call_plugin(const char *name) {
    plugin = dlopen(getenv("LEAKS_PLUGIN"), RTLD_NOW);
    void (*function)(void) = plugin ? (void (*)(void))dlsym(plugin, name) : NULL;
    if (!function) {
        puts("no plugin");
        _exit(3);
    }
    function();
}

static void plugin_keeps(void) {
    call_plugin("plugin_keep");
}
static void plugin_keeps_in_thread_local(void) {
    call_plugin("plugin_keep_local");
}
static void plugin_loses(void) {
    call_plugin("plugin_lose");
}

static void plugin_goes(void) { /* with the global that pointed there */
    call_plugin("plugin_keep");
    dlclose(plugin);
    plugin = NULL;
}

#define CASE(name) \
    { #name, name }
static const struct {
    const char *name;
    void (*body)(void);
} cases[] = {
    CASE(kept_in_global),
    CASE(lost),
    CASE(freed),
    CASE(list_kept),
    CASE(list_lost),
    CASE(ring_kept),
    CASE(ring_lost),
    CASE(inner_kept),
    CASE(thread_local_kept),
    CASE(overwritten),
    CASE(zeroed_lost),
    CASE(aligned_lost),
    CASE(grown_lost),
    CASE(large_lost),
    CASE(copied_lost),
    CASE(empty_lost),
    CASE(empty_kept),
    CASE(only_in_freed),
    CASE(only_in_moved),
    CASE(lost_beside_unwritten),
    CASE(lost_beside_short),
    CASE(only_in_mapping),
    CASE(on_thread_stack),
    CASE(in_thread_local),
    CASE(by_thread_key),
    CASE(in_thread_register),
    CASE(thread_ended),
    CASE(plugin_keeps),
    CASE(plugin_keeps_in_thread_local),
    CASE(plugin_loses),
    CASE(plugin_goes),
};

/* Overwrites the stack that the case has used, and registers along with it. */
__attribute__((noinline)) static void forget(void) {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
    __asm__ volatile("" ::: "rbx", "r12", "r13", "r14", "r15", "memory");
}

__attribute__((noinline)) static void run(const char *name) {
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].body();
        }
    }
}

/* This program, started again, loses a list; then we lose one node. */
static void run_with_another(const char *program) {
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "list_lost", NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    make(NULL);
}

int main(int count, char **arguments) {
    if (count < 2) {
        for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            puts(cases[i].name);
        }
        return 0;
    }
    if (strcmp(arguments[1], "with_another") == 0) {
        run_with_another(arguments[0]);
    } else {
        run(arguments[1]);
    }
    if (count == 2) { /* with one word more all stays where it is */
        forget();
    }
    return 0;
}
