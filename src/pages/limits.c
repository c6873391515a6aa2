/* limits.c - see limits.h. */
#include "pages/limits.h"

#include "base/atomics.h"
#include "base/bits.h"
#include "os/text_file.h"

enum { MAP_COUNT_DEFAULT = 65530, MAP_COUNT_DIVISOR = 4 };

size_t limits_map_budget(void) {
    static _Atomic size_t known_budget; /* (atomic: any thread computes the same value) */
    size_t budget = load_relaxed(&known_budget);
    if (PRIM_UNLIKELY(budget == 0)) {
        uint64_t count = MAP_COUNT_DEFAULT;
        if (!text_file_number("/proc/sys/vm/max_map_count", &count)) {
            count = MAP_COUNT_DEFAULT; /* no /proc here */
        }
        budget = bits_max(count / MAP_COUNT_DIVISOR, 1);
        store_relaxed(&known_budget, budget);
    }
    return budget;
}
