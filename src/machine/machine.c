/* Cores, quotas and caches. */
#include "machine/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <lockstep/tools.h>

#include "base/context.h"
#include "base/inflate.h"
#include "build.h"
#include "numeric/hash.h"

/* The first line of a small file without its newline; false if it cannot be read. */
static bool read_line(char *line, size_t size, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool done = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (done) line[strcspn(line, "\n")] = '\0';
    return done;
}

static int64_t round_up_quota(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    const long long cores = (quota + period - 1) / period;
    return cores < INT_MAX ? cores : INT_MAX;
}

/* The quota written in one folder of a control group; 0 where there is none. */
static int64_t folder_quota(const char *folder)
{
    char path[PATH_MAX], line[128];
    long long quota = 0, period = 0;
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) < (int)sizeof path &&
        read_line(line, sizeof line, path)) {
        return sscanf(line, "%lld %lld", &quota, &period) == 2 ? round_up_quota(quota, period) : 0;
    }
    if (snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder) >= (int)sizeof path ||
        !read_line(line, sizeof line, path) || sscanf(line, "%lld", &quota) != 1) {
        return 0;
    }
    if (snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder) >= (int)sizeof path ||
        !read_line(line, sizeof line, path) || sscanf(line, "%lld", &period) != 1) {
        return 0;
    }
    return round_up_quota(quota, period);
}

/* The limit of memory written there; 0 where there is none. */
static int64_t folder_memory(const char *folder)
{
    /* Version 1 writes a number that no machine has instead of "max". */
    const long long no_limit = 1LL << 60;
    static const char *const names[] = {"memory.max", "memory.limit_in_bytes"};
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX], line[128];
        long long bytes;
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path &&
            read_line(line, sizeof line, path))
            return sscanf(line, "%lld", &bytes) == 1 && bytes < no_limit ? bytes : 0;
    }
    return 0;
}

typedef int64_t (*folder_reader)(const char *folder);

static int64_t less(int64_t least, int64_t found)
{
    return found > 0 && (least == 0 || found < least) ? found : least;
}

/* The least from `mount` + `group` up to `mount`. In a container the lower folders may be missing,
 * because the path is the host's. */
static int64_t least_upwards(const char *mount, const char *group, folder_reader read)
{
    char folder[PATH_MAX];
    const int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || length >= (int)sizeof folder) return 0;
    int64_t least = 0;
    for (;;) {
        least = less(least, read(folder));
        if (strlen(folder) <= strlen(mount)) return least;
        *strrchr(folder, '/') = '\0';
    }
}

/* The least of all control groups of the process that have the controller. */
static int64_t least_of_groups(const char *self, const char *mount, const char *controller,
                               folder_reader read)
{
    FILE *file = fopen(self, "re");
    if (!file) return 0;
    char line[PATH_MAX], below[PATH_MAX];
    int64_t least = 0;
    while (fgets(line, sizeof line, file)) { /* "number:controllers:/path" */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        const bool version2 = *controllers == '\0';
        bool wanted = version2;
        char *place = NULL;
        for (char *name = strtok_r(controllers, ",", &place); name;
             name = strtok_r(NULL, ",", &place)) {
            wanted = wanted || strcmp(name, controller) == 0;
        }
        if (!wanted) continue;
        if (snprintf(below, sizeof below, "%s%s%s", mount, version2 ? "" : "/",
                     version2 ? "" : controller) < (int)sizeof below)
            least = less(least, least_upwards(below, group, read));
    }
    fclose(file);
    return least;
}

int lki_quota_cores(const char *self, const char *mount)
{
    return (int)least_of_groups(self, mount, "cpu", folder_quota);
}

int64_t lki_memory_limit(const char *self, const char *mount)
{
    return least_of_groups(self, mount, "memory", folder_memory);
}

/* Bytes that the machine could give now without ending another process; 0: it does not tell. */
static int64_t available(const char *path)
{
    char line[128];
    long long kilobytes, sum = 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1 ||
            sscanf(line, "SwapFree: %lld kB", &kilobytes) == 1)
            sum += kilobytes;
    fclose(file);
    return sum < INT64_MAX / 1024 ? sum * 1024 : 0;
}

static void limit_room(lki_room *room, int64_t bytes, const char *before, const char *after)
{
    if (bytes <= 0 || (room->bytes > 0 && room->bytes <= bytes)) return;
    room->bytes = bytes;
    snprintf(room->why, sizeof room->why, "%s %lld MB%s", before, (long long)(bytes / 1000000),
             after);
}

lki_room lki_memory_room(const char *root)
{
    char self[PATH_MAX], mount[PATH_MAX], info[PATH_MAX];
    lki_room room = {0};
    struct rlimit limit;
    snprintf(self, sizeof self, "%s/proc/self/cgroup", root ? root : "");
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root ? root : "");
    snprintf(info, sizeof info, "%s/proc/meminfo", root ? root : "");
    limit_room(&room, available(info), "the machine has only", " available");
    limit_room(&room, lki_memory_limit(self, mount), "the limit of its control group is", "");
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < INT64_MAX)
        limit_room(&room, (int64_t)limit.rlim_cur, "ulimit -v allows", "");
    return room;
}

int lki_allowed_cpus(lki_cpu *cpus, int most)
{
    /* The kernel refuses a set smaller than its own, so try larger ones. */
    for (int limit = 1024; limit <= 1 << 20; limit *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)limit);
        if (!set) return 0;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)limit);
        CPU_ZERO_S(bytes, set);
        const bool done = sched_getaffinity(0, bytes, set) == 0;
        int found = 0;
        for (int cpu = 0; done && cpu < limit; cpu++) {
            if (!CPU_ISSET_S((size_t)cpu, bytes, set)) continue;
            if (found < most) cpus[found] = (lki_cpu){.number = cpu};
            found++;
        }
        CPU_FREE(set);
        if (done) return found;
    }
    return 0;
}

int lks_cores(void)
{
    int cores = lki_allowed_cpus(NULL, 0);
    const int quota = lki_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota > 0 && quota < cores) cores = quota;
    return cores > 0 ? cores : 1;
}

static void append(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t size, const char *format, ...)
{
    const size_t length = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + length, size - length, format, arguments);
    va_end(arguments);
}

lks_machine lks_machine_get(const char *root)
{
    enum { MOST = 4096 };
    char self[PATH_MAX], mount[PATH_MAX];
    snprintf(self, sizeof self, "%s/proc/self/cgroup", root ? root : "");
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root ? root : "");
    lks_machine machine = {.quota = lki_quota_cores(self, mount),
                           .memory = lki_memory_limit(self, mount)};
    lki_cpu cpus[MOST];
    int count = lki_allowed_cpus(cpus, MOST);
    machine.cpus = count > 0 ? count : 1;
    if (count > MOST) count = MOST;
    if (root) {
        lki_cores_by_sysfs(cpus, count, root);
        lki_sort_cpus(cpus, count);
    } else {
        lki_order_cpus(cpus, count);
    }
    for (int i = 0; i < count; i++) machine.cores += cpus[i].turn == 0;
    if (machine.cores == 0) machine.cores = 1;
    return machine;
}

/* Of what it would load; nothing in a build without it. */
static void hdf5_version(char *out, size_t size)
{
    snprintf(out, size, "%s", LKI_HDF5_SONAME);
}

void lks_libraries(char *out, size_t size)
{
    void (*const versions[])(char *, size_t) = {lki_zlib_version, lki_xxhash_version,
                                                lki_hwloc_version, hdf5_version};
    if (out == NULL || size == 0) return;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char version[64];
        versions[i](version, sizeof version);
        if (version[0] != '\0') append(out, size, "%s%s", out[0] != '\0' ? ", " : "", version);
    }
}

/* Bytes of a data cache of the first CPU as the kernel tells it; 0 if unknown. */
static long cache_bytes(int level)
{
    for (int index = 0; index < 8; index++) {
        char path[96], line[64];
        const char *format = "/sys/devices/system/cpu/cpu0/cache/index%d/%s";
        snprintf(path, sizeof path, format, index, "level");
        if (!read_line(line, sizeof line, path)) break;
        if (atoi(line) != level) continue;
        snprintf(path, sizeof path, format, index, "type");
        if (!read_line(line, sizeof line, path)) break;
        if (strcmp(line, "Data") != 0 && strcmp(line, "Unified") != 0) continue;
        snprintf(path, sizeof path, format, index, "size");
        if (!read_line(line, sizeof line, path)) break;
        char *unit;
        const long size = strtol(line, &unit, 10);
        return *unit == 'M' ? size * 1024 * 1024 : *unit == 'K' ? size * 1024 : size;
    }
    return 0;
}

static void append_cache(char *out, size_t size, const char *name, long bytes)
{
    const bool whole = bytes >= 1024 * 1024 && bytes % (1024 * 1024) == 0;
    append(out, size, " %s=%ld%s", name, whole ? bytes / (1024 * 1024) : bytes / 1024,
           whole ? "M" : "K");
}

static void append_isa(char *out, size_t size)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    append(out, size, "x86_64");
#define HAS(feature)                                                                               \
    if (__builtin_cpu_supports(feature)) append(out, size, " " feature)
    HAS("sse4.1");
    HAS("avx");
    HAS("avx2");
    HAS("fma");
    HAS("avx512f");
    HAS("avx512bw");
    HAS("avx512dq");
    HAS("avx512vl");
    HAS("avx512vnni");
    HAS("avx512bf16");
#undef HAS
#elif defined(__aarch64__)
    append(out, size, "aarch64 hwcap=%lx,%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
    append(out, size, "generic");
#endif
}

void lki_fingerprint_base(char *out, size_t size)
{
    if (size == 0) return;
    out[0] = '\0';
    append_isa(out, size);
    append_cache(out, size, "L1d", cache_bytes(1));
    append_cache(out, size, "L2", cache_bytes(2));
    append_cache(out, size, "L3", cache_bytes(3));
#if defined(__GLIBC__)
    append(out, size, " glibc-%s", gnu_get_libc_version());
#else
    append(out, size, " libc-unknown");
#endif
}
