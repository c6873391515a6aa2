// The same with the containers of C++.
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Node {
    std::shared_ptr<Node> other;
    std::string text = "long enough to need a block of its own, and then some";
};

struct First {
    virtual ~First() = default;
    long a = 1;
};
struct Second {
    virtual ~Second() = default;
    long b = 2;
};
struct Both : First, Second {};

std::vector<std::unique_ptr<Node>> *volatile nodes;
std::map<int, std::string> names;
Second *volatile second;
Node *volatile array;

void vector_kept() {
    nodes = new std::vector<std::unique_ptr<Node>>;
    for (int i = 0; i < 10; i++) {
        nodes->push_back(std::make_unique<Node>());
    }
}
void map_freed_at_exit() {
    names[1] = std::string(100, 'x');
}
void second_base_kept() {
    second = new Both;
}  // points into the block
void array_kept() {
    array = new Node[3];
}  // behind the number of elements
void vector_lost() {
    auto *v = new std::vector<std::string>(3, std::string(50, 'y'));
    asm volatile("" : : "r"(v));
}
void map_lost() {
    auto *m = new std::map<int, int>;
    for (int i = 0; i < 20; i++) {
        (*m)[i] = i;
    }
    asm volatile("" : : "r"(m));
}
void list_lost() {  // each element leads into itself, and to its neighbours' beginnings
    auto *l = new std::list<std::string>(5, "short");
    asm volatile("" : : "r"(l));
}
void shared_cycle_lost() {
    auto a = std::make_shared<Node>();
    auto b = std::make_shared<Node>();
    a->other = b;
    b->other = a;
}
void thread_joined() {
    std::thread([] { std::string s(1000, 'z'); }).join();
}
void exception_caught() {
    try {
        throw std::string(100, 'e');
    } catch (const std::string &) {}
}

const struct {
    const char *name;
    void (*body)();
} cases[] = {
    {"vector_kept", vector_kept},
    {"map_freed_at_exit", map_freed_at_exit},
    {"second_base_kept", second_base_kept},
    {"array_kept", array_kept},
    {"vector_lost", vector_lost},
    {"map_lost", map_lost},
    {"list_lost", list_lost},
    {"shared_cycle_lost", shared_cycle_lost},
    {"thread_joined", thread_joined},
    {"exception_caught", exception_caught},
};

__attribute__((noinline)) void forget() {
    volatile char room[16384];
    std::memset(const_cast<char *>(room), 0, sizeof room);
    asm volatile("" ::: "rbx", "r12", "r13", "r14", "r15", "memory");
}

}  // namespace

int main(int count, char **arguments) {
    for (const auto &each : cases) {
        if (count < 2) {
            std::puts(each.name);
        } else if (std::strcmp(each.name, arguments[1]) == 0) {
            each.body();
        }
    }
    forget();
}
