/*
 * Twenty steps of a network of activations, gates and branches against PyTorch.
 * tools/goldens/gated_net.py made tests/model/golden/gated_net.json; the network, and the formula that
 * its parameters and samples come from, are written there, and here again.
 *
 * A loss may be `factor` times as far from PyTorch's float64 as PyTorch's own float32 runs are.
 */
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include <lockstep/lockstep.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/test.h"

enum { SAMPLES = 36, BATCH = 12, STEPS = 20, SIZE = 8, CHANNELS = 3, CLASSES = 5 };
enum { ELEMENTS = SIZE * SIZE * CHANNELS };

static lks_tensor *conv(lks_graph *graph, lks_tensor *x, const char *name)
{
    return lks_conv2d(
        graph, x,
        &(lks_conv2d_opts){.name = name, .filters = 6, .kernel = {3, 3}, .padding = {1, 1}});
}

static lks_tensor *dense(lks_graph *graph, lks_tensor *x, const char *name, int64_t units)
{
    return lks_dense(graph, x, &(lks_dense_opts){.name = name, .units = units});
}

static lks_tensor *network(lks_graph *graph)
{
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(SIZE, SIZE, CHANNELS)});
    lks_tensor *a = lks_gelu(graph, conv(graph, x, "conv1"), NULL);
    lks_tensor *b = lks_gelu(graph, conv(graph, a, "conv2"),
                             &(lks_gelu_opts){.form = LKS_GELU_TANH});
    lks_tensor *gate = dense(graph, lks_global_avg_pool(graph, b), "squeeze", 4);
    gate = lks_sigmoid(graph, dense(graph, lks_silu(graph, gate), "excite", 6));
    b = lks_scale(graph, lks_mul(graph, b, gate), &(lks_scale_opts){.factor = 0.5f});
    lks_tensor *c = lks_add(graph, a, b);
    lks_tensor *d = lks_mul(graph, lks_tanh(graph, conv(graph, c, "conv3")),
                            lks_leaky_relu(graph, c, &(lks_leaky_relu_opts){.slope = 0.25f}));
    lks_tensor *e = lks_silu(graph, lks_add(graph, d, lks_global_avg_pool(graph, d)));
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    return lks_cross_entropy(graph, dense(graph, lks_global_avg_pool(graph, e), "out", CLASSES), y,
                             NULL);
}

static void write_parameters(lks_model *model)
{
    static const struct {
        const char *name;
        int fan_in;
    } list[] = {{"conv1.weight", 27}, {"conv1.bias", 27},    {"conv2.weight", 54},
                {"conv2.bias", 54},   {"squeeze.weight", 6}, {"squeeze.bias", 6},
                {"excite.weight", 4}, {"excite.bias", 4},    {"conv3.weight", 54},
                {"conv3.bias", 54},   {"out.weight", 6},     {"out.bias", 6}};

    for (uint32_t p = 0; p < sizeof list / sizeof list[0]; p++)
        lkt_golden_write(model, list[p].name, p, (float)(1 / sqrt(list[p].fan_in)), 0);
}

static void train(const json_t *golden, const char *device, int replicas)
{
    static float x[SAMPLES * ELEMENTS];
    int32_t y[SAMPLES];
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    char who[80];

    snprintf(who, sizeof who, "%s, %d replicas", device, replicas);
    for (uint32_t i = 0; i < SAMPLES * ELEMENTS; i++)
        x[i] = (float)(lkt_hashed(i, 1001) >> 8) * 0x1p-22f - 2;
    for (uint32_t s = 0; s < SAMPLES; s++) y[s] = (int32_t)(lkt_hashed(s, 1000) % CLASSES);
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = device}));
    LKT_OK(lks_graph_create(&graph, context));
    LKT_OK(lks_model_compile(&model, graph,
                             &(lks_model_opts){.loss = network(graph),
                                               .global_batch = BATCH,
                                               .replicas = replicas,
                                               .optim = lks_sgd(0.875f)}));
    write_parameters(model);
    lkt_golden_train(model, golden, who, x, y, ELEMENTS, BATCH, 0.25);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

static void losses_are_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/model/golden/gated_net.json");

    (void)state;
    assert_int_equal(json_array_size(json_object_get(golden, "losses")), STEPS);
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        train(golden, lkt_backends()[b]->name, 1);
        train(golden, lkt_backends()[b]->name, 5);
    }
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_are_pytorchs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
