/* What classes were taken for, in a record: counted by the tests of the training itself, with the weights that the run
 * ends with, and by one more pass where there was no such test. */
#include "recipe/recipes.h"

#include <math.h>

#include <lockstep/tools.h>

#include "support/ranks/fake.h"

enum { TESTED = 237, TEST_BATCH = 50, BATCHES = 5, EPOCHS = 4, CLASSES = 10, STEPS = 12 };

static const char network[] =
    "data: {name: digits, samples: 600, test_samples: 237}\n"
    "model: {name: net, layers: [flatten, {dense: 12}, relu, {dense: 10}]}\n"
    "train: {epochs: 4, batch_size: 50, replicas: 4, seed: 3, test_batch_size: 50}\n"
    "optimizer: {name: adam, lr: 0.05}\n";

static int calls; /* of a single process: batches that were tested with their outputs */
lks_status __real_lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                             lks_metrics *sum, float *out);
lks_status __wrap_lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                             lks_metrics *sum, float *out);
lks_status __wrap_lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                             lks_metrics *sum, float *out)
{
    if (lks_comm_size(lks_model_comm(model)) == 1) calls++;
    return __real_lks_model_evaluate_outputs(model, batch, sum, out);
}

static lks_status open_run(lks_recipe **out, const char *const *settings, bool checkpoints)
{
    char key[4200];
    lks_status status = lks_recipe_open_text(out, "net.yaml", network);
    for (; status == LKS_OK && settings != NULL && *settings != NULL; settings++)
        status = lks_recipe_set(*out, *settings);
    snprintf(key, sizeof key, "log.record=%s/r.json", folder);
    if (status == LKS_OK) status = lks_recipe_set(*out, key);
    snprintf(key, sizeof key, "checkpoint.path=%s/run", folder);
    if (status == LKS_OK && checkpoints) status = lks_recipe_set(*out, key);
    return status;
}

static void add(void *user, const lks_prediction *p)
{
    ((int64_t(*)[CLASSES])user)[p->label][p->best]++;
}

/* The matrix of the run against predictions of its model as it is now; how many samples stand beside the diagonal. */
static int64_t assert_is_of_the_model(lks_recipe *recipe, const lks_run *run)
{
    int64_t counts[CLASSES][CLASSES] = {{0}}, sum = 0, wrong = 0;
    LKT_OK(lks_recipe_predict(recipe, NULL, TESTED, add, counts));
    assert_non_null(run->confusion);
    assert_int_equal(run->confusion_classes, CLASSES);
    assert_memory_equal(run->confusion, counts, sizeof counts);
    for (int i = 0; i < CLASSES * CLASSES; i++) {
        sum += run->confusion[i];
        if (i / CLASSES != i % CLASSES) wrong += run->confusion[i];
    }
    assert_int_equal(sum, TESTED);
    return wrong;
}

static void no_pass_is_made_for_it(void **state)
{
    lks_recipe *recipe;
    const lks_run *run;
    (void)state;
    calls = 0;
    LKT_OK(open_run(&recipe, NULL, true));
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    assert_int_equal(calls, EPOCHS * BATCHES);
    const int64_t wrong = assert_is_of_the_model(recipe, run);
    assert_true(wrong > 0);
    assert_int_equal(run->history[EPOCHS - 1].test.correct, TESTED - wrong);
    json_t *record = read_json_file("r.json");
    assert_true(json_array_size(json_object_get(record, "test_confusion")) >= CLASSES);
    lks_recipe_close(recipe);

    /* A run that is complete is resumed: nothing was tested, but the record has the same. */
    calls = 0;
    static const char *const again[] = {"checkpoint.resume=true", NULL};
    LKT_OK(open_run(&recipe, again, true));
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    assert_int_equal(calls, BATCHES);
    json_t *other = read_json_file("r.json");
    assert_true(json_equal(json_object_get(record, "test_confusion"),
                           json_object_get(other, "test_confusion")));
    lks_recipe_close(recipe);
    json_decref(other);
    json_decref(record);
}

/* Its last epoch is not the best: the matrix is that of the weights which the run ends with, by every way to them. */
static void it_is_of_the_best(void **state)
{
    static const char *const best[] = {"validation.patience=2", "train.epochs=20",
                                       "optimizer.lr=0.2", NULL},
                             *const end[] = {"validation.patience=2", "train.epochs=20",
                                             "optimizer.lr=0.2", "validation.restore_best=false",
                                             NULL};
    int64_t wrong[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        lks_recipe *recipe;
        const lks_run *run;
        LKT_OK(open_run(&recipe, i < 2 ? best : end, i == 1));
        if (i == 1) assert_int_equal(shell("rm -r run"), 0); /* of the test before */
        calls = 0;
        LKT_OK(lks_recipe_train(recipe, NULL, &run));
        assert_true(run->epochs < 20); /* it has stopped */
        assert_int_equal(calls, run->epochs * BATCHES);
        assert_true(run->best_step < run->progress.step);
        wrong[i] = assert_is_of_the_model(recipe, run);
        const int64_t at = (i < 2 ? run->best_step : run->progress.step) / STEPS;
        assert_int_equal(run->history[at - 1].test.correct, TESTED - wrong[i]);
        lks_recipe_close(recipe);
    }
    assert_int_equal(wrong[0], wrong[1]);
    assert_true(wrong[0] != wrong[2]);
}

/* A run that ends within an epoch is tested there, once. */
static void a_cut_epoch_is_counted(void **state)
{
    static const char *const steps[] = {"train.epochs=null", "train.steps=17", NULL};
    lks_recipe *recipe;
    const lks_run *run;
    (void)state;
    LKT_OK(open_run(&recipe, steps, false));
    calls = 0;
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    assert_int_equal(calls, 2 * BATCHES);
    (void)assert_is_of_the_model(recipe, run);
    lks_recipe_close(recipe);
}

enum { MOST_RANKS = 3 };

static int rank_body(lks_comm *comm, int rank, void *user)
{
    int64_t(*all)[CLASSES * CLASSES] = user;
    static const char *const best[] = {"validation.patience=2", "optimizer.lr=0.2", NULL};
    const lks_run *run = NULL;
    lks_recipe *recipe;
    if (comm == NULL) return 1;
    lks_status status = open_run(&recipe, best, false);
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, &run);
    if (run != NULL && run->confusion != NULL) memcpy(all[rank], run->confusion, sizeof all[rank]);
    lks_recipe_close(recipe);
    return status != LKS_OK;
}

static void any_ranks_count_the_same(void **state)
{
    static const char *const best[] = {"validation.patience=2", "optimizer.lr=0.2", NULL};
    static int64_t all[MOST_RANKS][CLASSES * CLASSES];
    lks_recipe *recipe;
    const lks_run *run;
    (void)state;
    LKT_OK(open_run(&recipe, best, false));
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        memset(all, 0, sizeof all);
        lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 3, .delay = 2}, NULL, rank_body, all);
        for (int r = 0; r < ranks; r++) assert_memory_equal(all[r], run->confusion, sizeof all[r]);
    }
    lks_recipe_close(recipe);
}

/* A class that no output stands for is passed over, a NaN is never the largest. */
static void counts_alone(void **state)
{
    lks_class_counts c;
    const float outputs[] = {1, NAN, 3, 3}, none[] = {NAN, 1};
    (void)state;
    assert_int_equal(lks_class_given(outputs, 4), 2);
    assert_int_equal(lks_class_given(none, 2), 0);
    LKT_OK(lks_class_counts_make(&c, 3, false));
    lks_class_counts_add(&c, 2, 1);
    lks_class_counts_add(&c, 3, 1);
    lks_class_counts_add(&c, -1, 1);
    assert_int_equal(c.there[2], 1);
    assert_int_equal(c.given[1], 1);
    assert_int_equal(c.right[1] + c.right[2] + c.there[0] + c.there[1], 0);
    LKT_FAILS(LKS_E_INVALID, "no matrix", lks_class_counts_sum_matrix(&c, NULL));
    lks_class_counts_free(&c);
    LKT_FAILS(LKS_E_INVALID, "got -1 classes", lks_class_counts_make(&c, -1, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pass_is_made_for_it), cmocka_unit_test(it_is_of_the_best),
        cmocka_unit_test(a_cut_epoch_is_counted), cmocka_unit_test(any_ranks_count_the_same),
        cmocka_unit_test(counts_alone),
    };
    return cmocka_run_group_tests_name("matrix", tests, set_up, tear_down);
}
