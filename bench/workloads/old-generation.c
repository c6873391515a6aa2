/* An old generation: most memory lives long, most objects die young.
 *
 * First <old> MiB of objects of 16 bytes to 4 KiB are built. Then <operations> objects come, each
 * into one of 512 young places whose object it replaces; one in a hundred is kept instead and
 * replaces a random old one, which may have any size. So old memory gets holes slowly, everywhere.
 */
#include "workload.h"

enum { YOUNG = 512, KEPT_ONE_IN = 100, LEAST_POWER = 4, MOST_POWER = 11 };

static struct argument arguments[] = {
    {"old", "MiB of old objects", 64, 1, 65536, NULL},
    {"operations", "objects that come", 4000000, 0, UINT64_MAX, NULL},
};

static void *object_new(struct random_stream *random) {
    return sized_new(random_size_log(random, LEAST_POWER, MOST_POWER));
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Young objects beside a large old generation.", arguments,
                    sizeof arguments / sizeof *arguments);
    enum { MEAN_BYTES = 766 }; /* of random_size_log over these powers */
    uint64_t count = (arguments[0].value << 20) / MEAN_BYTES;
    struct random_stream random = random_seeded(1);
    void **old = (void **)table_new(count, sizeof *old);
    void *young[YOUNG] = {0};
    double started_s = time_now_s();
    for (uint64_t i = 0; i < count; i++) old[i] = object_new(&random);
    for (uint64_t i = 0; i < arguments[1].value; i++) {
        uint64_t is_kept = random_below(&random, KEPT_ONE_IN) == 0;
        void **place =
            is_kept ? &old[random_below(&random, count)] : &young[random_below(&random, YOUNG)];
        if (*place) sized_delete(*place);
        *place = object_new(&random);
    }
    for (uint64_t i = 0; i < YOUNG; i++) {
        if (young[i]) sized_delete(young[i]);
    }
    for (uint64_t i = 0; i < count; i++) sized_delete(old[i]);
    report_print(count + arguments[1].value, started_s);
    free(old);
    return 0;
}
