/*
 * Parts of the program alone, with the machine below them exchanged by the linker (tests.cmake:
 * --wrap): what doctor makes of another machine's CPUs, memory, limits and disks, and what is drawn on
 * terminals of any width. All of it as text, compared with golden/parts.txt, which is written anew by
 *
 *     LKT_SOURCE=$PWD LKT_TRANSCRIPTS=write build/release/tests/test_cli_parts
 */
#include "cli/golden.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <lockstep/tools.h>

#include "cli/doctor/doctor.h"
#include "cli/out/plot.h"
#include "cli/out/say.h"
#include "cli/out/sheet.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/report/report.h"

/* ---------------------------------------------------------------- what is exchanged */

static lks_machine machine;
static const char *cpu_list; /* of the mask: "0 1 3"; NULL: it is not known */
static double now, tick;     /* the clock, and what it gains with each look */
static int width;            /* of the terminal; 0: there is none; -1: it does not say */
static rlim_t limit;         /* every one; 1: not known */
static struct statvfs space;
static int sync_error, short_write;

int __wrap_isatty(int file);
int __wrap_isatty(int file)
{
    (void)file;
    return width != 0;
}

int __wrap_ioctl(int file, unsigned long request, struct winsize *size);
int __wrap_ioctl(int file, unsigned long request, struct winsize *size)
{
    (void)file;
    (void)request;
    *size = (struct winsize){.ws_col = (unsigned short)(width > 0 ? width : 0)};
    return width == -2 ? -1 : 0;
}

lks_machine __wrap_lks_machine_get(const char *root);
lks_machine __wrap_lks_machine_get(const char *root)
{
    (void)root;
    return machine;
}

int __wrap_lks_cores(void);
int __wrap_lks_cores(void)
{
    return machine.cpus;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    (void)size;
    if (cpu_list == NULL) return -1;
    CPU_ZERO(set);
    for (const char *at = cpu_list; *at != '\0';) {
        char *end;
        CPU_SET((size_t)strtol(at, &end, 10), set);
        at = end + strspn(end, " ");
    }
    return 0;
}

double __wrap_process_clock(void);
double __wrap_process_clock(void)
{
    now += tick;
    return now;
}

int __wrap_getrlimit(int what, struct rlimit *out);
int __wrap_getrlimit(int what, struct rlimit *out)
{
    (void)what;
    *out = (struct rlimit){limit, RLIM_INFINITY};
    return limit == 1 ? -1 : 0;
}

int __wrap_statvfs(const char *path, struct statvfs *out);
int __wrap_statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    *out = space;
    return space.f_frsize == 0 ? -1 : 0;
}

int __wrap_fsync(int file);
int __wrap_fsync(int file)
{
    (void)file;
    errno = sync_error;
    return sync_error != 0 ? -1 : 0;
}

ssize_t __real_write(int file, const void *bytes, size_t count);
ssize_t __wrap_write(int file, const void *bytes, size_t count);
ssize_t __wrap_write(int file, const void *bytes, size_t count)
{
    return __real_write(file, bytes, count > 4096 && short_write ? 4096 : count);
}

/* ---------------------------------------------------------------- what was found, as text */

static int begin(void **state)
{
    set_up(state);
    machine = (lks_machine){.cpus = 4, .cores = 4};
    cpu_list = "0 1 2 3";
    now = tick = 0;
    width = 0;
    limit = RLIM_INFINITY;
    space = (struct statvfs){.f_frsize = 1024, .f_bavail = 1 << 20, .f_files = 99, .f_favail = 16};
    sync_error = short_write = 0;
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("COLORTERM");
    return 0;
}

static cli_doctor doctor;

static void start(const char *root)
{
    doctor = (cli_doctor){.root = root, .area = "area"};
}

/* The findings, with what programs get and with the advice. */
static void write_findings(void)
{
    static const char *const levels[] = {"ok", "note", "WARNING", "ERROR"};
    for (int i = 0; i < doctor.count; i++) {
        const doctor_finding *f = &doctor.finding[i];
        char *values = f->values != NULL ? text_json(f->values) : NULL;
        const char *place = strstr(f->found, folder);
        fprintf(text, "%s %s: ", levels[f->level], f->name);
        if (place != NULL)
            fprintf(text, "%.*s<folder>%s", (int)(place - f->found), f->found,
                    place + strlen(folder));
        else
            fputs(f->found, text);
        fprintf(text, " %s\n", values != NULL ? values : "");
        if (f->advice != NULL) fprintf(text, "    -> %s\n", f->advice);
        free(values);
        json_decref(f->values);
    }
    pool_clear(&doctor.pool);
}

/* ---------------------------------------------------------------- doctor */

static void make_root(void)
{
    shell("mkdir -p r/proc/self r/sys/devices/system/node r/sys/devices/system/cpu/cpu0/cpufreq "
          "r/sys/devices/system/cpu/cpu0/topology; for i in 0 1 2 3; do mkdir -p "
          "r/sys/devices/system/cpu/cpu0/cache/index$i; cd "
          "r/sys/devices/system/cpu/cpu0/cache/index$i; "
          "echo $((i + 1)) >level; echo Data >type; echo $((i + 3))K >size; cd '%s'; done; "
          "echo Instruction >r/sys/devices/system/cpu/cpu0/cache/index1/type",
          folder);
    write_text("r/proc/cpuinfo", "processor : 0\nmodel name\t: Box 9\nflags\t\t: fpu hypervisor\n");
    write_text("r/proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable: 524288 kB\n");
    write_text("r/proc/loadavg", "2.00 3 4 1/2 3\n");
    write_text("r/proc/self/cgroup", "0::/\n");
    write_text("r/sys/devices/system/cpu/online", "0-3\n");
    write_text("r/sys/devices/system/node/online", "0\n");
    write_text("r/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    write_text("r/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
    write_text("r/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n");
}

static void look_at_hardware(const char *title)
{
    char root[4200];
    snprintf(root, sizeof root, "%s/r", folder);
    head(title);
    start(root);
    doctor_hardware(&doctor);
    doctor_memory(&doctor);
    doctor.finding[0].found = "<processor>"; /* names this machine's kind */
    write_findings();
}

static void hardware(void **state)
{
    (void)state;
    make_root();
    look_at_hardware("as it should be, just so");
    machine = (lks_machine){.cpus = 3, .cores = 2, .quota = 2, .memory = (512 << 20) - 1};
    cpu_list = "0 2 3";
    write_text("r/proc/meminfo", "MemTotal:  100 kB\nMemAvailable: 524287 kB\n");
    write_text("r/proc/loadavg", "1.51 3 4 1/2 3\n");
    write_text("r/sys/devices/system/cpu/online", "0-2,8\n");
    write_text("r/sys/devices/system/node/online", "0,1\n");
    write_text("r/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n");
    look_at_hardware("a little less of all");
    machine = (lks_machine){.cpus = 1, .cores = 1, .quota = 1, .memory = 512 << 20};
    cpu_list = "1023";
    write_text("r/proc/loadavg", "0.50 3 4 1/2 3\n");
    write_text("r/sys/devices/system/cpu/online", "0\n");
    write_text("r/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    shell("rm r/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver "
          "r/sys/devices/system/cpu/cpu0/cache/index*/size");
    look_at_hardware("one of each");
    cpu_list = NULL;
    machine = (lks_machine){.cpus = 1000000, .cores = 1000000};
    shell("rm -r r/sys/devices/system/cpu/cpu0 r/proc/self r/proc/loadavg r/proc/meminfo");
    static const char *const lists[] = {"0-1048576\n", "0-1048577\n", "3-1\n",
                                        "x\n",         "0;1\n",       "0,\n"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        write_text("r/sys/devices/system/node/online", lists[i]);
        look_at_hardware(lists[i]);
    }
}

static void limits(void **state)
{
    (void)state;
    static const rlim_t values[] = {0,
                                    1,
                                    63,
                                    64,
                                    86399,
                                    86400,
                                    (512 << 10) - 1,
                                    512 << 10,
                                    (1 << 30) - 1,
                                    1 << 30,
                                    RLIM_INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        limit = values[i];
        head("limits");
        start("");
        doctor_limits(&doctor);
        write_findings();
    }
}

static void environment(void **state)
{
    (void)state;
    static const char *const settings[][3] = {
        {"", "", ""},    {"7", "", ""},   {"7", "1", "4"}, {"7", "2", "5"},
        {"7", "1", "5"}, {"7", "0", "x"}, {"", "3", "9"},
    };
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK"};
    static const char *const openmp[] = {
        "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS",   "OPENBLAS_NUM_THREADS",
        "OMP_PROC_BIND",   "OMP_PLACES",       "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
    for (size_t i = 0; i < sizeof openmp / sizeof *openmp; i++)
        setenv(openmp[i], i == 3 ? "" : "2", 1);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        for (int k = 0; k < 3; k++) setenv(names[k], settings[i][k], 1);
        head("environment");
        start("");
        doctor_environment(&doctor);
        write_findings();
        for (size_t k = 0; k < sizeof openmp / sizeof *openmp; k++) unsetenv(openmp[k]);
    }
    for (int k = 0; k < 3; k++) unsetenv(names[k]);
    static const struct row {
        int width;
        const char *term, *locale;
    } rows[] = {{0, "xterm", "C"},
                {80, "dumb", "C.UTF-8"},
                {77, "xterm", "en_US.utf8"},
                {-1, "xterm", ""},
                {-2, "vt", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        width = rows[i].width;
        setenv("TERM", rows[i].term, 1);
        setenv("LC_ALL", rows[i].locale, 1);
        setenv("LC_CTYPE", "", 1);
        setenv("LANG", "C", 1);
        start("");
        doctor_terminal(&doctor);
        write_findings();
    }
}

static void look_at_folder(const char *title, const char *name)
{
    head(title);
    start("");
    doctor.folder = in_folder(name);
    doctor_folder(&doctor);
    write_findings();
    assert_int_equal(shell("ls -A | grep -q lockstep"), 1);
}

static void folders(void **state)
{
    (void)state;
    tick = 0.25;
    look_at_folder("a folder that is there", ".");
    look_at_folder("one that will be made", "a/b//");
    tick = 0.5; /* writing and syncing take one each */
    space.f_favail = 15;
    look_at_folder("a second in all", ".");
    tick = 0.51;
    space = (struct statvfs){.f_frsize = 1024, .f_bavail = (1 << 20) - 1, .f_favail = 3};
    look_at_folder("more than a second, little space", ".");
    space.f_frsize = 0;
    look_at_folder("unknown space", ".");
    sync_error = EIO;
    look_at_folder("no sync", ".");
    sync_error = 0;
    short_write = 1;
    look_at_folder("full", ".");
    start("");
    doctor_folder(&doctor);
    assert_int_equal(doctor.count, 0);
    head("sizes");
    static const double sizes[] = {0,       1,      1023,   1024,    1536,    102348,
                                   102349,  102399, 102400, 1048063, 1048064, 1048575,
                                   1048576, 1e9,    1e12,   1e15,    1e18};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fprintf(text, "%s\n", doctor_size(&doctor, sizes[i]));
    pool_clear(&doctor.pool);
}

/* ---------------------------------------------------------------- terminals */

static double share;

static void draw_bar(const void *user)
{
    (void)user;
    say_bar("epoch 2/9", share,
            (const char *const[]){"loss 0.1234", "", "ETA 1:02", "1,234 samples/s"}, 4);
    say_status(NULL);
    say_status(NULL);
}

static void bars(void **state)
{
    (void)state;
    static const int widths[] = {0,  10, 16, 17, 18, 29, 30, 31,  39,  40,  41, 47,
                                 57, 58, 59, 67, 68, 69, 70, 100, 101, 102, 300};
    static const double shares[] = {0, 0.004, 0.5, 0.999, 1};
    setenv("TERM", "xterm", 1);
    head("bars of growing terminals");
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        width = widths[i];
        share = 0.43;
        fprintf(text, "%d ", width);
        write_stream(STDERR_FILENO, draw_bar, NULL);
    }
    width = 80;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        share = shares[i];
        write_stream(STDERR_FILENO, draw_bar, NULL);
    }
}

static void say_bad(const void *user)
{
    say_error("a%sb \x1f\x7f", (const char *)user);
}

static void print_sheet(const void *user)
{
    sheet_print(user);
}

static void sheets(void **state)
{
    (void)state;
    static const char *const names[] = {"shirt", "a long name"};
    static const uint8_t grey[] = {0,   3,   4,   13,  243, 246, 247, 255, 25, 51, 76, 77,
                                   102, 128, 153, 179, 204, 230, 231, 128, 1,  2,  9,  8};
    static const uint8_t colours[] = {255, 0,  0,  0,  255, 0,  0,   0,   255,
                                      10,  10, 10, 26, 25,  77, 200, 180, 90};
    static const int32_t labels[] = {0, 1, 1, 0, 1, 0};
    const cli_sheet one = {"four by three", 2, 3, 4, 1, grey, labels, names};
    const cli_sheet many = {"two by two", 6, 2, 2, 1, grey, labels, NULL};
    const cli_sheet rgb = {"red, green, blue", 1, 2, 3, 3, colours, labels, NULL};
    const cli_sheet *const all[] = {&one, &many, &rgb};
    static const int widths[] = {0, 3, 7, 8, 9, 17, 18, 19, 80};
    setenv("TERM", "xterm", 1);
    for (size_t s = 0; s < 3; s++) {
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            width = widths[i];
            setenv("LC_ALL", i % 3 == 1 ? "C" : "C.UTF-8", 1);
            fprintf(text, "%d ", width);
            write_stream(STDOUT_FILENO, print_sheet, all[s]);
        }
        static const char *const depths[] = {"truecolor", "24bit", "256"};
        for (size_t i = 0; i < 3; i++) {
            setenv("COLORTERM", depths[i], 1);
            write_stream(STDOUT_FILENO, print_sheet, all[s]);
        }
        unsetenv("COLORTERM");
    }
    head("errors are one line without commands for the terminal");
    write_stream(STDERR_FILENO, say_bad, "\n\033[1m\t");
}

static void print_table(const void *user)
{
    static const char *titles[] = {"name", "n", "läng", "x"};
    static const char *cells[] = {"a", "1", "ö", "long cell", "abc", "12345", "", "y"};
    static const bool right[] = {false, true, false, true};
    const int size = *(const int *)user;
    table_print(&(cli_table){2, 4, titles, cells, size % 2 == 0 ? right : NULL}, size);
}

static void tables(void **state)
{
    (void)state;
    head("tables");
    for (int size = 0; size < 36; size += size < 10 ? 5 : 1)
        write_stream(STDOUT_FILENO, print_table, &size);
}

/* ---------------------------------------------------------------- curves in colours */

static void curves(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4}, rise[] = {1, 2, 4, 8}, fall[] = {8, NAN, 2, 1},
                        level[] = {3, 3, 3, 3};
    plot_curve curve[9] = {{0}};
    for (int i = 0; i < 9; i++)
        curve[i] = (plot_curve){"n", i * 7 % 60, 4 - i % 3, x,
                                i % 3 == 0   ? rise
                                : i % 3 == 1 ? fall
                                             : level};
    static const plot_terminal terminals[] = {{80, true, true, true},
                                              {40, true, false, true},
                                              {28, false, true, false},
                                              {27, true, false, false},
                                              {400, false, true, true}};
    for (int count = 1; count <= 9; count += 4) {
        for (size_t i = 0; i < 5; i++) {
            plot_panel panel = {
                .title = "Panel", .may_log = count == 5, .curves = count, .curve = curve};
            char *drawn = NULL;
            size_t bytes;
            assert_true(plot_fit(&panel));
            FILE *out = open_memstream(&drawn, &bytes);
            plot_print_text(out, &panel, &terminals[i]);
            assert_int_equal(fclose(out), 0);
            head("curves");
            for (const char *c = drawn; *c != '\0'; c++) {
                if (*c == '\033')
                    fputs("<esc>", text);
                else
                    fputc(*c, text);
            }
            free(drawn);
        }
    }
    for (int i = 0; i < 105; i += 13) fputc(plot_letter(i), text);
    fputc('\n', text);
}

#define PART(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PART(hardware), PART(limits), PART(environment),
        PART(folders),  PART(bars),   PART(sheets),
        PART(tables),   PART(curves), cmocka_unit_test(all_is_as_it_was),
    };
    return GOLDEN_RUN("parts.txt", tests);
}
