/* doctor: processor, cores, caches, memory. */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <lockstep/context.h>
#include <lockstep/tools.h>

#include "cli/doctor/doctor.h"
#include "cli/out/text.h"

static const char not_known[] = "not known";

static void check_processor(cli_doctor *d)
{
    char line[DOCTOR_LINE], flags[DOCTOR_LINE];
    struct utsname system;
    const char *kind = uname(&system) == 0 ? system.machine : not_known;
    if (!doctor_entry(d, line, "/proc/cpuinfo", "model name") || *line == '\0')
        snprintf(line, sizeof line, "%s", not_known);
    const bool virtual = doctor_entry(d, flags, "/proc/cpuinfo", "flags") &&
                         strstr(flags, " hypervisor") != NULL;
    doctor_add(d, "processor", "%.200s (%s)%s", line, kind,
               virtual ? ", in a virtual machine" : "");
}

/* How many numbers a kernel's list has, such as 0-3,8; 0: not known. */
static int count_list(const cli_doctor *d, const char *path)
{
    char line[DOCTOR_LINE];
    int count = 0;
    if (!doctor_line(d, line, "%s", path)) return 0;
    for (const char *at = line; *at != '\0';) {
        char *end;
        const long first = strtol(at, &end, 10);
        if (end == at) return 0;
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (last < first || last > 1 << 20) return 0;
        count += (int)(last - first + 1);
        at = end + (*end == ',');
        if (*end != ',' && *end != '\0') return 0;
    }
    return count;
}

/* The affinity mask as such a list. */
static const char *mask_text(cli_doctor *d)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return not_known;
    const char *text = "", *gap = "";
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        int last = cpu;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET((size_t)last + 1, &set)) last++;
        text = last > cpu ? pool_format(&d->pool, "%s%s%d-%d", text, gap, cpu, last)
                          : pool_format(&d->pool, "%s%s%d", text, gap, cpu);
        gap = ",";
        cpu = last;
    }
    return text;
}

static void check_cpus(cli_doctor *d, const lks_machine *m)
{
    int present = count_list(d, "/sys/devices/system/cpu/online");
    if (present == 0) present = (int)sysconf(_SC_NPROCESSORS_ONLN);
    doctor_finding *f = doctor_add(d, "CPUs", "%d of %d usable (%s)", m->cpus, present,
                                   mask_text(d));
    f->values = json_pack("{s:i, s:i}", "usable", m->cpus, "present", present);
    if (m->cpus < present)
        doctor_raise(d, f, LEVEL_NOTE,
                     "the affinity mask leaves out %d CPU%s; taskset, a batch system or a "
                     "container set it, and there is where to ask for more",
                     present - m->cpus, TEXT_S(present - m->cpus));
    char line[DOCTOR_LINE];
    if (!doctor_line(d, line, "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")) {
        doctor_add(d, "cores", "%s", not_known);
        return;
    }
    f = doctor_add(d, "cores", "%d physical", m->cores);
    f->values = json_pack("{s:i}", "physical", m->cores);
    if (m->cores < m->cpus)
        doctor_raise(d, f, LEVEL_NOTE,
                     "CPUs share cores (SMT), and the second on a core adds little; also try "
                     "--workers %d",
                     m->cores);
}

/* What stands for a limit of the control groups that was not found. */
static const char *no_limit(const cli_doctor *d)
{
    char line[DOCTOR_LINE];
    return doctor_line(d, line, "/proc/self/cgroup") ? "none" : not_known;
}

static void check_quota(cli_doctor *d, const lks_machine *m)
{
    doctor_finding *f = m->quota > 0 ? doctor_add(d, "CPU quota", "%d core%s, rounded up", m->quota,
                                                  TEXT_S(m->quota))
                                     : doctor_add(d, "CPU quota", "%s", no_limit(d));
    f->values = json_pack("{s:i}", "cores", m->quota);
    if (m->quota > 0 && m->quota < m->cpus)
        doctor_raise(d, f, LEVEL_NOTE,
                     "the control group allows less than the %d usable CPUs: that many workers run "
                     "by default, bound to no core, and may be stopped for part of every period; "
                     "a mask of whole CPUs (cpuset) is faster than a quota",
                     m->cpus);
}

static const char *cache_text(cli_doctor *d)
{
    char level[DOCTOR_LINE], type[DOCTOR_LINE], size[DOCTOR_LINE];
    static const char folder[] = "/sys/devices/system/cpu/cpu0/cache/index";
    const char *text = "";
    for (int i = 0; i < 8; i++) {
        if (!doctor_line(d, level, "%s%d/level", folder, i) ||
            !doctor_line(d, type, "%s%d/type", folder, i) ||
            !doctor_line(d, size, "%s%d/size", folder, i) || strcmp(type, "Instruction") == 0)
            continue;
        text = pool_format(&d->pool, "%s%sL%.4s %.12s", text, *text != '\0' ? ", " : "", level,
                           size);
    }
    return *text != '\0' ? text : not_known;
}

static void check_frequency(cli_doctor *d)
{
    static const char folder[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_";
    char governor[DOCTOR_LINE], driver[DOCTOR_LINE] = "";
    if (!doctor_line(d, governor, "%sgovernor", folder)) {
        doctor_add(d, "frequency", "governor not known");
        return;
    }
    doctor_line(d, driver, "%sdriver", folder);
    doctor_finding *f = doctor_add(d, "frequency", "governor %.40s, driver %.40s", governor,
                                   *driver != '\0' ? driver : not_known);
    /* Drivers of the pstate kind scale by load under either of their governors. */
    if (strcmp(governor, "powersave") == 0 && strstr(driver, "pstate") == NULL)
        doctor_raise(d, f, LEVEL_WARNING,
                     "powersave keeps the cores at their lowest frequency; choose another: "
                     "cpupower frequency-set -g performance");
}

static void check_nodes(cli_doctor *d)
{
    const int nodes = count_list(d, "/sys/devices/system/node/online");
    doctor_finding *f = nodes > 0 ? doctor_add(d, "NUMA", "%d node%s", nodes, TEXT_S(nodes))
                                  : doctor_add(d, "NUMA", "%s", not_known);
    f->values = json_pack("{s:i}", "nodes", nodes);
    if (nodes > 1)
        doctor_raise(d, f, LEVEL_NOTE,
                     "workers on several nodes read each other's memory slowly; where the cores "
                     "of one are enough: numactl --cpunodebind=0 --localalloc lockstep ...");
}

static void check_load(cli_doctor *d, const lks_machine *m)
{
    char line[DOCTOR_LINE], *end = line;
    const double load = doctor_line(d, line, "/proc/loadavg") ? strtod(line, &end) : 0;
    if (end == line) {
        doctor_add(d, "load", "%s", not_known);
        return;
    }
    doctor_finding *f = doctor_add(d, "load", "%.2f over the last minute", load);
    f->values = json_pack("{s:f}", "load", load);
    if (load > 0.5 * m->cpus)
        doctor_raise(d, f, LEVEL_NOTE,
                     "other programs compute here; timings will vary, and a step waits for its "
                     "slowest worker");
}

void doctor_hardware(cli_doctor *d)
{
    const lks_machine machine = lks_machine_get(*d->root != '\0' ? d->root : NULL);
    check_processor(d);
    check_cpus(d, &machine);
    check_quota(d, &machine);
    doctor_add(d, "caches", "%s", cache_text(d));
    check_nodes(d);
    check_frequency(d);
    check_load(d, &machine);
}

/* A line of /proc/meminfo in bytes; negative: not known. */
static double memory_entry(const cli_doctor *d, const char *word)
{
    char line[DOCTOR_LINE], *end;
    if (!doctor_entry(d, line, "/proc/meminfo", word)) return -1;
    const double kibibytes = strtod(line, &end);
    return end != line && kibibytes >= 0 ? 1024 * kibibytes : -1;
}

void doctor_memory(cli_doctor *d)
{
    enum { LITTLE = 512 << 20 };
    const int64_t limit = lks_machine_get(*d->root != '\0' ? d->root : NULL).memory;
    const double total = memory_entry(d, "MemTotal"), free_bytes = memory_entry(d, "MemAvailable");
    doctor_finding *f = doctor_add(d, "memory", "%s available of %s",
                                   free_bytes >= 0 ? doctor_size(d, free_bytes) : not_known,
                                   total >= 0 ? doctor_size(d, total) : not_known);
    f->values = json_pack("{s:f, s:f, s:I}", "available", free_bytes, "total", total, "limit",
                          (json_int_t)limit);
    if (free_bytes >= 0 && free_bytes < LITTLE)
        doctor_raise(d, f, LEVEL_WARNING,
                     "little is left: a training may be slowed by swapping, or ended; lockstep "
                     "info CONFIG --memory shows what one needs");
    f = limit > 0 ? doctor_add(d, "memory limit", "%s, of the control group",
                               doctor_size(d, (double)limit))
                  : doctor_add(d, "memory limit", "%s", no_limit(d));
    if (limit > 0 && limit < LITTLE)
        doctor_raise(d, f, LEVEL_WARNING,
                     "a training that needs more is ended by the kernel; lockstep info CONFIG "
                     "--memory shows what it needs");
}
