// Counts the words of its arguments; every node and string comes from primalloc by operator new.
#include <primalloc.h>

#include <iostream>
#include <map>
#include <memory>
#include <string>

int main(int argc, char **argv) {
    std::map<std::string, unsigned> words;
    for (int i = 1; i < argc; i++) {
        words[argv[i]]++;
    }
    const auto probe = std::make_unique<int>();
    const bool is_ours = prim_malloc_usable_size(probe.get()) != 0;
    std::cout << "primalloc " << prim_version()
              << (is_ours ? " serves new\n" : " does not serve\n");
    for (const auto &[word, count] : words) {
        std::cout << count << ' ' << word << '\n';
    }
}
