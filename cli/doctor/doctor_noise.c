/* doctor: the clock, and how evenly a fixed piece of arithmetic runs on each CPU. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "cli/doctor/doctor.h"
#include "cli/process.h"

enum {
    MOST_CPUS = 256,
    MOST_SLICES = 8192,
    ROUNDS = 100000, /* of the arithmetic in a slice: 100 to 300 us */
};
static const double SECONDS = 1.0;

/* What one CPU did: each slice is the same work. */
typedef struct measure {
    int cpu;
    pthread_t thread;
    double until;
    int slices;
    float seconds[MOST_SLICES];
    double wall, used; /* seconds that passed, and that the thread ran */
    double median, late;
    uint64_t sink;
} measure;

/* A chain of multiplications, each of which needs the last: its time is the clock rate's, whatever
 * else the core could do. */
static uint64_t doctor_noise_work(uint64_t x)
{
    for (int i = 0; i < ROUNDS; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static double thread_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *doctor_noise_run(void *argument)
{
    measure *m = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)m->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    m->sink = doctor_noise_work(1);
    const double began = process_clock(), used = thread_seconds();
    double last = began;
    while (last < m->until && m->slices < MOST_SLICES) {
        m->sink = doctor_noise_work(m->sink);
        const double now = process_clock();
        m->seconds[m->slices++] = (float)(now - last);
        last = now;
    }
    m->wall = last - began;
    m->used = thread_seconds() - used;
    return NULL;
}

static int by_value(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return a < b ? -1 : a > b;
}

static double quantile(float *values, int count, double share)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (double)values[(int)(share * (count - 1))];
}

/* The fastest slices of the first and of the last quarter: how the clock rate changed. */
static double drift_of(measure *m)
{
    const int quarter = m->slices / 4;
    if (quarter < 8) return 0;
    float first[MOST_SLICES], last[MOST_SLICES];
    const size_t bytes = (size_t)quarter * sizeof *first;
    memcpy(first, m->seconds, bytes);
    memcpy(last, m->seconds + m->slices - quarter, bytes);
    return quantile(last, quarter, 0.1) / quantile(first, quarter, 0.1) - 1;
}

/* Time of the whole machine since it started: in all, and stolen by its host. */
static bool read_stolen(const cli_doctor *d, double *all, double *stolen)
{
    char line[DOCTOR_LINE];
    double field[8];
    if (!doctor_entry(d, line, "/proc/stat", "cpu ") ||
        sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf", &field[0], &field[1], &field[2], &field[3],
               &field[4], &field[5], &field[6], &field[7]) != 8)
        return false;
    *all = 0;
    for (int i = 0; i < 8; i++) *all += field[i];
    *stolen = field[7];
    return true;
}

static void add_percent(cli_doctor *d, const char *name, const char *what, double share,
                        const double limit[2], const char *advice)
{
    doctor_finding *f = doctor_add(d, name, "%.1f %% %s", 100 * share, what);
    f->values = json_pack("{s:f}", "share", share);
    if (share > limit[1])
        doctor_raise(d, f, LEVEL_WARNING, "%s", advice);
    else if (share > limit[0])
        doctor_raise(d, f, LEVEL_NOTE, "%s", advice);
}

/* Findings from what the CPUs did, the worst of them each. */
static void doctor_noise_judge(cli_doctor *d, measure *m, int count)
{
    double fastest = (double)INFINITY, slowest = 0, late = 0, away = 0, drift = 0;
    for (int i = 0; i < count; i++) {
        const double change = drift_of(&m[i]);
        m[i].median = quantile(m[i].seconds, m[i].slices, 0.5);
        m[i].late = quantile(m[i].seconds, m[i].slices, 0.95) / m[i].median - 1;
        fastest = fmin(fastest, m[i].median);
        slowest = fmax(slowest, m[i].median);
        late = fmax(late, m[i].late);
        if (m[i].wall > 0) away = fmax(away, 1 - m[i].used / m[i].wall);
        if (fabs(change) > fabs(drift)) drift = change;
    }
    add_percent(d, "spread of a CPU", "slower than the median is one slice in twenty", late,
                (double[]){0.1, 0.5},
                "something interrupts the work, so timings of single steps vary; compare medians "
                "of many");
    if (count > 1)
        add_percent(d, "spread of CPUs", "between the fastest and the slowest",
                    slowest / fastest - 1, (double[]){0.05, 0.25},
                    "a step waits for its slowest worker; choose equal CPUs that are free with "
                    "taskset -c, or fewer --workers");
    add_percent(d, "taken away", "of the time another thread ran, or a quota stopped this one",
                away, (double[]){0.02, 0.15},
                "other programs compute on these CPUs, or a quota is used up; end them, or choose "
                "other CPUs with taskset -c");
    add_percent(d, "frequency change", "within the second that was measured", fabs(drift),
                (double[]){0.05, 0.2},
                "the clock rate is not steady (boost, heat, power saving); measure for longer, or "
                "fix it with cpupower");
}

static void measure_cpus(cli_doctor *d)
{
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        doctor_add(d, "noise", "not known");
        return;
    }
    measure *m = pool_alloc(&d->pool, MOST_CPUS * sizeof *m);
    double before[2] = {0}, after[2] = {0};
    const bool known = read_stolen(d, &before[0], &before[1]);
    const double until = process_clock() + SECONDS;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < MOST_CPUS; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        m[count] = (measure){.cpu = cpu, .until = until};
        if (pthread_create(&m[count].thread, NULL, doctor_noise_run, &m[count]) != 0) break;
        count++;
    }
    int measured = 0;
    for (int i = 0; i < count; i++) pthread_join(m[i].thread, NULL);
    for (int i = 0; i < count; i++) {
        if (m[i].slices == 0) continue;
        if (measured < i) m[measured] = m[i];
        measured++;
    }
    if (measured == 0) {
        doctor_raise(d, doctor_add(d, "noise", "not known: no thread could run"), LEVEL_WARNING,
                     "workers are threads; see the limit of processes, and the load");
        return;
    }
    doctor_noise_judge(d, m, measured);
    if (known && read_stolen(d, &after[0], &after[1]) && after[0] > before[0])
        add_percent(d, "stolen", "of the CPUs' time the host of this virtual machine took",
                    (after[1] - before[1]) / (after[0] - before[0]), (double[]){0.01, 0.1},
                    "other virtual machines use the same CPUs; nothing inside this one helps");
    else
        doctor_add(d, "stolen", "not known");
}

static void check_clock(cli_doctor *d)
{
    enum { CALLS = 2000, TRIES = 5 };
    static const double SLOW = 1e-6;
    char source[DOCTOR_LINE];
    struct timespec resolution = {0};
    double best = (double)INFINITY;
    for (int i = 0; i < TRIES; i++) {
        const double began = process_clock();
        double last = began;
        for (int k = 0; k < CALLS; k++) last = process_clock();
        best = fmin(best, (last - began) / CALLS);
    }
    clock_getres(CLOCK_MONOTONIC, &resolution);
    const double step = (double)resolution.tv_sec + 1e-9 * (double)resolution.tv_nsec;
    if (!doctor_line(d, source, "/sys/devices/system/clocksource/clocksource0/current_clocksource"))
        snprintf(source, sizeof source, "source not known");
    doctor_finding *f = doctor_add(d, "clock", "%.40s, resolution %.3g ns, %.0f ns to read", source,
                                   1e9 * step, 1e9 * best);
    f->values = json_pack("{s:f, s:f}", "resolution", step, "read", best);
    if (step > SLOW)
        doctor_raise(d, f, LEVEL_NOTE, "the clock is coarse; short timings mean little");
    if (best > SLOW)
        doctor_raise(d, f, LEVEL_NOTE,
                     "the clock is slow to read; where the kernel allows it, choose tsc as its "
                     "clock source");
}

void doctor_noise(cli_doctor *d)
{
    check_clock(d);
    measure_cpus(d);
}
