/*
 * What is made of time, with a clock that the test winds: doctor's measure of noise on CPUs that are as
 * noisy as asked for, and what a training draws and prints. As text, compared with golden/clocks.txt:
 *
 *     LKT_SOURCE=$PWD LKT_TRANSCRIPTS=write build/release/tests/test_cli_clocks
 */
#include "cli/golden.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <time.h>

#include <lockstep/lockstep.h>

#include "cli/doctor/doctor.h"
#include "cli/out/text.h"
#include "cli/report/report.h"

/* ---------------------------------------------------------------- what is exchanged */

static double now;
static int width;      /* of the terminal; 0: none */
static bool out_alone; /* standard output is none, standard error may be */

int __wrap_isatty(int file);
int __wrap_isatty(int file)
{
    return width != 0 && !(out_alone && file == STDOUT_FILENO);
}

int __wrap_ioctl(int file, unsigned long request, struct winsize *size);
int __wrap_ioctl(int file, unsigned long request, struct winsize *size)
{
    (void)file;
    (void)request;
    *size = (struct winsize){.ws_col = (unsigned short)width};
    return 0;
}

/* How the CPUs behave: slices of `slice` seconds, of which one in `every` takes `slow` times as long, and
 * those of the second half `half` times; the second CPU's take `other` times as long. */
typedef struct noise {
    const char *title;
    double slice, slow, half, other;
    int every, cpus, fails; /* fails: threads from this on cannot be started; -1: no mask */
    double used;            /* share of the time that the thread ran */
    double step, read;      /* of the clock */
    const char *stat[2];    /* the kernel's times, before and after */
} noise;

static const noise *given;
static int started, slices, looks;
static bool in_thread;

double __wrap_process_clock(void);
double __wrap_process_clock(void)
{
    if (!in_thread) {
        if (given != NULL && ++looks <= 5 * 2001) now += given->read;
        return now;
    }
    if (slices++ == 0) return now;
    double seconds = given->slice * (started == 2 ? given->other : 1);
    if (slices % given->every == 0) seconds *= given->slow;
    if (now > 0.5 + given->read * 10005) seconds *= given->half;
    now += seconds;
    return now;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument)
{
    const double began = now;
    (void)thread;
    (void)attributes;
    if (started++ == given->fails) return 1;
    in_thread = true;
    slices = 0;
    body(argument);
    in_thread = false;
    now = began;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_join(pthread_t thread, void **value)
{
    (void)thread;
    (void)value;
    write_text("r/proc/stat", given->stat[1]);
    return 0;
}

int __wrap_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set);
int __wrap_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    (void)thread;
    assert_int_equal(CPU_COUNT_S(size, set), 1);
    assert_true(CPU_ISSET((size_t)(started * 2), set)); /* each its own: 2, 4, ... */
    return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    (void)size;
    CPU_ZERO(set);
    for (int i = 1; i <= given->cpus; i++) CPU_SET((size_t)(2 * i), set);
    return given->fails == -1 ? -1 : 0;
}

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock != CLOCK_THREAD_CPUTIME_ID) return __real_clock_gettime(clock, out);
    const double used = given->used * now;
    *out = (struct timespec){(time_t)used, (long)(1e9 * (used - floor(used)))};
    return 0;
}

int __wrap_clock_getres(clockid_t clock, struct timespec *out);
int __wrap_clock_getres(clockid_t clock, struct timespec *out)
{
    (void)clock;
    *out = (struct timespec){0, (long)(1e9 * given->step + 0.5)};
    return 0;
}

/* ---------------------------------------------------------------- noise */

static void measure(const noise *n)
{
    static const char *const levels[] = {"ok", "note", "WARNING", "ERROR"};
    static cli_doctor doctor;
    char root[4200];
    given = n;
    now = 0;
    started = looks = 0;
    if (n->stat[0] != NULL) write_text("r/proc/stat", n->stat[0]);
    snprintf(root, sizeof root, "%s/r", folder);
    doctor = (cli_doctor){.root = root};
    doctor_noise(&doctor);
    given = NULL;
    head(n->title);
    for (int i = 0; i < doctor.count; i++) {
        const doctor_finding *f = &doctor.finding[i];
        fprintf(text, "%s %s: %s\n", levels[f->level], f->name, f->found);
        if (f->advice != NULL) fprintf(text, "    -> %s\n", f->advice);
        json_decref(f->values);
    }
    pool_clear(&doctor.pool);
}

static void noise_is_judged(void **state)
{
    (void)state;
    static const char none[] = "cpu  100 0 100 800 0 0 0 50\n",
                      same[] = "cpu  200 0 200 1700 0 0 0 61\n";
    static const char some[] = "cpu  200 0 200 1600 0 0 0 62\n",
                      much[] = "cpu  100 0 100 1600 0 0 0 150\n";
    static const char few[] = "cpu  100 0 100\n";
    static const noise all[] = {
        {"quiet", 4e-3, 1, 1, 1, 30, 1, 9, 1, 1e-9, 5e-8, {none, same}},
        {"two quiet CPUs", 4e-3, 1.09, 1, 1.04, 15, 2, 9, 0.985, 1e-6, 1e-6, {none, same}},
        {"a little of all",
         1e-3,
         1.11,
         1.06,
         1.06,
         15,
         2,
         9,
         0.975,
         1.002e-6,
         1.01e-6,
         {none, some}},
        {"just no warning", 4e-3, 1.48, 1.19, 1.24, 15, 2, 9, 0.855, 1e-9, 5e-8, {none, some}},
        {"much of all", 4e-3, 1.6, 0.75, 1.3, 15, 2, 9, 0.84, 1e-9, 5e-8, {none, much}},
        {"slow slices are fewer than one in twenty",
         1e-3,
         3,
         1,
         1,
         25,
         2,
         9,
         1,
         1e-9,
         5e-8,
         {none, few}},
        {"the time stands still", 4e-3, 1, 1, 1, 30, 1, 9, 1, 1e-9, 5e-8, {same, same}},
        {"one thread of two", 4e-3, 1, 1, 2, 30, 2, 1, 1, 1e-9, 5e-8, {few, same}},
        {"too short for a drift", 0.035, 1, 2, 1, 30, 1, 9, 1, 1e-9, 5e-8, {none, same}},
        {"long enough for one", 0.025, 1, 1.5, 1, 30, 1, 9, 1, 1e-9, 5e-8, {none, same}},
        {"no thread", 4e-3, 1, 1, 1, 30, 2, 0, 1, 1e-9, 5e-8, {none, same}},
        {"no mask", 4e-3, 1, 1, 1, 30, 2, -1, 1, 1e-9, 5e-8, {none, same}},
    };
    shell("mkdir -p r/proc r/sys/devices/system/clocksource/clocksource0");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (i == 2)
            write_text("r/sys/devices/system/clocksource/clocksource0/current_clocksource",
                       "hpet\n");
        measure(&all[i]);
    }
}

/* ---------------------------------------------------------------- a training */

typedef struct scene {
    const char *title, *settings[3];
    int width;
    bool out_alone, has_classes;
    double step; /* seconds */
} scene;

static lks_metrics metrics_of(int64_t samples, int64_t correct, int64_t bad, double loss)
{
    return (lks_metrics){.samples = samples,
                         .counted = samples,
                         .correct = correct,
                         .not_finite = bad,
                         .loss_low = (uint64_t)(loss * (double)(samples - bad) * 4294967296.0)};
}

/* Two epochs of five batches of 20, 80 samples in all; the fourth step is skipped. */
static void play(const void *user)
{
    const scene *s = user;
    cli_report report;
    const lks_recipe_parts parts = {
        .data = {.samples = 90, .classes = s->has_classes ? 10 : 0}, .epochs = 2, .steps = 10};
    lks_recipe *recipe;
    LKT_OK(lks_recipe_open(&recipe, NULL));
    LKT_OK(lks_recipe_set(recipe, "train.batch_size=20"));
    for (int i = 0; i < 3 && s->settings[i] != NULL; i++)
        LKT_OK(lks_recipe_set(recipe, s->settings[i]));
    now = 100;
    report_begin(&report, recipe, &parts);
    report_event(&report, json_pack("{s:s}", "event", "start"));
    for (int step = 1; step <= 10; step++) {
        const lks_metrics metrics = metrics_of(step % 5 == 0 ? 10 : 20, 3, 0, 2.0 / step);
        const lks_step_event event = {.step = step,
                                      .epoch = (step + 4) / 5,
                                      .batch = (step + 4) % 5,
                                      .batches = 5,
                                      .learning_rate = 0.1,
                                      .metrics = &metrics,
                                      .info = {step == 2 ? 1.5 : (double)NAN, step == 4}};
        now += s->step * (step % 3 + 1);
        report_step(&report, &event);
        if (step % 5 != 0) continue;
        lks_epoch epoch = {.epoch = step / 5,
                           .train = metrics_of(90, 40, 1, 3.0 / step),
                           .test = metrics_of(50, 20, step == 5 ? 2 : 0, 0.5),
                           .learning_rate = 0.1,
                           .seconds = 4.55,
                           .valid_rates = {(double)NAN, (double)NAN, (double)NAN},
                           .test_rates = {(double)NAN, (double)NAN, (double)NAN}};
        if (step == 10) epoch.valid = metrics_of(30, 25, 3, 0.25);
        now += 1000; /* evaluation */
        report_epoch(&report, &epoch);
    }
    report_end(&report, &(lks_run){.progress = {.step = 10}, .finished = true, .hash = 0x1234abcd});
    lks_recipe_close(recipe);
}

static const scene *scene_now;

static void play_scene(const void *user)
{
    (void)user;
    play(scene_now);
}

static void write_errors(const void *user)
{
    (void)user;
    write_stream(STDERR_FILENO, play_scene, NULL);
}

static void trainings_are_told(void **state)
{
    (void)state;
    static const scene scenes[] = {
        {"no terminal", {NULL}, 0, false, true, 0.05},
        {"a terminal", {NULL}, 100, false, true, 0.05},
        {"a narrow one", {NULL}, 45, false, true, 0.5},
        {"lines into a file", {"log.interval=2"}, 100, true, true, 0.5},
        {"an interval that was asked for", {"log.interval=2"}, 200, false, false, 30},
        {"JSON on a terminal", {"log.format=json"}, 100, false, true, 0.5},
        {"JSON into a file", {"log.format=json"}, 70, true, false, 0.5},
        {"CSV", {"log.format=csv"}, 0, false, true, 0.5},
        {"quiet", {"log.quiet=true"}, 100, false, true, 0.5},
        {"quiet JSON", {"log.quiet=true", "log.format=json"}, 100, false, true, 0.5},
    };
    setenv("TERM", "xterm", 1);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        width = scenes[i].width;
        out_alone = scenes[i].out_alone;
        scene_now = &scenes[i];
        head(scenes[i].title);
        write_stream(STDOUT_FILENO, write_errors, NULL);
    }
    width = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(noise_is_judged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trainings_are_told, set_up, tear_down),
        cmocka_unit_test(all_is_as_it_was),
    };
    return GOLDEN_RUN("clocks.txt", tests);
}
