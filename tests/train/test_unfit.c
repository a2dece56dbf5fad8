/* Data that does not fit the network, and parameters that nobody can use. */
#include "train/folder.h"
#include "train/job.h"

static const tiny_opts NET = {.seed = 4, .optim = {.momentum = 0.9f}};

/* Nobody saves: the end of the run looks at them. relu hides the NaN of half of the samples from the
 * loss, and so does the last step its own update. */
static void bad_parameters_end_in_no_hash(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        job *j = job_make();
        lks_run run;
        for (int64_t i = 0; k == 0 && i < TINY_SAMPLES; i += 2) j->x[i][1] = NAN;
        job_load(j, &NET, 1);
        lks_train_opts opts = job_opts(j, NULL);
        opts.valid = NULL;
        opts.steps = 1;
        if (k > 0) opts.schedule.lr = 1e300;
        if (k == 2) j->stop_step = 1, opts.steps = 2;
        LKT_FAILS(LKS_E_NUMERIC, "is not finite after step 1: element ",
                  lks_train(j->net.context, &opts, &run));
        assert_int_equal(run.hash, 0);
        lks_run_clear(&run);
        job_close(j);
    }
}

static lks_status read_nothing(void *user, int64_t index, void *x, void *y)
{
    (void)user, (void)index, (void)x, (void)y;
    fail_msg("a sample was read");
    return LKS_OK;
}

/* Data of another type or shape than the network's is not read at all. */
static void other_data_is_refused(void **state)
{
    static const struct {
        lks_dataset_info info;
        const char *part;
    } list[] = {
        {{.dtype = LKS_U8, .shape = {1, {TINY_FEATURES}}, .classes = 3},
         "data 'odd' has samples of 6 U8, but 'input_1' of the network is 6 F32"},
        {{.shape = {1, {5}}, .classes = 3}, "samples of 5 F32, but 'input_1' of the network is 6"},
        {{.shape = {2, {2, 3}}, .classes = 3}, "samples of 2x3 F32"},
        {{.shape = {1, {TINY_FEATURES}}, .target_shape = {1, {1}}},
         "targets of 1 F32, but 'target_1' of the network is one number I32"},
    };
    (void)state;
    job *j = job_open(&NET, 1);
    for (size_t i = 0; i < 3 * sizeof list / sizeof *list; i++) {
        lks_dataset_ops ops = {.info = list[i / 3].info, .read = read_nothing};
        lks_dataset *data;
        lks_loader *loader;
        lks_train_opts opts = job_opts(j, folder);
        ops.info.samples = 20;
        LKT_OK(lks_dataset_create(&data, j->net.context, "odd", &ops, NULL));
        LKT_OK(lks_loader_create(&loader, j->net.context, data,
                                 &(lks_loader_opts){.global_batch = 8, .threads = -1}));
        *(i % 3 == 0 ? &opts.train : i % 3 == 1 ? &opts.valid : &opts.test) = loader;
        LKT_FAILS(LKS_E_SHAPE, list[i / 3].part, lks_train(j->net.context, &opts, NULL));
        assert_int_equal(j->steps, 0);
        lks_loader_destroy(loader);
        lks_dataset_destroy(data);
    }
    job_close(j);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_parameters_end_in_no_hash),
        TEST(other_data_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
