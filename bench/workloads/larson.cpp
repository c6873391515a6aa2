// A server whose blocks outlive the threads that made them: Larson and Krishnan, "Memory allocation
// for long-running server applications" (1998).
//
// <threads> chains of threads work side by side, each on an array of <chunks> blocks of <min> to
// <max> bytes. A thread replaces random blocks of its array, <chunks> * <rounds> times, by sized
// delete and new; then it starts the next thread of its chain, which inherits the array, and ends.
// So every free soon meets blocks that another thread, often a dead one, has allocated. The classic
// arguments are kept: with <sleep> seconds above 0 the chains run that long and the result is the
// rate that the last line prints; with 0 each chain is <generations> threads long, so that wall
// time compares. As published, one thread at first fills all arrays in random order.
#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "workload.h"

namespace {

argument arguments[] = {
    {"sleep", "seconds to run, 0 = a fixed number of generations", 0, 0, 3600, nullptr},
    {"min", "smallest block, bytes", 8, 1, 1 << 30, nullptr},
    {"max", "largest block, bytes", 1000, 1, 1 << 30, nullptr},
    {"chunks", "blocks of each chain", 5000, 1, 100000000, nullptr},
    {"rounds", "replacements of a thread, in multiples of chunks", 100, 1, 1000000, nullptr},
    {"seed", "seed of the random numbers", 4141, 0, UINT32_MAX, nullptr},
    {"threads", "chains of threads side by side", 2, 1, THREADS_MOST, nullptr},
    {"generations", "threads of a chain when sleep is 0", 4, 1, 1000000, nullptr},
};

std::atomic<bool> stopped{false};

struct Block {
    void *address;
    size_t bytes;
};

struct Chain {
    std::vector<Block> blocks;
    random_stream random;
    uint64_t generations_left;
    uint64_t replaced = 0;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    bool ended = false;
};

size_t random_size(random_stream *random) {
    return random_between(random, arguments[1].value, arguments[2].value);
}

Block filled(size_t bytes) {
    Block block{::operator new(bytes), bytes};
    block_write(block.address, bytes);
    return block;
}

void emptied(const Block &block) {
    block_verify(block.address, block.bytes);
    ::operator delete(block.address, block.bytes);
}

bool chain_continues(Chain *chain) {
    if (arguments[0].value) return !stopped.load(std::memory_order_relaxed);
    return --chain->generations_left > 0;
}

void chain_end(Chain *chain) {
    pthread_mutex_lock(&chain->lock);
    chain->ended = true;
    pthread_cond_signal(&chain->changed);
    pthread_mutex_unlock(&chain->lock);
}

void *serve(void *context) {
    Chain *chain = static_cast<Chain *>(context);
    // Its own copy: the state of the random numbers should not share a line with another chain's.
    random_stream random = chain->random;
    uint64_t count = chain->blocks.size();
    uint64_t replacements = count * arguments[4].value;
    uint64_t done = 0;
    for (; done < replacements; done++) {
        if (arguments[0].value && stopped.load(std::memory_order_relaxed)) break;
        Block &block = chain->blocks[random_below(&random, count)];
        emptied(block);
        block = filled(random_size(&random));
    }
    chain->random = random;
    chain->replaced += done;
    if (chain_continues(chain))
        pthread_detach(thread_start(serve, chain));
    else
        chain_end(chain);
    return nullptr;
}

void chains_fill(std::vector<Chain> *chains) {
    random_stream random = random_seeded(arguments[5].value);
    for (Chain &chain : *chains) {
        for (Block &block : chain.blocks) block = filled(random_size(&random));
        for (uint64_t i = chain.blocks.size() - 1; i > 0; i--)
            std::swap(chain.blocks[i], chain.blocks[random_below(&random, i + 1)]);
    }
}

}  // namespace

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Larson's server: blocks outlive the threads that made them.",
                    arguments, sizeof arguments / sizeof *arguments);
    if (arguments[1].value > arguments[2].value) workload_misuse("min is larger than max");

    std::vector<Chain> chains(arguments[6].value);
    for (size_t i = 0; i < chains.size(); i++) {
        chains[i].blocks.resize(arguments[3].value);
        chains[i].random = random_seeded(arguments[5].value + 1 + i);
        chains[i].generations_left = arguments[7].value;
    }
    chains_fill(&chains);

    double started_s = time_now_s();
    for (Chain &chain : chains) pthread_detach(thread_start(serve, &chain));
    if (arguments[0].value) {
        timespec pause = {static_cast<time_t>(arguments[0].value), 0};
        nanosleep(&pause, nullptr);
        stopped.store(true, std::memory_order_relaxed);
    }
    uint64_t replaced = 0;
    for (Chain &chain : chains) {
        pthread_mutex_lock(&chain.lock);
        while (!chain.ended) pthread_cond_wait(&chain.changed, &chain.lock);
        pthread_mutex_unlock(&chain.lock);
        replaced += chain.replaced;
    }
    report_print(replaced, started_s);
    for (Chain &chain : chains)
        for (const Block &block : chain.blocks) emptied(block);
    return 0;
}
