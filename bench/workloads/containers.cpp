// What an ordinary C++ program asks of malloc: the standard library's containers.
//
// Each round fills a map from strings to vectors, a hash map from numbers to strings, a list and a
// table of shared pointers, then looks up, erases a half at random, fills again and drops all of
// it. Nodes of 32 to 112 bytes, strings on both sides of the small-string limit and growing vectors
// come and go together; the sizes of the containers are checked at the end of each round.
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload.h"

namespace {

argument arguments[] = {
    {"rounds", "rounds", 4, 1, UINT32_MAX, nullptr},
    {"entries", "entries of each container", 20000, 16, 100000000, nullptr},
};

std::string word_of(uint64_t number) {
    std::string word = "entry-" + std::to_string(number);
    // A third of the words is longer than what fits into the string object itself.
    if (number % 3 == 0) word.append(number % 64, 'x');
    return word;
}

struct Node {
    explicit Node(uint64_t number) : name(word_of(number)), number(number) {}
    std::string name;
    uint64_t number;
    std::shared_ptr<Node> before;
};

class Program {
  public:
    explicit Program(uint64_t seed) : random_(random_seeded(seed)) {}

    void fill(uint64_t entries) {
        for (uint64_t i = 0; i < entries; i++) {
            uint64_t number = random_next(&random_) >> 20;
            vectors_[word_of(number)].push_back(number);
            names_.emplace(number, word_of(number));
            queue_.push_back(word_of(i));
            if (queue_.size() > entries / 2) queue_.pop_front();
            auto node = std::make_shared<Node>(number);
            if (!nodes_.empty()) node->before = nodes_[random_below(&random_, nodes_.size())];
            nodes_.push_back(std::move(node));
        }
    }

    void erase_half() {
        for (auto entry = vectors_.begin(); entry != vectors_.end();)
            entry = random_below(&random_, 2) ? vectors_.erase(entry) : std::next(entry);
        for (auto entry = names_.begin(); entry != names_.end();)
            entry = random_below(&random_, 2) ? names_.erase(entry) : std::next(entry);
        for (auto &node : nodes_) node->before.reset();
        nodes_.resize(nodes_.size() / 2);
    }

    // Every name must still be that of its number.
    void verify() const {
        for (const auto &[number, name] : names_)
            if (name != word_of(number))
                workload_fail("a string lost its contents: %s", name.c_str());
        for (const auto &node : nodes_)
            if (node->name != word_of(node->number))
                workload_fail("a node lost its contents: %s", node->name.c_str());
    }

  private:
    random_stream random_;
    std::map<std::string, std::vector<uint64_t>> vectors_;
    std::unordered_map<uint64_t, std::string> names_;
    std::list<std::string> queue_;
    std::vector<std::shared_ptr<Node>> nodes_;
};

}  // namespace

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Maps, hash maps, lists, strings and shared pointers.", arguments,
                    sizeof arguments / sizeof *arguments);
    double started_s = time_now_s();
    for (uint64_t round = 0; round < arguments[0].value; round++) {
        Program program(round);
        program.fill(arguments[1].value);
        program.erase_half();
        program.fill(arguments[1].value);
        program.verify();
    }
    report_print(arguments[0].value * arguments[1].value * 2, started_s);
    return 0;
}
