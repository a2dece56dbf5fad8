/* Checkpoints: what they bring back, what they refuse, what a failed save leaves. */
#include "checkpoint/checkpoints.h"

static void bring_all_back(void **state)
{
    (void)state;
    const lks_optim optims[] = {lks_sgd(0.9f), lks_adam(), lks_adadelta()};
    for (int i = 0; i < 3; i++) {
        lks_epoch history[2];
        tiny one = tiny_open(&(tiny_opts){.seed = UINT64_MAX, .optim = optims[i]});
        tiny_steps(&one, 13);
        const lks_run run = full_run(&one, history);
        LKT_OK(lks_checkpoint_save(one.model, &run, folder, 0));
        assert_true(there("step-00000013.json") && there("step-00000013.safetensors"));
        assert_int_equal(newest(), 13);

        lks_run found;
        tiny other = tiny_open(&(tiny_opts){.seed = UINT64_MAX, .workers = 3, .optim = optims[i]});
        LKT_OK(lks_checkpoint_load(other.context, other.model, &found, folder, 13));
        assert_same_run(&run, &found);
        lks_run_clear(&found);
        assert_null(found.history);
        const tiny_state a = tiny_read(&one), b = tiny_read(&other);
        tiny_assert_same(&a, &b);
        tiny_steps(&one, 9);
        tiny_steps(&other, 9);
        assert_int_equal(tiny_hash(&one), tiny_hash(&other));

        LKT_OK(lks_checkpoint_load(one.context, NULL, &found, folder, 13));
        assert_same_run(&run, &found);
        lks_run_clear(&found);
        tiny_close(&one);
        tiny_close(&other);
    }
}

static void keep_what_is_not_known(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){0});
    lks_run run = tiny_run(&t), found;
    run.best_loss = (double)NAN;
    run.so_far_seconds = (double)INFINITY; /* the record has no infinity: null */
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1));
    LKT_OK(lks_checkpoint_load(t.context, t.model, &found, folder, 0));
    assert_true(isnan(found.best_loss) && isnan(found.so_far_seconds));
    assert_null(found.config);
    assert_int_equal(found.best_step, -1);
    assert_int_equal(found.epochs, 0);
    lks_run_clear(&found);
    tiny_close(&t);
}

static void are_found(void **state)
{
    (void)state;
    assert_int_equal(newest(), -1);
    tiny t = tiny_open(&(tiny_opts){0});
    tiny_steps(&t, 2);
    save(&t, 0);
    tiny_steps(&t, 9);
    save(&t, 0);
    assert_int_equal(newest(), 11);
    const char *others[] = {
        "step-00000099.safetensors", ".step-00000100.json.lockstep-0123456789abcdef",
        "step-00000101.json.old",    "step-102.json",
        "step--0000001.json",        "step-99999999999999999999.json",
        "step-0000010x.json",        "step-.json"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) write_file(others[i], "x", 1);
    assert_int_equal(newest(), 11);
    tiny_close(&t);

    lks_run run;
    int64_t step;
    LKT_FAILS(LKS_E_IO, "no such file", lks_checkpoint_load(NULL, NULL, &run, folder, 3));
    assert_null(strstr(lks_last_error()->message, "remove"));
    write_file("plain", "x", 1);
    LKT_FAILS(LKS_E_IO, "cannot be read", lks_checkpoint_find(in_folder("plain"), &step));
    assert_int_equal(step, -1);
}

static void older_ones_go(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){0});
    for (int i = 0; i < 6; i++) {
        tiny_steps(&t, 1);
        lks_run run = tiny_run(&t);
        run.best_step = i < 1 ? -1 : 2;
        LKT_OK(lks_checkpoint_save(t.model, &run, folder, i < 3 ? 0 : 2));
        if (i == 2) assert_true(there("step-00000001.json") && there("step-00000002.json"));
    }
    for (int step = 1; step <= 6; step++) {
        char record[32], tensors[32];
        snprintf(record, sizeof record, "step-%08d.json", step);
        snprintf(tensors, sizeof tensors, "step-%08d.safetensors", step);
        const bool stays = step == 2 || step >= 5;
        assert_int_equal(there(record), stays);
        assert_int_equal(there(tensors), stays);
    }
    tiny_close(&t);
}

/* What a killed process leaves is removed by the next save; what a living one writes is not. */
static void leftovers_go(void **state)
{
    (void)state;
    lki_writer *other;
    tiny t = tiny_open(&(tiny_opts){0});
    tiny_steps(&t, 1);
    save(&t, 0);
    LKT_OK(lki_writer_open(&other, NULL, in_folder("step-00000008.json")));
    write_file(".step-00000007.json.lockstep-0123456789abcdef", "x", 1);
    write_file(".steps.lockstep-0123456789abcdef", "x", 1);
    write_file("step-00000009.safetensors", "x", 1);
    write_file("notes.txt", "x", 1);
    tiny_steps(&t, 1);
    save(&t, 0);
    assert_false(there(".step-00000007.json.lockstep-0123456789abcdef"));
    assert_true(there(".steps.lockstep-0123456789abcdef"));
    assert_false(there("step-00000009.safetensors"));
    assert_true(there("notes.txt"));
    assert_true(there("step-00000001.json") && there("step-00000001.safetensors"));
    assert_true(there("step-00000002.json") && there("step-00000002.safetensors"));
    LKT_OK(lki_writer_commit(other)); /* it was not taken away */
    tiny_close(&t);
}

static void of_other_runs_are_refused(void **state)
{
    (void)state;
    save_five(&(tiny_opts){.seed = 9, .optim = lks_adam()});
    refuses(&(tiny_opts){.seed = 9, .optim = lks_adam(), .replicas = 2}, LKS_E_MISMATCH,
            "was made with replicas 4, this run has 2");
    refuses(&(tiny_opts){.seed = 9, .optim = lks_adam(), .batch = 10}, LKS_E_MISMATCH,
            "was made with a batch of 8, this run has 10");
    refuses(&(tiny_opts){.seed = 9, .optim = lks_adam(), .hash_every = 20}, LKS_E_MISMATCH,
            "was made with hash_every 10, this run has 20");
    refuses(&(tiny_opts){.seed = 8, .optim = lks_adam()}, LKS_E_MISMATCH,
            "was made with seed 9, this run has 8");
    refuses(&(tiny_opts){.seed = 10, .optim = lks_adam()}, LKS_E_MISMATCH,
            "was made with seed 9, this run has 10");
    refuses(&(tiny_opts){.seed = 9, .optim = lks_adam(), .hidden = 4}, LKS_E_MISMATCH,
            "step-00000005.safetensors' belongs to another network: its 'fc1.weight' is 5x6 F32, "
            "the model's is 4x6 F32");
    refuses(&(tiny_opts){.seed = 9, .optim = lks_adam(), .name = "other"}, LKS_E_MISMATCH,
            "has no tensor 'other.weight'");
    refuses(&(tiny_opts){.seed = 9, .optim = lks_adadelta()}, LKS_E_MISMATCH,
            "has no 'optimizer.square_avg.fc1.weight', which this run's optimizer keeps");
    refuses(&(tiny_opts){.seed = 9}, LKS_E_MISMATCH,
            "has a tensor 'optimizer.exp_avg.fc1.weight', which the model does not");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bring_all_back), TEST(keep_what_is_not_known), TEST(are_found),
        TEST(older_ones_go),  TEST(leftovers_go),           TEST(of_other_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
