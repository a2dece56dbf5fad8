/* doctor: what it finds where something was staged, on any machine. */
#include "cli/program.h"

#include <sched.h>

#include <jansson.h>

static json_t *report; /* of the last look() */

static int begin(void **state)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OMP_PROC_BIND", "LKS_ISA",
                                        "SLURM_JOB_ID",    "SLURM_NTASKS",  "SLURM_CPUS_PER_TASK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    set_up(state);
    hurry(); /* it measures for a second each time */
    return 0;
}

static int end(void **state)
{
    json_decref(report);
    report = NULL;
    return tear_down(state);
}

static const char *text_of(const json_t *check, const char *key)
{
    const char *text = json_string_value(json_object_get(check, key));
    return text != NULL ? text : "";
}

/* Runs doctor; its JSON is whole and agrees with the exit code, which must be `code`; -1 stands for
 * 0 or 10, as other programs on the machine may be worth a warning at any time. */
static void look(int code, const char *arguments)
{
    static const char *const levels[] = {"ok", "note", "warning", "error"};
    static const int codes[] = {0, 0, 10, 11};
    size_t worst = 0, i;
    const json_t *check;
    json_error_t error;
    run("doctor --format json %s", arguments);
    assert_string_equal(last.err, "");
    json_decref(report);
    report = json_loads(last.out, 0, &error);
    if (report == NULL) fail_msg("%s in:\n%s", error.text, last.out);
    json_array_foreach(json_object_get(report, "checks"), i, check)
    {
        size_t level = 0;
        while (level < 4 && strcmp(levels[level], text_of(check, "level")) != 0) level++;
        assert_true(level < 4);
        if (level > worst) worst = level;
        assert_true(*text_of(check, "name") != '\0' && *text_of(check, "area") != '\0');
        assert_true(*text_of(check, "found") != '\0');
        assert_int_equal(*text_of(check, "advice") != '\0', level > 0);
    }
    assert_true(i > 20);
    assert_string_equal(text_of(report, "worst"), levels[worst]);
    assert_int_equal(last.code, codes[worst]);
    if (code == -1 ? last.code > 10 : last.code != code)
        fail_msg("exit code %d, expected %d\n%s", last.code, code, last.out);
}

static const json_t *check_named(const char *name)
{
    size_t i;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), i,
                       check) if (strcmp(text_of(check, "name"), name) == 0) return check;
    fail_msg("no check '%s' in:\n%s", name, last.out);
    return NULL;
}

/* This check has this level (NULL: any), and found something with `part` in it. */
static void finds(const char *name, const char *level, const char *part)
{
    const json_t *check = check_named(name);
    if ((level != NULL && strcmp(text_of(check, "level"), level) != 0) ||
        strstr(text_of(check, "found"), part) == NULL)
        fail_msg("%s: %s, '%s'; expected %s, '%s'", name, text_of(check, "level"),
                 text_of(check, "found"), level != NULL ? level : "any level", part);
}

/* Both types took time, and what is said of them is what was measured. Their states differ, and are those of
 * every machine and instruction set. */
static void bfloat16_is_measured(void)
{
    const json_t *values = json_object_get(check_named("bfloat16"), "values");
    const double f32 = json_real_value(json_object_get(values, "f32_seconds"));
    const double bf16 = json_real_value(json_object_get(values, "bf16_seconds"));
    char found[64];
    static char first[2][17];
    static const char *const hashes[] = {"f32_hash", "bf16_hash"};
    for (int t = 0; t < 2; t++) {
        const char *hash = text_of(values, hashes[t]);
        assert_int_equal(strlen(hash), 16);
        if (first[t][0] == '\0') memcpy(first[t], hash, sizeof first[t]);
        assert_string_equal(hash, first[t]);
    }
    assert_string_not_equal(first[0], first[1]);
    assert_true(f32 > 0 && f32 < 60 && bf16 > 0 && bf16 < 60);
    assert_true(json_real_value(json_object_get(values, "ratio")) == f32 / bf16);
    snprintf(found, sizeof found, "train %.2f times as fast as in f32", f32 / bf16);
    finds("bfloat16", bf16 > f32 ? "note" : "ok", found);
}

static void it_looks_at_this_machine(void **state)
{
    (void)state;
    take_time();
    run("doctor");
    if (last.code != 0 && last.code != 10) fail_msg("%d\n%s", last.code, last.out);
    static const char *const parts[] = {"Hardware\n",      "\nProgram\n", "\nLimits\n",
                                        "\nEnvironment\n", "\nTime\n",    "\nOutput\n",
                                        "spread of a CPU", " zlib ",      "  denormals "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_out(parts[i]);
    hurry();
    look(-1, "--out some/where");
    finds("folder", NULL, "some/where (will be made)");
    assert_false(there("some"));
    assert_int_equal(shell("ls -A | grep -q doctor"), 1);
    finds("Slurm", "ok", "not in a job");
    finds("threads", "ok", "no variable");
    finds("libraries", NULL, "jansson 2.");
    finds("libraries", NULL, "libpng ");
    finds("downloads", NULL, "");
    finds("clock", NULL, "resolution");
    bfloat16_is_measured();
    const json_t *cores = json_object_get(check_named("CPUs"), "values");
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(json_integer_value(json_object_get(cores, "usable")), CPU_COUNT(&set));
}

static void a_mask_is_seen(void **state)
{
    (void)state;
    cpu_set_t all, one;
    char part[64];
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) {
        print_message("one CPU: skipped\n");
        skip();
    }
    int cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET((size_t)cpu, &all)) cpu--;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    look(-1, "");
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    snprintf(part, sizeof part, " usable (%d)", cpu);
    finds("CPUs", "note", part);
    finds("cores", "ok", "1 physical");
    assert_null(strstr(last.out, "spread of CPUs"));
}

static void variables_are_seen(void **state)
{
    (void)state;
    setenv("OMP_NUM_THREADS", "3", 1);
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_CPUS_PER_TASK", "100000", 1);
    look(10, "");
    finds("OMP_NUM_THREADS", "note", "3");
    finds("Slurm", "warning", "job 77, 1 task, CPUs per task: 100000");
    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    setenv("SLURM_NTASKS", "4", 1);
    look(-1, "");
    finds("Slurm", "ok", "job 77, 4 tasks, CPUs per task: 1");
    unsetenv("SLURM_NTASKS");
#ifdef LKT_HAVE_CPU
    setenv("LKS_ISA", "portable", 1);
    look(-1, "");
    finds("Slurm", "ok", "job 77, 1 task");
    finds("device", "note", "cpu: portable");
    bfloat16_is_measured();
    setenv("LKS_ISA", "avx1024", 1);
    look(11, "");
    finds("device", "error", "LKS_ISA is 'avx1024', expected portable");
    finds("bfloat16", "ok", "not known: LKS_ISA is 'avx1024'");
#endif
}

static void a_folder_is_tried(void **state)
{
    (void)state;
    write_text("file", "x");
    look(11, "--out file/x");
    finds("folder", "error", "file/x cannot be written to: Not a directory");
    look(11, "--out /proc/x");
    finds("folder", "error", "/proc/x cannot be written to: ");
    /* A limit of file sizes: the write fails, and doctor is not ended by the signal. */
    last.code = shell("ulimit -f 1024; '%s' doctor --out . >out.txt 2>err.txt", program());
    read_text(last.out, "out.txt");
    assert_int_equal(last.code, 11);
    expect_out("  warning  file size");
    expect_out("  error    folder             . cannot be written to: ");
    assert_int_equal(shell("ls -A | grep -q doctor"), 1);
}

/* Another machine's files: two CPUs that share a core, a quota, little memory, ... */
static void another_root(void **state)
{
    (void)state;
    shell("mkdir -p r/proc/self r/sys/fs/cgroup/box r/sys/devices/system/node "
          "r/sys/devices/system/cpu/cpu0/cpufreq r/sys/devices/system/cpu/cpu0/cache/index0; "
          "cd r/sys/devices/system/cpu; for i in $(seq 0 255); do mkdir -p cpu$i/topology; "
          "echo 0-255 >cpu$i/topology/thread_siblings_list; done");
    write_text("r/proc/cpuinfo", "processor : 0\nmodel name\t: Lode\033[31mstone 9000\n"
                                 "flags\t\t: fpu hypervisor\n");
    write_text("r/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable: 102400 kB\n");
    write_text("r/proc/loadavg", "1000.50 3 4 1/2 3\n");
    write_text("r/proc/self/cgroup", "0::/box\n");
    write_text("r/sys/fs/cgroup/box/cpu.max", "50000 100000\n");
    write_text("r/sys/fs/cgroup/box/memory.max", "268435456\n");
    write_text("r/sys/devices/system/cpu/online", "0-3,8,10-4095\n");
    write_text("r/sys/devices/system/node/online", "0-1\n");
    write_text("r/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    write_text("r/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n");
    static const char cache[] = "r/sys/devices/system/cpu/cpu0/cache/index0/";
    static const char *const facts[][2] = {{"level", "1\n"}, {"type", "Data\n"}, {"size", "48K\n"}};
    for (int i = 0; i < 3; i++) {
        char name[100];
        snprintf(name, sizeof name, "%s%s", cache, facts[i][0]);
        write_text(name, facts[i][1]);
    }
    look(10, "--root r");
    finds("processor", "ok", "Lode?[31mstone 9000 (");
    finds("processor", "ok", "in a virtual machine");
    finds("CPUs", "note", " of 4091 usable (");
    finds("NUMA", "note", "2 nodes");
    finds("caches", "ok", "L1 48K");
    finds("frequency", "warning", "powersave");
    finds("load", "note", "1000.50");
    finds("memory", "warning", "100 MiB available of 8.0 GiB");
    finds("memory limit", "warning", "256 MiB");
    finds("CPU quota", NULL, "1 core, rounded up");
    finds("cores", NULL, "1 physical");
    write_text("r/sys/devices/system/cpu/online", "0-\n");
    write_text("r/proc/meminfo", "MemTotal:\nMemAvailable: lots\n");
    write_text("r/proc/loadavg", "\n");
    look(10, "--root r");
    finds("memory", "ok", "not known available of not known");
    finds("load", "ok", "not known");
    write_text("r/proc/meminfo", "MemTotal:  1048576 kB\nMemAvailable: 1024 kB\n");
    look(10, "--root r");
    finds("memory", "warning", "1.0 MiB available of 1.0 GiB");
}

static void no_root_at_all(void **state)
{
    (void)state;
    look(-1, "--root /missing");
    static const char *const names[] = {"processor", "caches",      "NUMA",   "frequency",
                                        "load",      "memory",      "stolen", "cores",
                                        "CPU quota", "memory limit"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) finds(names[i], "ok", "not known");
    run("doctor x");
    expect(2, "doctor takes none, found 1 operand");
    run("doctor --format xml");
    expect(2, "xml");
}

#define DOCTOR(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DOCTOR(it_looks_at_this_machine), DOCTOR(a_mask_is_seen), DOCTOR(variables_are_seen),
        DOCTOR(a_folder_is_tried),        DOCTOR(another_root),   DOCTOR(no_root_at_all),
    };
    /* Where a library is loaded behind a preloaded one, gcc 12's leak sanitizer looks for its thread-local
     * storage where there is none. */
    if (lkt_sanitized()) setenv("LKS_MODULES", "/nowhere", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
