/* How well numbers fit, in a record: summed by the training's own test behind its last step, with the bits of a pass by
 * itself, which is made where those weights have not been tested. */
#include "recipe/recipes.h"

#include <math.h>

#include <lockstep/tools.h>

#include "support/ranks/fake.h"

/* 300 rows: 60 are tested, by batches of 25, and 24 validated where that is asked for. */
enum { ROWS = 300, BATCHES = 3, VALID_BATCHES = 1, EPOCHS = 4, TARGETS = 2, MOST_RANKS = 3 };

static const char network[] =
    "data: {table: t.csv, targets: [y, z], test_fraction: 0.2}\n"
    "model: {name: net, layers: [{dense: 8}, relu, {dense: 2}]}\n"
    "train: {epochs: 4, batch_size: 50, replicas: 4, seed: 3, test_batch_size: 25}\n"
    "optimizer: {name: adam, lr: 0.05}\n";

static int outputs,
    others; /* of a single process: batches that were tested, with their outputs and without */
lks_status __real_lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                             lks_metrics *sum, float *out);
lks_status __wrap_lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                             lks_metrics *sum, float *out);
lks_status __wrap_lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                             lks_metrics *sum, float *out)
{
    if (lks_comm_size(lks_model_comm(model)) == 1) outputs++;
    return __real_lks_model_evaluate_outputs(model, batch, sum, out);
}
lks_status __real_lks_model_evaluate(lks_model *model, const lks_batch *batch, lks_metrics *sum);
lks_status __wrap_lks_model_evaluate(lks_model *model, const lks_batch *batch, lks_metrics *sum);
lks_status __wrap_lks_model_evaluate(lks_model *model, const lks_batch *batch, lks_metrics *sum)
{
    if (lks_comm_size(lks_model_comm(model)) == 1) others++;
    return __real_lks_model_evaluate(model, batch, sum);
}

static void write_table(void)
{
    char csv[16384] = "a,b,y,z\n";
    for (int i = 0; i < ROWS; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d,%d,%d\n", i, i * i % 17,
                 3 * i + i * i % 17, i % 5);
    write_text("t.csv", csv);
}

static lks_status open_run(lks_recipe **out, const char *const *settings, const char *checkpoints)
{
    char key[4200];
    lks_status status = lks_recipe_open_text(out, "net.yaml", network);
    for (; status == LKS_OK && settings != NULL && *settings != NULL; settings++)
        status = lks_recipe_set(*out, *settings);
    snprintf(key, sizeof key, "data.table=%s/t.csv", folder);
    if (status == LKS_OK) status = lks_recipe_set(*out, key);
    snprintf(key, sizeof key, "log.record=%s/r.json", folder);
    if (status == LKS_OK) status = lks_recipe_set(*out, key);
    snprintf(key, sizeof key, "checkpoint.path=%s/%s", folder, checkpoints);
    if (status == LKS_OK && checkpoints != NULL) status = lks_recipe_set(*out, key);
    outputs = others = 0;
    return status;
}

/* What the record says is, to the bit, that of a pass with the model as it is now. */
static json_t *expect_of_the_model(lks_recipe *recipe)
{
    lks_metrics sum;
    lks_fit fit[TARGETS];
    json_t *record = read_json_file("r.json"), *found = json_object_get(record, "test_targets");
    LKT_OK(lks_recipe_fits(recipe, NULL, &sum, fit));
    assert_int_equal(json_object_size(found), TARGETS);
    for (int t = 0; t < TARGETS; t++) {
        const json_t *one = json_object_get(found, fit[t].name);
        assert_true(json_number_of(one, "r2") == fit[t].r2);
        assert_true(json_number_of(one, "mae") == fit[t].mae);
        assert_true(json_number_of(one, "rmse") == fit[t].rmse);
        assert_true(fit[t].rmse > fit[t].mae && fit[t].mae > 0);
    }
    json_incref(found);
    json_decref(record);
    return found;
}

/* Trains with these settings; so many batches are tested in each way. */
static json_t *train(const char *const *settings, const char *checkpoints, int with, int without)
{
    lks_recipe *recipe;
    LKT_OK(open_run(&recipe, settings, checkpoints));
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    assert_int_equal(outputs, with);
    assert_int_equal(others, without);
    json_t *found = expect_of_the_model(recipe);
    lks_recipe_close(recipe);
    return found;
}

static void expect_same(json_t *a, json_t *b)
{
    assert_true(json_equal(a, b));
    json_decref(b);
}

static void the_last_test_is_enough(void **state)
{
    (void)state;
    static const char *const valid[] = {"validation.fraction=0.1", NULL},
                             *const steps[] = {"train.epochs=null", "train.steps=12", NULL},
                             *const patient[] = {"validation.patience=3", NULL},
                             *const again[] = {"checkpoint.resume=true", NULL};
    write_table();
    json_t *first = train(NULL, "run", BATCHES, (EPOCHS - 1) * BATCHES);
    /* A run that is complete is resumed: nothing was tested, but the record has the same. */
    expect_same(first, train(again, "run", BATCHES, 0));
    json_decref(first);
    json_decref(train(valid, NULL, BATCHES, (EPOCHS - 1) * BATCHES + EPOCHS * VALID_BATCHES));
    json_decref(train(steps, NULL, BATCHES, 2 * BATCHES));              /* within an epoch */
    json_decref(train(patient, NULL, BATCHES, (EPOCHS - 1) * BATCHES)); /* the last is the best */
}

/* A run that ends with earlier weights tested them when nobody knew that. */
static void where_there_was_no_such_test_a_pass_is_made(void **state)
{
    (void)state;
    write_table();
    for (int i = 0; i < 2; i++) { /* of a rate by which the last is not the best */
        static const char *const best[] = {"validation.patience=9", "optimizer.lr=1", NULL},
                                 *const stop[] = {"validation.patience=1", "optimizer.lr=1",
                                                  "train.epochs=60", NULL};
        lks_recipe *recipe;
        const lks_run *run;
        LKT_OK(open_run(&recipe, i == 0 ? best : stop, NULL));
        LKT_OK(lks_recipe_train(recipe, NULL, &run));
        assert_true(run->best_step < run->progress.step);
        assert_true((run->epochs == EPOCHS) == (i == 0));
        assert_int_equal(outputs, i == 0 ? 2 * BATCHES : BATCHES);
        assert_int_equal(outputs + others, ((int)run->epochs + 1) * BATCHES);
        json_decref(expect_of_the_model(recipe));
        lks_recipe_close(recipe);
    }
}

/* What the loop tells of the test behind the last step. */
typedef struct told {
    int batches;
    int64_t samples;
    double sum; /* of the outputs' squared errors */
} told;

static void see_test(void *user, const lks_batch *batch, const float *output)
{
    told *t = user;
    t->batches++;
    t->samples += batch->count;
    for (int64_t i = 0; i < batch->count * TARGETS; i++) {
        const double error = (double)output[i] - (double)((const float *)batch->y)[i];
        t->sum += error * error;
    }
}

static void whoever_asks_is_told(void **state)
{
    (void)state;
    static const char *const no_record[] = {"log.record=null", NULL};
    write_table();
    for (int i = 0; i < 2; i++) {
        lks_recipe *recipe;
        const lks_run *run;
        told t = {0};
        const lks_train_events events = {.on_test = see_test, .user = &t};
        LKT_OK(open_run(&recipe, NULL, NULL));
        if (i == 1) LKT_OK(lks_recipe_set(recipe, no_record[0]));
        LKT_OK(lks_recipe_train(recipe, &events, &run));
        assert_int_equal(t.batches, BATCHES);
        assert_int_equal(t.samples, ROWS / 5);
        /* The loss is their mean, of terms that were rounded to float. */
        const double loss = lks_metrics_loss(&run->history[EPOCHS - 1].test);
        assert_true(fabs(t.sum / (TARGETS * ROWS / 5.0) - loss) < 1e-5 * loss);
        lks_recipe_close(recipe);
    }
    lks_recipe *recipe;
    LKT_OK(open_run(&recipe, NULL, NULL));
    LKT_OK(lks_recipe_set(recipe, no_record[0]));
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    assert_int_equal(outputs, 0); /* nobody asks */
    lks_recipe_close(recipe);
}

static int rank_body(lks_comm *comm, int rank, void *user)
{
    lks_recipe *recipe;
    (void)user;
    if (comm == NULL) return 1;
    lks_status status = open_run(&recipe, NULL, NULL);
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, NULL);
    (void)rank;
    lks_recipe_close(recipe);
    return status != LKS_OK;
}

static json_t *recorded(void)
{
    json_t *record = read_json_file("r.json"), *found = json_object_get(record, "test_targets");
    json_incref(found);
    json_decref(record);
    return found;
}

static void any_workers_and_ranks_sum_the_same(void **state)
{
    (void)state;
    static const char *const workers[] = {"train.workers=3", NULL};
    write_table();
    json_t *first = train(NULL, NULL, BATCHES, (EPOCHS - 1) * BATCHES);
    expect_same(first, train(workers, NULL, BATCHES, (EPOCHS - 1) * BATCHES));
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        assert_int_equal(unlink(in_folder("r.json")), 0);
        lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 3, .delay = 2}, NULL, rank_body, NULL);
        expect_same(first, recorded());
    }
    json_decref(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_test_is_enough),
        TEST(where_there_was_no_such_test_a_pass_is_made),
        TEST(whoever_asks_is_told),
        TEST(any_workers_and_ranks_sum_the_same),
    };
    return cmocka_run_group_tests_name("fitting", tests, NULL, NULL);
}
