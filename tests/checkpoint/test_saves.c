/* What is not saved, and what a save that fails leaves. */
#include "train/folder.h"
#include "train/tiny.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t newest(void)
{
    int64_t step;
    LKT_OK(lks_checkpoint_find(folder, &step));
    return step;
}

/* A record that counts other skipped steps than its model would be refused when it is loaded. */
static void counts_are_those_of_the_model(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){0});
    tiny_steps(&t, 3);
    lks_run run = tiny_run(&t);
    run.progress.skipped = 1;
    LKT_FAILS(LKS_E_INVALID, "set run.progress = lks_model_progress(model) before saving",
              lks_checkpoint_save(t.model, &run, folder, 1));
    assert_int_equal(newest(), -1);
    run.progress.skipped = 0;
    run.progress.link++; /* of another chain of hashes */
    LKT_FAILS(LKS_E_INVALID, "set run.progress = lks_model_progress(model) before saving",
              lks_checkpoint_save(t.model, &run, folder, 1));
    assert_int_equal(newest(), -1);
    run.progress.link--;
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1));
    tiny_close(&t);
}

/* Running statistics are as much of the model as its parameters. */
static void statistics_are_finite(void **state)
{
    (void)state;
    static const char *const names[] = {"bn.running_mean", "bn.running_var"};
    char file[4300];
    snprintf(file, sizeof file, "%s.safetensors", folder);
    for (int i = 0; i < 2; i++) {
        tiny t = tiny_open(&(tiny_opts){0});
        tiny_steps(&t, 2);
        const int index = lks_model_state_find(t.model, names[i]);
        assert_true(index >= 0);
        const lks_state_info info = lks_model_state_info(t.model, index);
        float values[16];
        assert_true(info.bytes <= sizeof values);
        LKT_OK(lks_model_state_read(t.model, index, values, info.bytes));
        values[2] = i == 0 ? NAN : INFINITY;
        LKT_OK(lks_model_state_write(t.model, index, values, info.bytes));
        const lks_run run = tiny_run(&t);
        char sentence[100];
        snprintf(sentence, sizeof sentence, "buffer '%s' is not finite after step 2: element 2 is",
                 names[i]);
        LKT_FAILS(LKS_E_NUMERIC, sentence, lks_checkpoint_save(t.model, &run, folder, 1));
        assert_int_equal(newest(), -1);
        LKT_FAILS(LKS_E_NUMERIC, sentence, lks_weights_save(t.model, file));
        assert_int_not_equal(access(file, F_OK), 0);
        tiny_close(&t);
    }
}

/* A save whose tensors fit on the disk, and whose record does not. */
static lks_status save_long_record(tiny *t, lks_run *run)
{
    static char config[8192];
    struct rlimit old;
    memset(config, 'x', sizeof config - 1);
    run->config = config;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){6000, old.rlim_max}), 0);
    const lks_status status = lks_checkpoint_save(t->model, run, folder, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    run->config = NULL;
    return status;
}

/* What was saved before, of the same step and bits, stays whole where its record cannot be replaced. */
static void a_failed_repetition_takes_nothing_away(void **state)
{
    (void)state;
    lks_run found;
    tiny t = tiny_open(&(tiny_opts){0});
    tiny_steps(&t, 5);
    lks_run run = tiny_run(&t);
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1));
    LKT_FAILS(LKS_E_IO, "step-00000005.json", save_long_record(&t, &run));
    LKT_OK(lks_checkpoint_load(t.context, t.model, &found, folder, 5));
    lks_run_clear(&found);
    tiny_close(&t);
}

/* Another training, at the same step, whose record cannot be written: the tensors are in place when
 * that shows, and must not stand beside the record of the first. */
static void no_record_has_the_tensors_of_another(void **state)
{
    (void)state;
    lks_run found;
    tiny one = tiny_open(&(tiny_opts){.seed = 1});
    tiny_steps(&one, 5);
    lks_run run = tiny_run(&one);
    LKT_OK(lks_checkpoint_save(one.model, &run, folder, 1));
    tiny_close(&one);

    tiny other = tiny_open(&(tiny_opts){.seed = 2});
    tiny_steps(&other, 5);
    run = tiny_run(&other);
    const lks_status status = save_long_record(&other, &run);
    LKT_FAILS(LKS_E_IO, "step-00000005.json", status);
    assert_int_equal(newest(), -1);
    LKT_FAILS(LKS_E_IO, "", lks_checkpoint_load(other.context, NULL, &found, folder, 5));
    run.config = NULL;
    LKT_OK(lks_checkpoint_save(other.model, &run, folder, 1));
    LKT_OK(lks_checkpoint_load(other.context, other.model, &found, folder, 5));
    lks_run_clear(&found);
    tiny_close(&other);
}

/* Both files, by their checksums, and no model is needed. */
static void checkpoints_are_checked(void **state)
{
    (void)state;
    char path[4300];
    tiny t = tiny_open(&(tiny_opts){0});
    tiny_steps(&t, 5);
    const lks_run run = tiny_run(&t);
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1));
    LKT_OK(lks_checkpoint_check(t.context, folder, 5));
    LKT_FAILS(LKS_E_IO, "no such file", lks_checkpoint_check(t.context, folder, 6));
    snprintf(path, sizeof path, "%s/step-00000005.safetensors", folder);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    assert_int_not_equal(fputc('x', file), EOF);
    assert_int_equal(fclose(file), 0);
    LKT_FAILS(LKS_E_FORMAT, "is damaged: its checksum is", lks_checkpoint_check(NULL, folder, 5));
    assert_int_equal(truncate(path, 30), 0);
    LKT_FAILS(LKS_E_FORMAT, "is damaged: it has ", lks_checkpoint_check(NULL, folder, 5));
    assert_int_equal(unlink(path), 0);
    LKT_FAILS(LKS_E_IO, "no such file", lks_checkpoint_check(NULL, folder, 5));
    snprintf(path, sizeof path, "%s/step-00000005.json", folder);
    assert_int_equal(truncate(path, 300), 0);
    LKT_FAILS(LKS_E_FORMAT, "is damaged", lks_checkpoint_check(NULL, folder, 5));
    tiny_close(&t);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(counts_are_those_of_the_model),
        TEST(statistics_are_finite),
        TEST(a_failed_repetition_takes_nothing_away),
        TEST(no_record_has_the_tensors_of_another),
        TEST(checkpoints_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
