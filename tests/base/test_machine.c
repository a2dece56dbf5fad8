/* Cores, quotas, the order of cores, the fingerprint, and the log. */
#include "support/test.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <lockstep/tools.h>

#include "base/context.h"
#include "base/file.h"
#include "machine/machine.h"

static const char *folder;

/* Writes folder/name with folders above it. */
static void put(const char *name, const char *text)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    LKT_OK(lki_folder_make(path));
    *slash = '/';
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int quota(const char *self)
{
    char path[4300], mount[4300];
    put("self", self);
    snprintf(path, sizeof path, "%s/self", folder);
    snprintf(mount, sizeof mount, "%s/mount", folder);
    return lki_quota_cores(path, mount);
}

static int setup(void **state)
{
    (void)state;
    folder = lkt_make_folder();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

static void quota_version_2(void **state)
{
    (void)state;
    assert_int_equal(quota("0::/\n"), 0);
    put("mount/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/\n"), 0);
    put("mount/cpu.max", "200000 100000\n");
    assert_int_equal(quota("0::/\n"), 2);
    put("mount/cpu.max", "200001 100000\n");
    assert_int_equal(quota("0::/\n"), 3);
    put("mount/cpu.max", "10000 100000\n");
    assert_int_equal(quota("0::/\n"), 1);
    put("mount/cpu.max", "nonsense\n");
    assert_int_equal(quota("0::/\n"), 0);
    put("mount/cpu.max", "99999999999999 1\n");
    assert_int_equal(quota("0::/\n"), 2147483647);

    /* The least on the way up counts; folders of the host that are missing here do not. */
    put("mount/cpu.max", "800000 100000\n");
    put("mount/a/cpu.max", "300000 100000\n");
    put("mount/a/b/cpu.max", "400000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 3);
    assert_int_equal(quota("0::/a/b/missing/far\n"), 3);
    assert_int_equal(quota("0::/a\n"), 3);
    assert_int_equal(quota("0::/other\n"), 8);
    assert_int_equal(quota(""), 0);
    assert_int_equal(quota("what is this\n"), 0);
    assert_int_equal(lki_quota_cores("/missing", "/missing"), 0);
}

static void quota_version_1(void **state)
{
    (void)state;
    const char *self = "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n";
    assert_int_equal(quota(self), 0);
    put("mount/cpu/cpu.cfs_quota_us", "-1\n");
    put("mount/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(self), 0);
    put("mount/cpu/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(quota(self), 2);
    put("mount/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
    put("mount/cpu/docker/abc/cpu.cfs_period_us", "50000\n");
    assert_int_equal(quota(self), 1);
    assert_int_equal(quota("4:cpuset:/docker/abc\n"), 0); /* another controller */
}

static int64_t memory(const char *self)
{
    char path[4300], mount[4300];
    put("self", self);
    snprintf(path, sizeof path, "%s/self", folder);
    snprintf(mount, sizeof mount, "%s/mount", folder);
    return lki_memory_limit(path, mount);
}

static void memory_limits(void **state)
{
    (void)state;
    const char *self = "9:cpu:/other\n4:memory:/a/b\n0::/\n";
    assert_int_equal(memory(self), 0);
    put("mount/memory.max", "max\n");
    assert_int_equal(memory("0::/\n"), 0);
    put("mount/memory.max", "4294967296\n");
    assert_int_equal(memory("0::/far/away\n"), 4294967296);
    put("mount/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    assert_int_equal(memory("4:memory:/a/b\n"), 0);
    put("mount/memory/a/memory.limit_in_bytes", "1073741824\n");
    assert_int_equal(memory("4:memory:/a/b\n"), 1073741824);
    assert_int_equal(memory(self), 1073741824);
    put("mount/cpu/other/memory.limit_in_bytes", "5\n"); /* another controller's folder */
    assert_int_equal(memory(self), 1073741824);
}

/* Whatever allows the least, in words. */
static void room_for_memory(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    if (limit.rlim_cur != RLIM_INFINITY) skip();
    lki_room room = lki_memory_room(folder);
    assert_int_equal(room.bytes, 0);
    put("proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 100 kB\nMemAvailable:    2000000 kB\n"
                        "SwapTotal: 3000000 kB\nSwapFree:  1000000 kB\n");
    room = lki_memory_room(folder);
    assert_int_equal(room.bytes, 3000000 * 1024LL);
    assert_string_equal(room.why, "the machine has only 3072 MB available");
    put("proc/self/cgroup", "0::/group\n");
    put("sys/fs/cgroup/group/memory.max", "4000000000\n");
    assert_int_equal(lki_memory_room(folder).bytes, 3000000 * 1024LL);
    put("sys/fs/cgroup/group/memory.max", "512000000\n");
    room = lki_memory_room(folder);
    assert_int_equal(room.bytes, 512000000);
    assert_string_equal(room.why, "the limit of its control group is 512 MB");
}

/* Below a root of its own: two CPUs that share a core, quota and memory of the group. */
static void machine_below_a_root(void **state)
{
    (void)state;
    lki_cpu all[1024];
    const int found = lki_allowed_cpus(all, 1024);
    for (int i = 0; i < found && i < 1024; i++) {
        char name[100];
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 all[i].number);
        put(name, "0-1\n");
    }
    put("proc/self/cgroup", "0::/box\n");
    put("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/box/memory.max", "123456789\n");
    const lks_machine machine = lks_machine_get(folder), real = lks_machine_get(NULL);
    assert_int_equal(machine.cpus, found);
    assert_int_equal(machine.cores, 1);
    assert_int_equal(machine.quota, 2);
    assert_int_equal(machine.memory, 123456789);
    assert_int_equal(real.cpus, found);
    assert_true(real.cores >= 1 && real.cores <= real.cpus);
    const lks_machine nothing = lks_machine_get("/missing");
    assert_int_equal(nothing.cpus, found);
    assert_int_equal(nothing.cores, found);
    assert_int_equal(nothing.quota, 0);
    assert_int_equal(nothing.memory, 0);
}

static void library_versions(void **state)
{
    (void)state;
    char text[200], small[8];
    lks_libraries(text, sizeof text);
    print_message("%s\n", text);
    assert_int_equal(strncmp(text, "zlib 1.", 7), 0);
    assert_non_null(strstr(text, ", xxHash 0."));
    lks_libraries(small, sizeof small);
    assert_int_equal(strlen(small), 7);
    lks_libraries(small, 0);
}

static int with_one_cpu(void *user)
{
    (void)user;
    lki_cpu all[64];
    const int found = lki_allowed_cpus(all, 64);
    LKT_CHECK(found >= 1);
    const int last = all[(found < 64 ? found : 64) - 1].number;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)last, &one);
    LKT_CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    LKT_CHECK(lks_cores() == 1);
    LKT_CHECK(lki_allowed_cpus(NULL, 0) == 1);
    LKT_CHECK(lki_allowed_cpus(all, 64) == 1 && all[0].number == last);
    return 0;
}

static void cores(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(lki_allowed_cpus(NULL, 0), CPU_COUNT(&set));
    assert_true(lks_cores() >= 1 && lks_cores() <= CPU_COUNT(&set));
    assert_int_equal(lkt_in_child(with_one_cpu, NULL), 0);
}

/* Two cores with two CPUs each, numbered in the two usual ways, and one with a CPU missing. */
static void order_of_cores(void **state)
{
    (void)state;
    lki_cpu apart[] = {{0, 0, 0}, {1, 1, 0}, {2, 0, 0}, {3, 1, 0}};
    lki_cpu adjacent[] = {{0, 0, 0}, {1, 0, 0}, {2, 2, 0}, {3, 2, 0}};
    lki_cpu ragged[] = {{1, 0, 0}, {4, 4, 0}, {5, 4, 0}, {6, 4, 0}, {9, 2, 0}};
    lki_sort_cpus(apart, 4);
    lki_sort_cpus(adjacent, 4);
    lki_sort_cpus(ragged, 5);
    static const int expected[3][5] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 9, 4, 5, 6}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(apart[i].number, expected[0][i]);
        assert_int_equal(adjacent[i].number, expected[1][i]);
    }
    for (int i = 0; i < 5; i++) assert_int_equal(ragged[i].number, expected[2][i]);
    assert_int_equal(ragged[4].turn, 2);
}

/* hwloc and the kernel's files agree on which CPUs share a core. */
static void two_sources(void **state)
{
    (void)state;
    lki_cpu files[256], library[256];
    int found = lki_allowed_cpus(files, 256);
    if (found > 256) found = 256;
    memcpy(library, files, sizeof files);
    lki_cores_by_sysfs(files, found, "");
    if (!lki_cores_by_hwloc(library, found)) {
        print_message("hwloc is not built in, or knows no cores here\n");
        skip();
    }
    for (int i = 0; i < found; i++) {
        for (int k = 0; k < found; k++) {
            assert_int_equal(files[i].core == files[k].core, library[i].core == library[k].core);
        }
    }
    lki_order_cpus(files, found);
    int64_t sum = 0;
    for (int i = 0; i < found; i++) sum += files[i].number - library[i].number;
    assert_int_equal(sum, 0); /* a permutation of them */
}

static void fingerprint(void **state)
{
    (void)state;
    char text[256], again[256], small[20];
    lki_fingerprint_base(text, sizeof text);
    lki_fingerprint_base(again, sizeof again);
    print_message("%s\n", text);
    assert_string_equal(text, again);
    assert_true(strlen(text) < sizeof text - 1);
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text, " L1d="));
    assert_non_null(strstr(text, " L2="));
    assert_non_null(strstr(text, " L3="));
    assert_non_null(strstr(text, "libc-"));
    memset(small, 'x', sizeof small);
    lki_fingerprint_base(small, 10);
    assert_int_equal(strlen(small), 9);
    assert_memory_equal(small, text, 9);
    lki_fingerprint_base(small, 0);
}

typedef struct lines {
    int count;
    lks_log_level level;
    char last[2000];
} lines;

static void keep_line(void *user, lks_log_level level, const char *line)
{
    lines *kept = user;
    kept->count++;
    kept->level = level;
    snprintf(kept->last, sizeof kept->last, "%s", line);
}

static void logging(void **state)
{
    (void)state;
    lines kept = {0};
    lks_context context = {.opts = {.log = keep_line, .log_user = &kept}};
    lki_log_line(&context, LKS_LOG_INFO, "not wanted");
    assert_int_equal(kept.count, 0);
    lki_log_line(&context, LKS_LOG_WARN, "%d of %s", 3, "four");
    assert_int_equal(kept.count, 1);
    assert_string_equal(kept.last, "3 of four");
    context.opts.log_level = LKS_LOG_DEBUG;
    lki_log_line(&context, LKS_LOG_DEBUG, "%01500d", 0);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.level, LKS_LOG_DEBUG);
    assert_int_equal(strlen(kept.last), 1023);
    context.opts.log = NULL;
    lki_log_line(&context, LKS_LOG_WARN, "to nobody");
    lki_log_line(NULL, LKS_LOG_WARN, "to nobody");
    assert_int_equal(kept.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(quota_version_2, setup, teardown),
        cmocka_unit_test_setup_teardown(quota_version_1, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(room_for_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(machine_below_a_root, setup, teardown),
        cmocka_unit_test(library_versions),
        cmocka_unit_test(cores),
        cmocka_unit_test(order_of_cores),
        cmocka_unit_test(two_sources),
        cmocka_unit_test(fingerprint),
        cmocka_unit_test(logging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
