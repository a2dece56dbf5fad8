/* model.whiten: filters whose outputs have mean square 1 and no correlation, by sums of the test's own; their
 * negatives; what is left alone; the same for any number of workers and processes, and when a run goes on. */
#include "recipe/recipes.h"

#include <math.h>
#include <string.h>

#include "support/ranks/fake.h"

static const char net[] =
    "data: {name: digits, samples: 200, test_samples: 50, mean: 0.13, std: 0.31}\n"
    "model:\n"
    "  name: net\n"
    "  layers:\n"
    "    - conv2d: {name: first, filters: 20, kernel: [2, 3]}\n"
    "    - relu\n"
    "    - max_pool: 4\n"
    "    - conv2d: {name: second, filters: 4, kernel: 3}\n"
    "    - flatten\n"
    "    - dense: 10\n"
    "train: {epochs: 2, batch_size: 50, replicas: 4, seed: 3}\n"
    "optimizer: {name: sgd, lr: 0.01}\n"
    "log: {quiet: true}\n";
enum { FILTERS = 20, ROWS = 2, COLUMNS = 3, SIZE = 6, SIDE = 28, IMAGES = 70, RANKS = 3 };

static float weight[FILTERS][SIZE], plain[FILTERS][SIZE];

static void read_first(float out[FILTERS][SIZE], lks_recipe *recipe)
{
    lks_model *model = lks_recipe_get_parts(recipe).model;
    const int at = lks_model_state_find(model, "first.weight");
    LKT_OK(lks_model_state_read(model, at, out, sizeof weight));
}

static void started(float out[FILTERS][SIZE], const char *setting, int workers)
{
    lks_recipe *recipe;
    char text[64];
    snprintf(text, sizeof text, "train.workers=%d", workers);
    LKT_OK(lks_recipe_open_text(&recipe, NULL, net));
    if (setting != NULL) LKT_OK(lks_recipe_set(recipe, setting));
    LKT_OK(lks_recipe_set(recipe, text));
    LKT_OK(lks_recipe_start(recipe));
    read_first(out, recipe);
    lks_recipe_close(recipe);
}

/* The mean of the products of two filters' outputs, over all patches of the first images. */
static double moment(lks_dataset *data, int images, const float *a, const float *b)
{
    static uint8_t x[SIDE * SIDE];
    double sum = 0;
    int64_t count = 0;
    for (int n = 0; n < images; n++) {
        int32_t y;
        LKT_OK(lks_dataset_read(data, n, x, &y));
        for (int i = 0; i + ROWS <= SIDE; i++)
            for (int k = 0; k + COLUMNS <= SIDE; k++, count++) {
                double one = 0, other = 0;
                for (int r = 0; r < ROWS; r++)
                    for (int c = 0; c < COLUMNS; c++) {
                        const double p = (x[(i + r) * SIDE + k + c] / 255.0 - 0.13) / 0.31;
                        one += (double)a[r * COLUMNS + c] * p;
                        other += (double)b[r * COLUMNS + c] * p;
                    }
                sum += one * other;
            }
    }
    return sum / (double)count;
}

static void outputs_are_white(void **state)
{
    (void)state;
    lks_recipe *recipe;
    started(plain, NULL, 1);
    LKT_OK(lks_recipe_open_text(&recipe, NULL, net));
    LKT_OK(lks_recipe_set(recipe, "model.whiten=70"));
    LKT_OK(lks_recipe_start(recipe));
    read_first(weight, recipe);
    lks_dataset *data = lks_recipe_get_parts(recipe).train;
    for (int i = 0; i < SIZE; i++) {
        double length = 0;
        for (int k = 0; k < SIZE; k++) {
            length += (double)weight[i][k] * (double)weight[i][k];
            assert_true(weight[SIZE + i][k] == -weight[i][k]);
        }
        /* 1 / (l + 0.0005), where l is the mean square of the outputs of a filter of length 1. */
        const double square = moment(data, IMAGES, weight[i], weight[i]), l = 1 / length - 5e-4;
        assert_true(fabs(square - l / (l + 5e-4)) < 1e-5);
        if (i > 0) {
            double before = 0;
            for (int k = 0; k < SIZE; k++)
                before += (double)weight[i - 1][k] * (double)weight[i - 1][k];
            assert_true(before < length); /* the largest first */
        }
        for (int k = 0; k < i; k++)
            assert_true(fabs(moment(data, IMAGES, weight[i], weight[k])) < 1e-5);
    }
    assert_memory_equal(weight[2 * SIZE], plain[2 * SIZE], (FILTERS - 2 * SIZE) * sizeof *plain);
    lks_recipe_close(recipe);
    static float again[FILTERS][SIZE];
    for (int workers = 2; workers <= 4; workers++) {
        started(again, "model.whiten=70", workers);
        assert_memory_equal(again, weight, sizeof weight);
    }
    started(again, "model.whiten=71", 1);
    assert_true(memcmp(again, weight, sizeof weight) != 0);
    started(again, "model.whiten=1000000", 1); /* all there are */
    started(plain, "model.whiten=200", 1);
    assert_memory_equal(again, plain, sizeof plain);
}

/* Channels that differ much, and rows that are no columns. */
static void colours_are_channels(void **state)
{
    enum { H = 7, W = 9, C = 3, N = 2 * 3 * C };
    static const double mean[C] = {0.5, 0.1, -0.3}, std[C] = {0.1, 1, 3};
    static float w[2 * N][C][2][3];
    static uint8_t x[H][W][C];
    lks_recipe *recipe;
    (void)state;
    LKT_OK(lks_recipe_open_text(&recipe, NULL,
                                "data: {name: dummy, shape: [7, 9, 3], classes: 4, samples: 12, "
                                "mean: [0.5, 0.1, -0.3], std: [0.1, 1, 3]}\n"
                                "model: {layers: [conv2d: {name: c, filters: 36, kernel: [2, 3]}, "
                                "flatten, dense: 4], whiten: 12}\n"
                                "log: {quiet: true}\n"));
    LKT_OK(lks_recipe_start(recipe));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const int at = lks_model_state_find(parts.model, "c.weight");
    LKT_OK(lks_model_state_read(parts.model, at, w, sizeof w));
    assert_int_equal(parts.data.dtype, LKS_U8);
    static double sum[N][N];
    for (int n = 0; n < 12; n++) {
        int32_t y;
        LKT_OK(lks_dataset_read(parts.train, n, x, &y));
        for (int i = 0; i + 2 <= H; i++)
            for (int k = 0; k + 3 <= W; k++) {
                double out[N] = {0};
                for (int f = 0; f < N; f++)
                    for (int c = 0; c < C; c++)
                        for (int e = 0; e < 6; e++)
                            out[f] += (double)w[f][c][e / 3][e % 3] *
                                      (x[i + e / 3][k + e % 3][c] / 255.0 - mean[c]) / std[c];
                for (int f = 0; f < N; f++)
                    for (int g = 0; g < N; g++) sum[f][g] += out[f] * out[g] / (12.0 * 6 * 7);
            }
    }
    /* The least eigenvalue is 3e-3 or so of the third channel's, beside 5e-4. */
    for (int f = 0; f < N; f++)
        for (int g = 0; g < N; g++)
            assert_true(f == g ? sum[f][f] > 0.7 && sum[f][f] < 1 : fabs(sum[f][g]) < 1e-5);
    lks_recipe_close(recipe);
}

static lks_status train(uint64_t *hash, lks_comm *comm, const char *setting, float *after)
{
    lks_recipe *recipe;
    const lks_run *run = NULL;
    lks_status status = lks_recipe_open_text(&recipe, NULL, net);
    if (status == LKS_OK) status = lks_recipe_set(recipe, "model.whiten=70");
    if (status == LKS_OK) status = lks_recipe_set(recipe, "model.freeze=[first.weight]");
    if (status == LKS_OK && setting != NULL) status = lks_recipe_set(recipe, setting);
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, &run);
    if (status == LKS_OK) *hash = run->hash;
    if (status == LKS_OK && after != NULL) {
        lks_model *model = lks_recipe_get_parts(recipe).model;
        const int at = lks_model_state_find(model, "first.weight");
        status = lks_model_state_read(model, at, after, sizeof weight);
    }
    lks_recipe_close(recipe);
    return status;
}

static int of_rank(lks_comm *comm, int rank, void *user)
{
    const uint64_t wanted = *(const uint64_t *)user;
    uint64_t hash = 0;
    (void)rank;
    LKT_CHECK(comm != NULL && train(&hash, comm, "train.workers=1", NULL) == LKS_OK);
    LKT_CHECK(hash == wanted);
    return 0;
}

static void runs_have_one_hash(void **state)
{
    (void)state;
    uint64_t hash = 0, other = 0;
    static float after[FILTERS][SIZE];
    LKT_OK(train(&hash, NULL, NULL, after[0]));
    started(weight, "model.whiten=70", 1);
    assert_memory_equal(after, weight, sizeof weight); /* frozen */
    LKT_OK(train(&other, NULL, "train.workers=3", NULL));
    assert_true(other == hash);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 3, .delay = 2}, NULL, of_rank, &hash);
    write_text("c.yaml", net);
    run("train c.yaml --set model.whiten=70 --set 'model.freeze=[first.weight]' --steps 3 --out a");
    expect_ok();
    run("train c.yaml --set model.whiten=70 --set 'model.freeze=[first.weight]' --out a --resume");
    expect_ok();
    char line[64];
    snprintf(line, sizeof line, "hash %016llx step 8", (unsigned long long)hash);
    expect_out(line);
    run("train c.yaml --set model.whiten=71 --set 'model.freeze=[first.weight]' --out a --resume");
    expect(5, "model.whiten");
}

static void few_filters_have_the_largest(void **state)
{
    (void)state;
    lks_recipe *recipe;
    static float few[5][SIZE];
    started(weight, "model.whiten=70", 1);
    char text[sizeof net];
    snprintf(text, sizeof text, "%s", net);
    char *at = strstr(text, "filters: 20");
    memcpy(at, "filters: 5 ", 11);
    LKT_OK(lks_recipe_open_text(&recipe, NULL, text));
    LKT_OK(lks_recipe_set(recipe, "model.whiten=70"));
    LKT_OK(lks_recipe_start(recipe));
    lks_model *model = lks_recipe_get_parts(recipe).model;
    LKT_OK(
        lks_model_state_read(model, lks_model_state_find(model, "first.weight"), few, sizeof few));
    assert_memory_equal(few, weight, 2 * sizeof *few);
    assert_memory_equal(few[2], weight[SIZE], 2 * sizeof *few);
    lks_recipe_close(recipe);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    write_text("c.yaml", net);
    write_text("mlp.yaml", "model: {name: mlp, whiten: 10}\n");
    run("train mlp.yaml --steps 1");
    expect(2, "mlp.yaml:1: model.whiten is set, but the network has no convolution; leave it out");
    run("train c.yaml --set 'model.layers=[conv2d: {filters: 4, kernel: 30, padding: 5}, flatten, "
        "dense: 10]' --set model.whiten=10 --steps 1");
    expect(2, "is none of patches of these images, of at most 512 values and with 2 filters or "
              "more; leave it out");
    run("train c.yaml --set 'model.layers=[conv2d: {filters: 1, kernel: 3}, flatten, dense: 10]' "
        "--set model.whiten=10 --steps 1");
    expect(2, "is none of patches of these images, of at most 512 values and with 2 filters or "
              "more; leave it out");
    run("train c.yaml --set model.whiten=0");
    expect(2, "model.whiten is '0', expected an integer of at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(outputs_are_white),         TEST(colours_are_channels),
        TEST(runs_have_one_hash),        TEST(few_filters_have_the_largest),
        TEST(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
