/*
 * Parameters that only the output needs: no step touches them, whatever the optimizer, and they
 * touch nothing else, as in PyTorch, where their gradient is None.
 *
 *   x -> fc1 -> relu -> fc2 -> cross entropy
 *                  \--> side (the output)
 */
#include <stdlib.h>
#include <string.h>

#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { WIDTH = 7, HIDDEN = 11, CLASSES = 3, BATCH = 10, STEPS = 4, IMAGES = 96 };

typedef struct training {
    const char *what;
    lks_model_opts opts;
} training;

typedef struct result {
    float fc1[HIDDEN * WIDTH], fc2[CLASSES * HIDDEN], side[CLASSES * HIDDEN], output[CLASSES];
    double norm;
} result;

static float x[BATCH * WIDTH];
static int32_t y[BATCH];

static void read(lks_model *model, const char *name, float *out, size_t bytes)
{
    LKT_OK(lks_model_state_read(model, lks_model_state_find(model, name), out, bytes));
}

static void train(const char *device, const training *how, int steps, bool beside, result *out)
{
    const lks_batch batch = {.x = x, .y = y, .count = BATCH};
    lks_context *context;
    lks_graph *graph;
    lks_model *model;

    memset(out, 0, sizeof *out);
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = device, .seed = 3}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *in = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    lks_tensor *target = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    lks_tensor *h = lks_dense(graph, in, &(lks_dense_opts){.name = "fc1", .units = HIDDEN});
    h = lks_relu(graph, h);
    lks_tensor *logits = lks_dense(graph, h, &(lks_dense_opts){.name = "fc2", .units = CLASSES});
    lks_model_opts opts = how->opts;
    opts.loss = lks_cross_entropy(graph, logits, target, NULL);
    if (beside)
        opts.output = lks_dense(graph, h, &(lks_dense_opts){.name = "side", .units = CLASSES});
    opts.global_batch = BATCH;
    opts.replicas = 3;
    opts.workers = 2;
    LKT_OK(lks_model_compile(&model, graph, &opts));
    for (int s = 0; s < steps; s++) LKT_OK(lks_model_step(model, &batch, 0.05, NULL));
    out->norm = lks_model_last_step(model).gradient_norm;
    read(model, "fc1.weight", out->fc1, sizeof out->fc1);
    read(model, "fc2.weight", out->fc2, sizeof out->fc2);
    if (beside) {
        read(model, "side.weight", out->side, sizeof out->side);
        assert_int_equal(lks_model_state_find(model, "ema.side.weight"), -1);
    }
    if (opts.ema_decay > 0) {
        assert_true(lks_model_state_find(model, "ema.fc1.weight") >= 0);
        LKT_OK(lks_model_use_averages(model, true));
    }
    LKT_OK(lks_model_predict(model, x, 1, out->output));
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

static lks_optim decaying(lks_optim optim)
{
    optim.weight_decay = 0.1f;
    return optim;
}

static void no_step_touches_them(void **unused)
{
    const training ways[] = {
        {"sgd", {.optim = decaying(lks_sgd(0.9f))}},
        {"sgd by replica", {.optim = decaying(lks_sgd(0.9f)), .by_replica = true}},
        {"sgd, clip_norm", {.optim = decaying(lks_sgd(0.9f)), .clip_norm = 0.5f}},
        {"sgd, clip_value", {.optim = decaying(lks_sgd(0)), .clip_value = 0.01f}},
        {"adam, skip", {.optim = decaying(lks_adam()), .skip_not_finite = true}},
        {"adamw, average", {.optim = decaying(lks_adamw()), .ema_decay = 0.9f}},
        {"rmsprop, clip_norm", {.optim = decaying(lks_rmsprop()), .clip_norm = 1e9f}},
        {"adadelta", {.optim = decaying(lks_adadelta())}},
        {"adamp, average", {.optim = decaying(lks_adamp()), .ema_decay = 0.9f}},
        {"adamp, clip_norm, by replica",
         {.optim = decaying(lks_adamp()), .clip_norm = 0.5f, .by_replica = true}},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((i * 37) % 17) / 8 - 1;
    for (int i = 0; i < BATCH; i++) y[i] = i % CLASSES;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *device = lkt_backends()[b]->name;
            result begin, end, alone;
            train(device, &ways[i], 0, true, &begin);
            train(device, &ways[i], STEPS, true, &end);
            train(device, &ways[i], STEPS, false, &alone);
            if (memcmp(begin.side, end.side, sizeof end.side) != 0)
                fail_msg("%s, %s: steps changed 'side.weight'", device, ways[i].what);
            if (memcmp(begin.fc1, end.fc1, sizeof end.fc1) == 0)
                fail_msg("%s, %s: steps did not change 'fc1.weight'", device, ways[i].what);
            if (memcmp(alone.fc1, end.fc1, sizeof end.fc1) != 0 ||
                memcmp(alone.fc2, end.fc2, sizeof end.fc2) != 0 ||
                memcmp(&alone.norm, &end.norm, sizeof end.norm) != 0)
                fail_msg("%s, %s: 'side' changed what the others learn", device, ways[i].what);
        }
}

/* The output of the averaged network is that of its own last layer, not of zeros. */
static void their_average_is_the_parameter(void **unused)
{
    const training plain = {"sgd", {.optim = lks_sgd(0)}};
    const training averaged = {"average", {.optim = lks_sgd(0), .ema_decay = 0.5f}};
    result now, mean;
    (void)unused;
    train(NULL, &plain, 1, true, &now);
    train(NULL, &averaged, 1, true, &mean);
    /* After one update every average is its parameter. */
    assert_memory_equal(now.output, mean.output, sizeof now.output);
    assert_memory_not_equal(now.output, (float[CLASSES]){0}, sizeof now.output);
}

/* A network whose batch norms stand between segments that are taken in pieces. */
static lks_model *compile_images(lks_context *context, lks_graph **graph, bool with_loss)
{
    lks_model *model;
    LKT_OK(lks_graph_create(graph, context));
    lks_tensor *in = lks_input(*graph, &(lks_input_opts){.shape = LKS_SHAPE(9, 9, 3)});
    for (int i = 0; i < 2; i++) {
        in = lks_conv2d(*graph, in, &(lks_conv2d_opts){.filters = 5 + i, .kernel = {3, 3}});
        in = lks_gelu(*graph, lks_batch_norm(*graph, in, NULL), NULL);
    }
    lks_tensor *output = lks_dense(*graph, lks_flatten(*graph, in),
                                   &(lks_dense_opts){.units = CLASSES});
    lks_model_opts opts = {.output = output, .global_batch = IMAGES, .replicas = 1};
    if (with_loss)
        opts.loss = lks_cross_entropy(
            *graph, output, lks_target(*graph, &(lks_target_opts){.classes = CLASSES}), NULL);
    LKT_OK(lks_model_compile(&model, *graph, &opts));
    return model;
}

/* Without a loss less is kept, but what a prediction needs is. */
static void predictions_need_no_loss(void **state)
{
    static float images[IMAGES * 9 * 9 * 3], output[2][IMAGES * CLASSES];
    lkt_random random = lkt_random_make("predictions_need_no_loss", 7);
    (void)state;
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        images[i] = (float)lkt_random_real(&random, -1, 1);
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        lks_context *context;
        const lks_context_opts opts = {.device = lkt_backends()[d]->name, .seed = 4};
        LKT_OK(lks_context_create(&context, &opts));
        for (int loss = 0; loss < 2; loss++) {
            lks_graph *graph;
            lks_model *model = compile_images(context, &graph, loss == 1);
            LKT_OK(lks_model_predict(model, images, IMAGES, output[loss]));
            lks_model_destroy(model);
            lks_graph_destroy(graph);
        }
        assert_memory_equal(output[0], output[1], sizeof output[0]);
        lks_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_touches_them),
        cmocka_unit_test(their_average_is_the_parameter),
        cmocka_unit_test(predictions_need_no_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
