// Pareto-distributed sizes and lifetimes, in the manner of alloc-test by IT Hare.
//
// Each thread has <slots> places. Which place an operation takes, and how large a block it puts
// there, follow the 80/20 rule: a few places are replaced all the time, most of them seldom, and of
// sizes up to <size-max> bytes small powers of two rule. A place with a block is emptied, an empty
// one is filled, by operator new and delete; one word of each cache line of a block is written and
// summed up, as a program that uses its memory would.
#include <cmath>
#include <new>
#include <vector>

#include "workload.h"

namespace {

argument arguments[] = {
    {"threads", "threads side by side", 1, 1, THREADS_MOST, nullptr},
    {"operations", "operations of each thread", 4000000, 1, UINT64_MAX, nullptr},
    {"slots", "places of each thread", 100000, 1, 100000000, nullptr},
    {"size-max", "largest block, bytes, a power of two", 4096, 16, 1 << 24, nullptr},
};

constexpr size_t line_bytes = 64;

struct Slot {
    unsigned char *block = nullptr;
    size_t bytes = 0;
};

// Maps a uniform number in [0, 1) to one where the first fifth takes four fifths of the weight, and
// so on within that fifth: u to the power log(0.2) / log(0.8).
double pareto_80_20(random_stream *random) {
    double u = static_cast<double>(random_next(random) >> 11) * 0x1p-53;
    double cubed = u * u * u;
    double sixth = cubed * cubed;
    return sixth * u;  // log(0.2) / log(0.8) = 7.2: the seventh power is close and cheap
}

size_t random_size(random_stream *random, unsigned powers) {
    // The power of two is Pareto-distributed, the size uniform within it.
    unsigned power = 3 + static_cast<unsigned>(pareto_80_20(random) * powers);
    size_t half = size_t{1} << power;
    return half + random_below(random, half);
}

void slot_fill(Slot *slot, size_t bytes) {
    slot->block = static_cast<unsigned char *>(::operator new(bytes));
    slot->bytes = bytes;
    for (size_t b = 0; b < bytes; b += line_bytes) slot->block[b] = 1;
    block_write(slot->block, bytes);
}

uint64_t slot_empty(Slot *slot) {
    block_verify(slot->block, slot->bytes);
    uint64_t sum = 0;
    for (size_t b = line_bytes; b + 1 < slot->bytes; b += line_bytes) sum += slot->block[b];
    if (sum != (slot->bytes - 2) / line_bytes)
        workload_fail("block %p of %zu bytes lost its contents", static_cast<void *>(slot->block),
                      slot->bytes);
    ::operator delete(slot->block);
    slot->block = nullptr;
    return sum;
}

void *churn(void *context) {
    random_stream random = random_seeded(*static_cast<uint64_t *>(context));
    std::vector<Slot> slots(arguments[2].value);
    unsigned powers = 0;
    while ((size_t{16} << powers) < arguments[3].value) powers++;
    for (uint64_t i = 0; i < arguments[1].value; i++) {
        auto place = static_cast<size_t>(pareto_80_20(&random) * static_cast<double>(slots.size()));
        Slot *slot = &slots[place];
        if (slot->block)
            slot_empty(slot);
        else
            slot_fill(slot, random_size(&random, powers + 1));
    }
    for (Slot &slot : slots)
        if (slot.block) slot_empty(&slot);
    return nullptr;
}

}  // namespace

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Pareto-distributed sizes and lifetimes, by new and delete.",
                    arguments, sizeof arguments / sizeof *arguments);
    if (arguments[3].value & (arguments[3].value - 1))
        workload_misuse("size-max: %llu is not a power of two",
                        static_cast<unsigned long long>(arguments[3].value));
    std::vector<uint64_t> seeds(arguments[0].value);
    for (size_t t = 0; t < seeds.size(); t++) seeds[t] = t + 1;
    double started_s = time_now_s();
    threads_run(seeds.size(), churn, seeds.data(), sizeof seeds[0]);
    report_print(arguments[0].value * arguments[1].value, started_s);
    return 0;
}
