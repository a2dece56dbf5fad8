/*
 * A dense layer of positions has the bits of a convolution whose kernel sees one pixel of an image of one row: sums of
 * more terms than a block has, of a few, and narrow ones; forward, gradients of inputs and of weights.
 */
#include <lockstep/lockstep.h>

#include "base/check.h"
#include "support/backends.h"
#include "support/ranks/small.h"
#include "support/test.h"

enum { SAMPLES = 5, POSITIONS = 43, INPUTS = 24, CLASSES = 20, WEIGHTS = 2600 * 40 };

static float x[SAMPLES][POSITIONS][INPUTS];
static int32_t y[SAMPLES];

static int fill(void **state)
{
    lkt_random random = lkt_random_make("dense_of_positions", 5);
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        for (int t = 0; t < POSITIONS; t++)
            for (int c = 0; c < INPUTS; c++) x[i][t][c] = (float)lkt_random_real(&random, -1, 1);
        y[i] = (int32_t)lkt_random_below(&random, CLASSES);
    }
    return 0;
}

static lks_tensor *layer(lks_graph *g, lks_tensor *in, bool dense, const char *name, int64_t units)
{
    const lks_init init = {.kind = LKS_INIT_UNIFORM, .scale = 0.1f};
    if (dense)
        return lks_dense(g, in,
                         &(lks_dense_opts){.name = name, .units = units, .weight_init = init});
    return lks_conv2d(
        g, in,
        &(lks_conv2d_opts){.name = name, .filters = units, .kernel = {1, 1}, .weight_init = init});
}

/* Three layers, of which the second has this many units. */
static lkt_small open_layers(const char *device, bool dense, int64_t first, int64_t second)
{
    lkt_small n = {.model = NULL};
    LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.device = device, .seed = 3}));
    LKT_OK(lks_graph_create(&n.graph, n.context));
    lks_graph *g = n.graph;
    lks_tensor *at = lks_input(g,
                               &(lks_input_opts){.shape = dense ? LKS_SHAPE(POSITIONS, INPUTS)
                                                                : LKS_SHAPE(1, POSITIONS, INPUTS)});
    at = layer(g, at, dense, "a", first);
    at = layer(g, at, dense, "b", second);
    at = lks_global_avg_pool(g, layer(g, at, dense, "c", CLASSES));
    lks_tensor *target = lks_target(g, &(lks_target_opts){.classes = CLASSES});
    LKT_OK(lks_model_compile(&n.model, g,
                             &(lks_model_opts){.loss = lks_cross_entropy(g, at, target, NULL),
                                               .global_batch = SAMPLES,
                                               .replicas = 2,
                                               .optim = lks_sgd(0.5)}));
    return n;
}

static void copy_weights(lkt_small *from, lkt_small *to)
{
    static float values[WEIGHTS];
    static const char *const names[] = {"a.weight", "b.weight", "c.weight"};
    for (int i = 0; i < 3; i++) {
        const int source = lks_model_state_find(from->model, names[i]);
        const int target = lks_model_state_find(to->model, names[i]);
        const size_t bytes = lks_model_state_info(from->model, source).bytes;
        assert_true(bytes <= sizeof values);
        LKT_OK(lks_model_state_read(from->model, source, values, bytes));
        LKT_OK(lks_model_state_write(to->model, target, values, bytes));
    }
}

/* Of three steps, each with the loss of the one before in it. */
static void same_steps(const char *device, int64_t first, int64_t second)
{
    static float found[2][WEIGHTS];
    static const char *const names[] = {"a.weight", "a.bias",   "b.weight",
                                        "b.bias",   "c.weight", "c.bias"};
    lkt_small n[2] = {open_layers(device, true, first, second),
                      open_layers(device, false, first, second)};
    const lks_batch batch = {.x = x, .y = y, .count = SAMPLES};
    copy_weights(&n[0], &n[1]);
    for (int step = 0; step < 3; step++) {
        lks_metrics sum[2];
        for (int i = 0; i < 2; i++) LKT_OK(lks_model_step(n[i].model, &batch, .3, &sum[i]));
        assert_true(lks_metrics_loss(&sum[0]) == lks_metrics_loss(&sum[1]));
    }
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t bytes = 0;
        for (int i = 0; i < 2; i++) {
            const int at = lks_model_state_find(n[i].model, names[k]);
            bytes = lks_model_state_info(n[i].model, at).bytes;
            LKT_OK(lks_model_state_read(n[i].model, at, found[i], bytes));
        }
        assert_memory_equal(found[0], found[1], bytes);
    }
    for (int i = 0; i < 2; i++) lkt_small_end(&n[i]);
}

static void they_are_convolutions_that_see_one_pixel(void **state)
{
    static const int64_t sizes[][2] = {{16, 2600}, {2561, 17}, {40, 2560}, {15, 33}, {64, 15},
                                       {3, 70},    {130, 64},  {1100, 18}, {12, 12}, {12, 2600}};
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            same_steps(lkt_backends()[d]->name, sizes[i][0], sizes[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_convolutions_that_see_one_pixel)};
    return cmocka_run_group_tests(tests, fill, NULL);
}
