#include "os/cgroup.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"

#define NONE CGROUP_UNLIMITED
#define GIB ((uint64_t)1 << 30)
#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MEMORY "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
#define V1_CPU "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
#define NO_LIMIT_V1 "9223372036854771712\n"
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char root[64] = "/tmp/primalloc-cgroup-XXXXXX";

struct file {
    const char *path; /* relative to the tree's root */
    const char *text;
};

struct scene {
    const char *what;
    const char *group;     /* /proc/self/cgroup; NULL: missing */
    const char *mounts;    /* /proc/self/mountinfo; NULL: missing */
    struct file files[10]; /* of the hierarchies */
    uint64_t hard;
    uint64_t soft;
    unsigned processors;
};

static const struct scene scenes[] = {
    {"no control groups at all", NULL, NULL, {{0}}, NONE, NONE, 0},
    {"no group is named", "", V2_MOUNT, {{"sys/fs/cgroup/memory.max", "1"}}, NONE, NONE, 0},
    {"nothing is mounted",
     "0::/user\n",
     "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
     {{0}},
     NONE,
     NONE,
     0},
    {"version 2, systemd",
     "0::/system.slice/web.service\n",
     "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" V2_MOUNT
     "40 23 0:5 / /proc rw - proc proc rw\n",
     {{"sys/fs/cgroup/system.slice/memory.max", "max\n"},
      {"sys/fs/cgroup/system.slice/memory.high", "max\n"},
      {"sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/system.slice/web.service/memory.max", "1073741824\n"},
      {"sys/fs/cgroup/system.slice/web.service/memory.high", "536870912\n"},
      {"sys/fs/cgroup/system.slice/web.service/cpu.max", "150000 100000\n"}},
     GIB,
     GIB / 2,
     2},
    {"version 2, an ancestor is tighter",
     "0::/a/b/c\n",
     V2_MOUNT,
     {{"sys/fs/cgroup/a/memory.max", "268435456\n"},
      {"sys/fs/cgroup/a/b/memory.max", "1073741824\n"},
      {"sys/fs/cgroup/a/b/memory.high", "134217728\n"},
      {"sys/fs/cgroup/a/b/c/memory.max", "max\n"},
      {"sys/fs/cgroup/a/b/c/memory.high", "max\n"},
      {"sys/fs/cgroup/a/cpu.max", "300000 100000\n"},
      {"sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"},
      {"sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n"}},
     GIB / 4,
     GIB / 8,
     1},
    {"version 2, no limits",
     "0::/a\n",
     V2_MOUNT,
     {{"sys/fs/cgroup/a/memory.max", "max\n"},
      {"sys/fs/cgroup/a/memory.high", "max\n"},
      {"sys/fs/cgroup/a/cpu.max", "max 100000\n"}},
     NONE,
     NONE,
     0},
    {"version 2 in a namespace: a container's own root",
     "0::/\n",
     "900 800 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n",
     {{"sys/fs/cgroup/memory.max", "2147483648\n"},
      {"sys/fs/cgroup/memory.high", "max\n"},
      {"sys/fs/cgroup/cpu.max", "250000 100000"}},
     2 * GIB,
     NONE,
     3},
    {"a namespace entered without a new mount: its ancestor is mounted",
     "0::/\n",
     "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
     {{"sys/fs/cgroup/memory.max", "1073741824\n"}},
     GIB,
     NONE,
     0},
    {"outside of the namespace: what is mounted, and nothing beyond it",
     "0::/../other\n",
     V2_MOUNT,
     {{"sys/fs/cgroup/memory.max", "1073741824\n"}, {"sys/fs/other/memory.max", "4096\n"}},
     GIB,
     NONE,
     0},
    {"version 1, docker without a namespace",
     "12:pids:/docker/" ID "\n9:memory:/docker/" ID "\n4:cpu,cpuacct:/docker/" ID
     "\n1:name=systemd:/docker/" ID "\n0::/system.slice/containerd.service\n",
     "700 600 0:30 /docker/" ID " /sys/fs/cgroup/systemd ro - cgroup cgroup rw,name=systemd\n"
     "701 600 0:32 /docker/" ID " /sys/fs/cgroup/memory ro master:15 - cgroup cgroup rw,memory\n"
     "702 600 0:33 /docker/" ID " /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
     {{"sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"},
      {"sys/fs/cgroup/memory/memory.stat",
       "cache 1\nrss 2\nhierarchical_memory_limit 536870912\ntotal_rss 4096\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100001\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     GIB / 2,
     NONE,
     2},
    {"version 1, an ancestor that only memory.stat tells of",
     "9:memory:/kubepods/pod1/" ID "\n4:cpuacct,cpu:/kubepods/pod1/" ID "\n",
     "701 600 0:32 /kubepods/pod1/" ID " /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
     {{"sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT_V1},
      {"sys/fs/cgroup/memory/memory.stat", "cache 0\nhierarchical_memory_limit 268435456\n"}},
     GIB / 4,
     NONE,
     0},
    {"version 1 without limits",
     "9:memory:/user\n4:cpu,cpuacct:/user\n",
     V1_MEMORY V1_CPU,
     {{"sys/fs/cgroup/memory/user/memory.limit_in_bytes", NO_LIMIT_V1},
      {"sys/fs/cgroup/memory/user/memory.stat", "hierarchical_memory_limit " NO_LIMIT_V1},
      {"sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us", "100000\n"}},
     NONE,
     NONE,
     0},
    {"version 1, a path of the host in a namespace: what is there of it",
     "9:memory:/docker/" ID "/inner\n4:cpu,cpuacct:/docker/" ID "\n",
     V1_MEMORY V1_CPU,
     {{"sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"},
      {"sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "268435456\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     GIB / 4,
     NONE,
     4},
    {"a mount whose top is another group is better than nothing",
     "9:memory:/elsewhere\n",
     "701 600 0:32 /docker/" ID " /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
     {{"sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"},
      {"sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 268435456\n"}},
     GIB / 4,
     NONE,
     0},
    {"but not where the right one is mounted, too",
     "9:memory:/mine\n",
     "701 600 0:32 /docker/" ID " /mnt/other ro - cgroup cgroup rw,memory\n" V1_MEMORY,
     {{"mnt/other/memory.limit_in_bytes", "4096\n"},
      {"sys/fs/cgroup/memory/mine/memory.limit_in_bytes", "1073741824\n"}},
     GIB,
     NONE,
     0},
    {"hybrid: memory in version 1, version 2 beside it",
     "3:memory:/user.slice\n2:cpu,cpuacct:/\n1:name=systemd:/user.slice\n0::/user.slice\n",
     V1_MEMORY V1_CPU "38 31 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
     {{"sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes", "1073741824\n"},
      {"sys/fs/cgroup/unified/user.slice/memory.max", "4096\n"},
      {"sys/fs/cgroup/unified/user.slice/cpu.max", "100000 100000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"}},
     GIB,
     NONE,
     0},
    {"hybrid: only the processors in version 1",
     "2:cpu:/a\n0::/b\n",
     "36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,xattr,cpu\n"
     "38 31 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
     {{"sys/fs/cgroup/unified/b/memory.max", "1073741824\n"},
      {"sys/fs/cgroup/unified/b/cpu.max", "100000 100000\n"},
      {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n"},
      {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"}},
     GIB,
     NONE,
     3},
    {"kubernetes, version 2, with systemd's names",
     "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
     "cri-containerd-" ID ".scope\n",
     V2_MOUNT,
     {{"sys/fs/cgroup/kubepods.slice/memory.max", "8589934592\n"},
      {"sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
       "memory.max",
       "1073741824\n"},
      {"sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
       "cri-containerd-" ID ".scope/memory.max",
       "max\n"},
      {"sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
       "cri-containerd-" ID ".scope/cpu.max",
       "20000 100000\n"}},
     GIB,
     NONE,
     1},
    {"names with colons, spaces and backslashes",
     "0::/a:b/my service.slice\n",
     "30 23 0:26 / /mnt/control\\040groups\\134x rw - cgroup2 cgroup2 rw\n",
     {{"mnt/control groups\\x/a:b/my service.slice/memory.max", "1073741824\n"}},
     GIB,
     NONE,
     0},
    {"the group was removed",
     "0::/a/b (deleted)\n",
     V2_MOUNT,
     {{"sys/fs/cgroup/a/memory.max", "1073741824\n"}},
     GIB,
     NONE,
     0},
    {"garbage",
     "\n\n:::\nx\n0:\n0:a:b\n5:memory\n0::/g",
     "\n- - - -\nx\n1 2 3 4 5 6 7 8 9\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2\n" V2_MOUNT
     "1 2 3 / /x - \n9 9 9 /",
     {{"sys/fs/cgroup/g/memory.max", "lots\n"},
      {"sys/fs/cgroup/g/memory.high", "99999999999999999999999\n"},
      {"sys/fs/cgroup/g/cpu.max", "1000"},
      {"sys/fs/cgroup/memory.max", ""},
      {"sys/fs/cgroup/cpu.max", "0 0\n"}},
     NONE,
     NONE,
     0},
    {"a quota without a period",
     "4:cpu,cpuacct:/\n",
     V1_CPU,
     {{"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "0\n"}},
     NONE,
     NONE,
     0},
    {"controllers of similar names are others",
     "5:memoryx:/m\n6:xmemory,cpuset:/m\n7:cpuacct:/m\n",
     V1_MEMORY V1_CPU,
     {{"sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096\n"}},
     NONE,
     NONE,
     0},
};

static void write_file(const char *path, const char *text, size_t size) {
    char whole[8192];
    int length = snprintf(whole, sizeof whole, "%s/%s", root, path);
    CHECK(length > 0 && (size_t)length < sizeof whole, "a path too long");
    for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    int file = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0, "%s: %s", whole, strerror(errno));
    CHECK(write(file, text, size) == (ssize_t)size, "%s: %s", whole, strerror(errno));
    close(file);
}

static void write_text(const char *path, const char *text) {
    write_file(path, text, strlen(text));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status;
    (void)type;
    return place->level ? remove(path) : 0;
}

static void clear_tree(void) {
    CHECK(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "cannot clear %s", root);
}

static void expect(const char *what, uint64_t hard, uint64_t soft, unsigned processors) {
    errno = ERRNO_MARK;
    struct cgroup_memory memory = cgroup_memory_limits(root);
    unsigned count = cgroup_processor_count(root);
    CHECK(errno == ERRNO_MARK, "%s: errno %d", what, errno);
    if (memory.hard == CGROUP_UNKNOWN) { /* as the scenes have it */
        memory.hard = NONE;
    }
    CHECK(memory.hard == hard, "%s: memory %#llx, not %#llx", what, (unsigned long long)memory.hard,
          (unsigned long long)hard);
    CHECK(memory.soft == soft, "%s: memory.high %#llx, not %#llx", what,
          (unsigned long long)memory.soft, (unsigned long long)soft);
    CHECK(count == processors, "%s: %u processors, not %u", what, count, processors);
}

static void test_scenes(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(scenes); i++) {
        const struct scene *scene = &scenes[i];
        if (scene->group) {
            write_text("proc/self/cgroup", scene->group);
        }
        if (scene->mounts) {
            write_text("proc/self/mountinfo", scene->mounts);
        }
        for (const struct file *file = scene->files; file->path; file++) {
            write_text(file->path, file->text);
        }
        expect(scene->what, scene->hard, scene->soft, scene->processors);
        clear_tree();
    }
}

/* Appends count copies of a text; returns the new length. */
static size_t repeat(char *text, size_t length, const char *piece, size_t count) {
    for (size_t i = 0; i < count; i++) {
        length += (size_t)sprintf(text + length, "%s", piece);
    }
    return length;
}

/* Lines longer than any buffer, and more mounts than a machine has. */
static void test_long_files(void **state) {
    (void)state;
    enum { ROOM = 4 << 20 };
    char *text = malloc(ROOM);
    assert_non_null(text);
    size_t length = repeat(text, 0, "9:", 1);
    length = repeat(text, length, "controller,", 3000);
    length = repeat(text, length, "memory:/deep", 1);
    length = repeat(text, length, "/0123456789", 2000); /* beyond what a path may be */
    length = repeat(text, length, "\n8:cpu:/\n", 1);
    write_file("proc/self/cgroup", text, length);
    length =
        repeat(text, 0, "22 1 8:1 / /mnt/disk rw,relatime shared:1 - ext4 /dev/sda1 rw\n", 9999);
    length = repeat(text, length, "22 1 8:1 / /mnt", 1);
    length = repeat(text, length, "/a-long-name-of-a-directory", 5000);
    length = repeat(text, length, " rw - overlay overlay rw", 1);
    length = repeat(text, length, ",lowerdir=/var/lib/docker/overlay2/l/ABCDEFGHIJKLMNOPQR", 5000);
    length = repeat(text, length, "\n35 31 0:32 / /sys/fs/cgroup/memory rw", 1);
    length = repeat(text, length, " shared:12345", 2000);
    length = repeat(text, length, " - cgroup cgroup rw", 1);
    length = repeat(text, length, ",option", 2000);
    length = repeat(text, length, ",memory\n" V1_CPU, 1);
    CHECK(length < ROOM, "a text of %zu bytes", length);
    write_file("proc/self/mountinfo", text, length);
    write_text("sys/fs/cgroup/memory/deep/memory.limit_in_bytes", "1073741824\n");
    write_text("sys/fs/cgroup/memory/deep/0123456789/memory.limit_in_bytes", "536870912\n");
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    write_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    expect("long files", GIB / 2, NONE, 2);
    clear_tree();
    free(text);
}

/* A deep group whose path the kernel still takes is read itself. */
static void test_long_path(void **state) {
    (void)state;
    char group[4096];
    char path[8192];
    size_t length = repeat(group, 0, "/", 1);
    length = repeat(group, length, "a-directory-of-a-name-of-45-bytes-in-a-row-a/", 80);
    group[length - 1] = '\0';
    snprintf(path, sizeof path, "0::%s\n", group);
    write_text("proc/self/cgroup", path);
    write_text("proc/self/mountinfo", V2_MOUNT);
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.max", group);
    write_text(path, "1073741824\n");
    expect("a long path", GIB, NONE, 0);
    clear_tree();
}

/* Random changes of good files: no crash, whatever the answer. */
static void test_noise(void **state) {
    (void)state;
    struct random random = unit_random();
    for (size_t i = 0; i < scaled(2000); i++) {
        const struct scene *scene = &scenes[3 + random_below(&random, ARRAY_LENGTH(scenes) - 3)];
        const char *source[] = {scene->group, scene->mounts};
        static const char *const paths[] = {"proc/self/cgroup", "proc/self/mountinfo"};
        for (size_t which = 0; which < ARRAY_LENGTH(source); which++) {
            char text[2048];
            size_t size = strlen(source[which]);
            memcpy(text, source[which], size);
            for (uint64_t changes = random_below(&random, 8); changes && size; changes--) {
                text[random_below(&random, size)] = (char)random_below(&random, 256);
            }
            write_file(paths[which], text, size - random_below(&random, size + 1) / 4);
        }
        cgroup_memory_limits(root);
        cgroup_processor_count(root);
    }
    clear_tree();
}

/* The machine's own files are there to be read; what they say, only the machine knows. */
static void test_machine(void **state) {
    (void)state;
    errno = ERRNO_MARK;
    struct cgroup_memory memory = cgroup_memory_limits("");
    assert_true((memory.hard == CGROUP_UNKNOWN || memory.hard > 1 << 20) && memory.soft > 1 << 20);
    assert_true(cgroup_processor_count("") <= 4096);
    assert_int_equal(errno, ERRNO_MARK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenes),    cmocka_unit_test(test_long_files),
        cmocka_unit_test(test_long_path), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_machine),
    };
    CHECK(mkdtemp(root) != NULL, "cannot make %s", root);
    int failed = cmocka_run_group_tests_name("control groups", tests, NULL, NULL);
    clear_tree();
    rmdir(root);
    return failed;
}
