/*
 * What verbs say where the library answers otherwise than it does: bits that differ, a kernel that is
 * wrong, steps of known times, a quiet machine. The verbs run in this process, and the linker puts
 * the functions below between them and the library (tests.cmake: --wrap).
 */
#include <fenv.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cli/program.h"

#include <fcntl.h>
#include <math.h>

#include <lockstep/lockstep.h>

#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "cli/verbs/rates.h"
#include "support/backends.h"

/* The address sanitizer asks for it. gcc's takes what lies in front of a loaded library's thread-local storage for its size,
 * and ends where that leads its search for leaks; libraries are loaded into this process by the doctor. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}

/* ---------------------------------------------------------------- what is exchanged */

static int other_bits_with; /* workers; 0: nobody */

lks_status __real_lks_model_hash(lks_model *model, uint64_t *out);
lks_status __wrap_lks_model_hash(lks_model *model, uint64_t *out);
lks_status __wrap_lks_model_hash(lks_model *model, uint64_t *out)
{
    const lks_status status = __real_lks_model_hash(model, out);
    if (lks_model_get_info(model).workers == other_bits_with) *out ^= 1;
    return status;
}

static bool known_times; /* step k takes 1 + 5 k mod 16 milliseconds: 1 to 16, in disorder */
static double now;
static int steps_done;

double __real_process_clock(void);
double __wrap_process_clock(void);
double __wrap_process_clock(void)
{
    return known_times ? now : __real_process_clock();
}

lks_status __real_lks_model_step(lks_model *model, const lks_batch *batch, double lr,
                                 lks_metrics *metrics);
lks_status __wrap_lks_model_step(lks_model *model, const lks_batch *batch, double lr,
                                 lks_metrics *metrics);
lks_status __wrap_lks_model_step(lks_model *model, const lks_batch *batch, double lr,
                                 lks_metrics *metrics)
{
    now += 1e-3 * (1 + steps_done++ * 5 % 16);
    return __real_lks_model_step(model, batch, lr, metrics);
}

static bool quiet_machine;

void __real_doctor_noise(cli_doctor *doctor);
void __wrap_doctor_noise(cli_doctor *doctor);
void __wrap_doctor_noise(cli_doctor *doctor)
{
    if (!quiet_machine) __real_doctor_noise(doctor);
}

static const char *other_fingerprint; /* NULL: the machine's own */

const char *__real_lks_context_fingerprint(const lks_context *context);
const char *__wrap_lks_context_fingerprint(const lks_context *context);
const char *__wrap_lks_context_fingerprint(const lks_context *context)
{
    return other_fingerprint != NULL ? other_fingerprint : __real_lks_context_fingerprint(context);
}

static int
    other_format; /* what a folder has in a format of its own: 1 training samples, 2 a test split too */
static int64_t broken_at = -1; /* sample of it that cannot be read */

bool __real_lks_dataset_folder_has(const char *path, bool test_split);
bool __wrap_lks_dataset_folder_has(const char *path, bool test_split);
bool __wrap_lks_dataset_folder_has(const char *path, bool test_split)
{
    return other_format > test_split || __real_lks_dataset_folder_has(path, test_split);
}

static lks_status read_other(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    memset(x, (int)index, 6);
    *(int32_t *)y = (int32_t)index % 3;
    return index == broken_at ? lks_fail(LKS_E_FORMAT, "it is broken") : LKS_OK;
}

lks_status __real_lks_dataset_open_folder(lks_dataset **out, lks_context *context, const char *path,
                                          bool test_split, int64_t classes);
lks_status __wrap_lks_dataset_open_folder(lks_dataset **out, lks_context *context, const char *path,
                                          bool test_split, int64_t classes);
lks_status __wrap_lks_dataset_open_folder(lks_dataset **out, lks_context *context, const char *path,
                                          bool test_split, int64_t classes)
{
    const lks_dataset_ops ops = {.info = {.samples = test_split ? 1 : 1200,
                                          .shape = LKS_SHAPE(3, 2),
                                          .dtype = LKS_U8,
                                          .classes = 3},
                                 .read = read_other};
    return other_format > test_split
               ? lks_dataset_create(out, context, "other", &ops, NULL)
               : __real_lks_dataset_open_folder(out, context, path, test_split, classes);
}

static float wrong_by; /* is added to the first output of relu on any device but ref; NaN too */

static lks_status wrong_forward(const lki_plan *plan, const lki_args *args);

const lki_backend *__real_lki_backend_find(const char *name);
const lki_backend *__wrap_lki_backend_find(const char *name);
const lki_backend *__wrap_lki_backend_find(const char *name)
{
    static lki_impl impl;
    static const lki_impl *impls[100] = {&impl}; /* wrong, then all that are right */
    static lki_kernel relu;
    static lki_backend wrong;
    const lki_backend *right = __real_lki_backend_find(name);
    if (right == NULL || wrong_by == 0 || strcmp(name, "ref") == 0) return right;
    relu = *lkt_kernel(right, LKI_OP_RELU);
    relu.forward = wrong_forward;
    impl = (lki_impl){
        .name = "wrong", .pattern = {{.ops = LKI_OPS(RELU)}}, .count = 1, .kernel = &relu};
    size_t count = 1;
    for (int i = 0; right->impl[i] != NULL; i++) {
        assert_true(count < sizeof impls / sizeof *impls - 1);
        impls[count++] = right->impl[i];
    }
    wrong = *right;
    wrong.impl = impls;
    return &wrong;
}

static lks_status wrong_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_backend *right = __real_lki_backend_find(lks_context_device(plan->context));
    const lks_status status = lkt_kernel(right, LKI_OP_RELU)->forward(plan, args);
    if (args->position == 0) *(float *)args->out += wrong_by;
    return status;
}

static int calm(void **state)
{
    other_bits_with = 0;
    known_times = quiet_machine = false;
    wrong_by = 0;
    other_fingerprint = NULL;
    other_format = 0;
    broken_at = -1;
    return tear_down(state);
}

/* ---------------------------------------------------------------- running a verb here */

/* The words of a command line, in the test's folder; into `last`. */
static lks_status try_here(const char *line)
{
    static char words[1024];
    char *argv[64], *rest = NULL, where[4096];
    int argc = 0, code = 0;
    cli_pool pool = {0};
    cli_args cli;
    argv[argc++] = (char *)(uintptr_t) "lockstep";
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok_r(words, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    argv[argc] = NULL;
    assert_non_null(getcwd(where, sizeof where));
    assert_int_equal(chdir(folder), 0);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO), out = open("out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(kept >= 0 && out >= 0 && dup2(out, STDOUT_FILENO) >= 0);
    lks_status status = cli_parse(&cli, &pool, argc, argv);
    if (status == LKS_OK) status = cli.verb->run(&cli, &code);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(out);
    close(kept);
    assert_int_equal(chdir(where), 0);
    pool_clear(&pool);
    last.code = code;
    read_text(last.out, "out.txt");
    return status;
}

static void here(const char *line)
{
    if (try_here(line) != LKS_OK) fail_msg("%s: %s", line, lks_last_error()->message);
}

static void verify_finds_the_run_that_differs(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    here("verify c.yaml --workers 1,2,3,4 --steps 2");
    assert_int_equal(last.code, 0);
    expect_out("equal: 4 runs have the same bits after 2 steps\n");
    for (int workers = 2; workers <= 4; workers++) { /* also one in the middle, or the last alone */
        char line[100];
        other_bits_with = workers;
        here("verify c.yaml --workers 1,2,3,4 --steps 2");
        assert_int_equal(last.code, 1);
        snprintf(line, sizeof line, "workers %d: the hash differs from that of workers 1\n",
                 workers);
        expect_out(line);
        expect_out("different: 1 of 4 runs\n");
    }
    other_bits_with = 1;
    here("verify c.yaml --workers 1,2,3,4 --steps 2");
    assert_int_equal(last.code, 1);
    expect_out("different: 3 of 4 runs\n");
}

/* Whatever format the library has beside IDX: the verb asks it. */
static void a_folder_in_another_format_is_checked(void **state)
{
    (void)state;
    shell("mkdir -p empty");
    LKT_FAILS(LKS_E_IO, "empty is no data set: it has none of the files",
              try_here("data check empty"));
    other_format = 1;
    here("data check empty");
    assert_string_equal(last.out, "1,200 training samples of 3x2\n"
                                  "no test split: a training can hold samples back, with "
                                  "validation.fraction\nempty: nothing is wrong\n");
    other_format = 2;
    here("data check empty");
    assert_string_equal(last.out, "1,200 training samples of 3x2\n1 test sample of 3x2\n"
                                  "empty: nothing is wrong\n");
    broken_at = 1199;
    LKT_FAILS(LKS_E_FORMAT, "it is broken", try_here("data check empty"));
    assert_string_equal(last.out, "");
}

/* 16 steps of 1 to 16 ms: sorted, those at a quarter, a half and three quarters. */
static void quartiles_are_those_of_the_steps(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    known_times = true;
    here("bench c.yaml --steps 16");
    expect_out("\nstep     9.000 ms (median)\n");
    expect_out("\nspread   quartiles 5.000 and 13.000, least 1.000, most 16.000\n");
    expect_out("steps    16 after 10 to warm up, 0.14 s");
    expect_out("\nspeed    5,882 samples/s\n"); /* 800 in 0.136 s */
}

static void a_wrong_kernel_is_not_good(void **state)
{
    (void)state;
    static const float wrong[] = {0.01f, -1e-5f, NAN, INFINITY};
#ifndef LKT_HAVE_CPU
    print_message("no device but ref: skipped\n");
    skip();
#endif
    here("op relu in=3x40 --seconds 0.0001");
    assert_int_equal(last.code, 0);
    expect_out("good: every element is within its bound");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wrong_by = wrong[i];
        here("op relu in=3x40 --seconds 0.0001");
        assert_int_equal(last.code, 1);
        assert_null(strstr(last.out, "good: every"));
        here("op relu in=3x40 --seconds 0.0001 --format json");
        assert_int_equal(last.code, 1);
        expect_out("\"good\": false");
    }
    wrong_by = 0.25f; /* its gradient alone is right */
    here("op relu in=3x40 --seconds 0.0001");
    expect_out("gradient of input 0");
    assert_int_equal(last.code, 1);
}

/* A quota of one CPU and a half is two, and what is no more than a note is no failure. */
static void notes_are_no_failure(void **state)
{
    (void)state;
    char arguments[4200];
    quiet_machine = true;
    shell("mkdir -p r/proc/self r/sys/fs/cgroup/box");
    write_text("r/proc/self/cgroup", "0::/box\n");
    write_text("r/sys/fs/cgroup/box/cpu.max", "150000 100000\n");
    write_text("r/proc/loadavg", "1000.50 3 4 1/2 3\n");
    snprintf(arguments, sizeof arguments, "doctor --root %s", in_folder("r"));
    here(arguments);
    expect_out("CPU quota          2 cores, rounded up\n");
    expect_out("  note     load  ");
    if (strstr(last.out, " 0 warnings,") != NULL && strstr(last.out, "0 errors,") != NULL)
        assert_int_equal(last.code, 0);
    else if (strstr(last.out, "warning  ") == NULL)
        fail_msg("neither warnings nor none: %s", last.out);
}

/* A thread that flushes denormals, or rounds otherwise: workers do not, and the note says so. */
static void another_arithmetic_is_noted(void **state)
{
    (void)state;
    quiet_machine = true;
    here("doctor");
    expect_out("denormals          kept, as the standard asks, round to nearest\n");
    fesetround(FE_UPWARD);
    here("doctor");
    fesetround(FE_TONEAREST);
    expect_out("kept, as the standard asks, another rounding\n");
    expect_out("so training is not touched");
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    here("doctor");
    _mm_setcsr(before);
    expect_out("  note     denormals ");
    expect_out("flushed to zero, round to nearest\n");
#endif
}

/* A processor that runs no kernels but portable ones, which have no instruction for a multiply-add. */
static void a_processor_without_multiply_add_is_slow(void **state)
{
    (void)state;
#if !defined(LKT_HAVE_CPU) || defined(FP_FAST_FMAF)
    print_message("portable kernels are not there, or have the instruction: skipped\n");
    skip();
#endif
    static const char advice[] =
        "-> the processor, or the virtual machine, has no fused multiply-add";
    const char *asked = getenv("LKS_ISA"), *kept = asked != NULL ? strdup(asked) : NULL;
    quiet_machine = true;
    unsetenv("LKS_ISA");
    other_fingerprint = "x86_64 sse4.1 avx L1d=32K; cpu: avx2";
    here("doctor");
    assert_null(strstr(last.out, advice));
    other_fingerprint = "x86_64 sse4.1 avx L1d=32K; cpu: portable";
    here("doctor");
    expect_out("  warning  device             cpu: portable\n");
    expect_out(advice);
    assert_int_equal(last.code, 10);
    setenv("LKS_ISA", "portable", 1); /* by choice: the processor may have it */
    here("doctor");
    expect_out("  note     device             cpu: portable\n");
    expect_out("unset it for the fastest, with the same bits");
    assert_null(strstr(last.out, advice));
    if (kept != NULL)
        setenv("LKS_ISA", kept, 1);
    else
        unsetenv("LKS_ISA");
    free((void *)(uintptr_t)kept);
}

#define STAGED(name) cmocka_unit_test_setup_teardown(name, set_up, calm)

/* Of advice of one level the first is given. */
static void the_first_advice_stays(void **state)
{
    (void)state;
    static cli_doctor doctor;
    doctor_finding *finding = doctor_add(&doctor, "name", "found");
    doctor_raise(&doctor, finding, LEVEL_NOTE, "first");
    doctor_raise(&doctor, finding, LEVEL_NOTE, "second");
    assert_string_equal(finding->advice, "first");
    doctor_raise(&doctor, finding, LEVEL_WARNING, "third");
    doctor_raise(&doctor, finding, LEVEL_NOTE, "fourth");
    assert_string_equal(finding->advice, "third");
    assert_int_equal(finding->level, LEVEL_WARNING);
    pool_clear(&doctor.pool);
}

/* Digits that say something, and no rounding to one digit more than the others have. */
static void rates_and_shares_at_their_edges(void **state)
{
    (void)state;
    static const struct row {
        double value;
        const char *rate, *share;
    } rows[] = {{0, "", ""},
                {0.0123, "0.012", "1.2%"},
                {0.0944, "0.094", "9.4%"},
                {0.0994, "0.1", "9.9%"},
                {0.0996, "0.1", "10%"},
                {0.5, "0.5", "50%"},
                {0.996, "1.0", "100%"},
                {99.94, "99.9", "9994%"},
                {1234, "1234", "123400%"}};
    char text[24];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(rate_text(text, 1e9 * rows[i].value), rows[i].rate);
        assert_string_equal(share_text(text, rows[i].value), rows[i].share);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(a_folder_in_another_format_is_checked),
        STAGED(verify_finds_the_run_that_differs),
        STAGED(quartiles_are_those_of_the_steps),
        STAGED(a_wrong_kernel_is_not_good),
        STAGED(notes_are_no_failure),
        STAGED(another_arithmetic_is_noted),
        STAGED(the_first_advice_stays),
        STAGED(rates_and_shares_at_their_edges),
        STAGED(a_processor_without_multiply_add_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
