// Input for a C++ compiler: the standard library's containers and algorithms in many shapes. The
// compiler builds its trees for each instance; the program is never run.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Tag {
    int value = N;
    bool operator<(const Tag &other) const {
        return value < other.value;
    }
};

template <int N> int work(int seed) {
    std::map<Tag<N>, std::vector<std::string>> lists;
    std::unordered_map<int, std::shared_ptr<Tag<N>>> shared;
    std::variant<Tag<N>, std::string, std::vector<int>> either;
    for (int i = 0; i < seed; i++) {
        lists[Tag<N>{i % 7}].push_back(std::to_string(i));
        shared.emplace(i, std::make_shared<Tag<N>>());
    }
    either = std::vector<int>(seed, N);
    auto numbers = std::get<std::vector<int>>(either);
    std::sort(numbers.begin(), numbers.end(),
              [](int a, int b) { return a % (N + 1) > b % (N + 1); });
    std::function<int(int, int)> add = [seed](int a, int b) { return a + b * seed; };
    auto pair = std::make_tuple(lists.size(), shared.size(), numbers.size());
    return std::accumulate(numbers.begin(), numbers.end(), static_cast<int>(std::get<0>(pair)),
                           add);
}

template <int... N> int all(int seed, std::integer_sequence<int, N...>) {
    return (work<N>(seed) + ...);
}

int main(int count, char **) {
    return all(count, std::make_integer_sequence<int, 3>());
}
