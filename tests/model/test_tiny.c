/*
 * Thousands of steps without a denormal number: weights that get no gradient any more, whose optimizer
 * state decays; saturated losses and activations; weights that weight decay takes to zero. Workers
 * compute with gradual underflow, and what they store is flushed far above it (core/backend.h), so that
 * no processor meets what it is slow with. They keep flags for it.
 *
 * Products of what is stored are 2^-126 at least, but the sum of two such may be smaller. That takes
 * weights and activations that are both below 2^-60 or so: a network that weight decay takes to zero as
 * a whole passes there, in a few steps of thousands; a deep one, whose activations are products of its weights, in
 * hundreds, which is why that of images has other optimizers; and what Winograd's algorithm forms of such products
 * may be smaller, too (docs/numerics.md 3).
 *
 * LKT_STEPS in the environment is the number of steps.
 */
#include <stdlib.h>
#include <string.h>

#include "base/float.h"
#include "model/model.h"
#include "support/backends.h"
#include "support/test.h"

enum {
    FEATURES = 12,
    PLANES = 2,
    MOST_FEATURES = 8 * 8 * PLANES,
    CLASSES = 3,
    SAMPLES = 8,
    STEPS = 2000,
    ALLOWED = 200 /* one step of so many */
};

/* The second half of the features is dead after a while. */
static lks_tensor *dense_net(lks_graph *graph)
{
    const lks_dense_opts wide = {.units = 8};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(FEATURES)});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    lks_tensor *a = lks_gelu(graph, lks_dense(graph, x, &wide), NULL);
    lks_tensor *b = lks_tanh(graph, lks_dense(graph, x, &wide));
    lks_tensor *c = lks_sigmoid(
        graph, lks_scale(graph, lks_dense(graph, x, &wide), &(lks_scale_opts){.factor = 3}));
    lks_tensor *d = lks_relu(graph, lks_dense(graph, x, &wide));
    lks_tensor *e = lks_silu(
        graph, lks_scale(graph, lks_dense(graph, x, &wide), &(lks_scale_opts){.factor = 3}));
    lks_tensor *f = lks_softplus(graph, lks_dense(graph, x, &wide));
    lks_tensor *g = lks_gelu(
        graph, lks_scale(graph, lks_dense(graph, x, &wide), &(lks_scale_opts){.factor = 2}),
        &(lks_gelu_opts){.form = LKS_GELU_TANH});
    x = lks_add(graph, lks_mul(graph, a, b), lks_mul(graph, c, d));
    x = lks_add(graph, x, lks_mul(graph, lks_add(graph, e, f), g));
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .25f});
    x = lks_scale(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}),
                  &(lks_scale_opts){.factor = 20});
    return lks_cross_entropy(graph, x, y, NULL);
}

/* What convolutions, norms and pools are computed by, Winograd's algorithm and what leaves zeros out included. Half of
 * the filters of `second` are dead (kill()). */
static lks_tensor *image_net(lks_graph *graph)
{
    const lks_conv2d_opts first = {.filters = 16, .kernel = {3, 3}, .padding = {1, 1}};
    const lks_conv2d_opts second = {
        .name = "second", .filters = 32, .kernel = {3, 3}, .padding = {1, 1}};
    const lks_conv2d_opts alone = {
        .filters = 16, .kernel = {3, 3}, .padding = {1, 1}, .groups = 16};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(8, 8, PLANES)});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    x = lks_relu(graph, lks_conv2d(graph, x, &first));
    x = lks_max_pool(graph, lks_relu(graph, lks_conv2d(graph, x, &second)),
                     &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_relu(graph, lks_batch_norm(graph, lks_conv2d(graph, x, &first), NULL));
    x = lks_gelu(graph, lks_conv2d(graph, x, &alone), NULL);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 64, .kernel = {1, 1}});
    x = lks_flatten(graph, lks_relu(graph, lks_batch_norm(graph, x, NULL)));
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .25f});
    x = lks_relu(graph, lks_dense(graph, x, &(lks_dense_opts){.units = 64}));
    x = lks_scale(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}),
                  &(lks_scale_opts){.factor = 20});
    return lks_cross_entropy(graph, x, y, NULL);
}

static void kill(lks_model *model)
{
    float bias[32] = {0};
    for (int i = 0; i < 32; i += 2) bias[i] = -1000;
    const int at = lks_model_state_find(model, "second.bias");
    if (at >= 0) LKT_OK(lks_model_state_write(model, at, bias, sizeof bias));
}

static void fill(float *x, int features, int32_t *y, int64_t step, lkt_random *random)
{
    for (int s = 0; s < SAMPLES; s++) {
        y[s] = (int32_t)lkt_random_below(random, CLASSES);
        for (int i = 0; i < features; i++)
            x[s * features + i] = i < features / 2 ? (i % CLASSES == y[s] ? 2.0f : -1.0f)
                                  : step < 100     ? (float)lkt_random_real(random, -1, 1)
                                                   : 0.0f;
    }
}

static const struct {
    const char *name;
    lks_tensor *(*make)(lks_graph *graph);
    int features;
} NETS[] = {{"dense", dense_net, FEATURES}, {"images", image_net, 8 * 8 * PLANES}};

static void train(int net, const char *device, const char *name, const lks_model_opts *opts,
                  double lr)
{
    const char *given = getenv("LKT_STEPS");
    const int steps = given != NULL ? atoi(given) : STEPS;
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lkt_random random = {.state = 7};
    int meetings = 0;
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = device}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_model_opts own = *opts;
    own.loss = NETS[net].make(graph), own.global_batch = SAMPLES, own.replicas = 2, own.workers = 2;
    LKT_OK(lks_model_compile(&model, graph, &own));
    kill(model);
    lki_workers_watch(model->threads, true);
    for (int step = 0; step < steps; step++) {
        float x[SAMPLES * MOST_FEATURES];
        int32_t y[SAMPLES];
        fill(x, NETS[net].features, y, step, &random);
        const lks_batch batch = {.x = x, .y = y, .count = SAMPLES};
        LKT_OK(lks_model_step(model, &batch, lr, NULL));
        const unsigned met = lki_workers_met(model->threads);
        if (met == 0) continue;
        lki_workers_watch(model->threads, true);
        if (++meetings > steps / ALLOWED)
            fail_msg("%s, %s, %s: step %d met%s%s", NETS[net].name, device, name, step + 1,
                     met & LKI_FLOAT_OPERAND ? " a denormal operand" : "",
                     met & LKI_FLOAT_UNDERFLOW ? " an underflow" : "");
    }
    if (meetings > 0)
        print_message("%s, %s, %s: %d of %d steps\n", NETS[net].name, device, name, meetings,
                      steps);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

static void steps_meet_no_denormals(void **state)
{
    const struct {
        const char *name;
        double lr;
        lks_optim optim;
    } list[] = {
        {"sgd", 1e-3, {.kind = LKS_SGD, .momentum = 0.9, .weight_decay = 40}},
        {"nesterov",
         1e-3,
         {.kind = LKS_SGD, .momentum = 0.5, .nesterov = true, .weight_decay = 30}},
        {"adam", .01, {.kind = LKS_ADAM, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}},
        {"adamw",
         .01,
         {.kind = LKS_ADAMW, .beta1 = .9, .beta2 = .9, .epsilon = 1e-8, .weight_decay = 5}},
        {"adadelta", 1, {.kind = LKS_ADADELTA, .rho = 0.9, .epsilon = 1e-6, .weight_decay = 1e-3}},
        {"rmsprop", 1e-3, {.kind = LKS_RMSPROP, .alpha = 0.9, .epsilon = 1e-8, .momentum = 0.9}},
        {"rmsprop", 1e-3, {.kind = LKS_RMSPROP, .alpha = 0.9, .epsilon = 1e-8, .centered = true}},
        {"adamp", .01, {.kind = LKS_ADAMP, .beta1 = .9, .beta2 = .9, .epsilon = 1e-8, .delta = .1}},
    };
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            for (int net = 0; net < 2; net++)
                if (net == 0 || (list[i].optim.weight_decay <= 1e-3 &&
                                 strcmp(lkt_backends()[b]->name, "ref") != 0))
                    train(net, lkt_backends()[b]->name, list[i].name,
                          &(lks_model_opts){.optim = list[i].optim,
                                            .ema_decay = i % 2 == 0 ? 0.9 : 0,
                                            .kernels = {.winograd = i % 2 == 0 ? LKS_WINOGRAD_F4
                                                                               : LKS_WINOGRAD_F2}},
                          list[i].lr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_meet_no_denormals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
