/*
 * Twenty steps of a residual network with batch norm over the whole batch against PyTorch's batch norm in one
 * process, whatever the number of replicas. tools/goldens/synced_net.py made
 * tests/model/golden/synced_net.json; the network, and the formula that its parameters and samples come
 * from, are written there, and here again.
 *
 * A loss or a running statistic may be `factor` times as far from PyTorch's float64 as PyTorch's own float32
 * runs are.
 */
#include <math.h>
#include <stdio.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 39, BATCH = 13, STEPS = 20, SIZE = 8, CHANNELS = 3, CLASSES = 5 };
enum { ELEMENTS = SIZE * SIZE * CHANNELS };

static lks_tensor *conv(lks_graph *graph, lks_tensor *x, const char *name)
{
    return lks_conv2d(
        graph, x,
        &(lks_conv2d_opts){
            .name = name, .filters = 6, .kernel = {3, 3}, .padding = {1, 1}, .no_bias = true});
}

static lks_tensor *norm(lks_graph *graph, lks_tensor *x, const char *name)
{
    return lks_batch_norm(graph, x,
                          &(lks_batch_norm_opts){.name = name, .momentum = .125f, .sync = true});
}

static lks_tensor *dense(lks_graph *graph, lks_tensor *x, const char *name, int64_t units)
{
    return lks_dense(graph, x, &(lks_dense_opts){.name = name, .units = units});
}

static lks_tensor *network(lks_graph *graph)
{
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(SIZE, SIZE, CHANNELS)});
    lks_tensor *a = lks_relu(graph, norm(graph, conv(graph, x, "conv1"), "bn1"));
    lks_tensor *b = norm(graph, conv(graph, a, "conv2"), "bn2");
    b = lks_global_avg_pool(graph, lks_relu(graph, lks_add(graph, b, a)));
    lks_tensor *c = lks_tanh(graph, norm(graph, dense(graph, b, "hidden", 9), "bn3"));
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    return lks_cross_entropy(graph, dense(graph, c, "out", CLASSES), y, NULL);
}

static void write_parameters(lks_model *model)
{
    static const struct {
        const char *name;
        int fan_in; /* 0: of a batch norm */
        float more;
    } list[] = {{"conv1.weight", 27, 0}, {"bn1.weight", 0, 1},  {"bn1.bias", 0, 0},
                {"conv2.weight", 54, 0}, {"bn2.weight", 0, 1},  {"bn2.bias", 0, 0},
                {"hidden.weight", 6, 0}, {"hidden.bias", 6, 0}, {"bn3.weight", 0, 1},
                {"bn3.bias", 0, 0},      {"out.weight", 9, 0},  {"out.bias", 9, 0}};

    for (uint32_t p = 0; p < sizeof list / sizeof list[0]; p++) {
        const float bound = list[p].fan_in == 0 ? .5f : (float)(1 / sqrt(list[p].fan_in));

        lkt_golden_write(model, list[p].name, p, bound, list[p].more);
    }
}

static void check_running(lks_model *model, const json_t *golden, const char *who)
{
    const double factor = json_number_value(json_object_get(golden, "factor"));
    const char *name;
    json_t *entry;

    json_object_foreach(json_object_get(golden, "running"), name, entry)
    {
        const int index = lks_model_state_find(model, name);
        const double bound = factor * json_number_value(json_object_get(entry, "f32_error"));
        const json_t *expected = json_object_get(entry, "values");
        float values[9];

        assert_true(index >= 0);
        LKT_OK(
            lks_model_state_read(model, index, values, json_array_size(expected) * sizeof *values));
        for (size_t i = 0; i < json_array_size(expected); i++) {
            const double wanted = json_number_value(json_array_get(expected, i));
            if (!(fabs((double)values[i] - wanted) <= bound))
                fail_msg("%s: %s, element %zu: %.9g, PyTorch %.9g +- %.2g", who, name, i,
                         (double)values[i], wanted, bound);
        }
    }
}

static void train(const json_t *golden, const char *device, int replicas)
{
    static float x[SAMPLES * ELEMENTS];
    int32_t y[SAMPLES];
    char who[80];
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});

    snprintf(who, sizeof who, "%s, %d replicas", device, replicas);
    for (uint32_t i = 0; i < SAMPLES * ELEMENTS; i++)
        x[i] = (float)(lkt_hashed(i, 1001) >> 8) * 0x1p-22f - 2 + (float)(i / ELEMENTS % 8) / 4;
    for (uint32_t s = 0; s < SAMPLES; s++) y[s] = (int32_t)(lkt_hashed(s, 1000) % CLASSES);
    lkt_compile(&m, &(lks_model_opts){.loss = network(m.graph),
                                      .global_batch = BATCH,
                                      .replicas = replicas,
                                      .optim = lks_sgd(0.875f)});
    write_parameters(m.model);
    lkt_golden_train(m.model, golden, who, x, y, ELEMENTS, BATCH, 0.03125);
    check_running(m.model, golden, who);
    lkt_end(&m);
}

static void training_is_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/model/golden/synced_net.json");

    (void)state;
    assert_int_equal(json_array_size(json_object_get(golden, "losses")), STEPS);
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int replicas = 1; replicas <= 16; replicas += 5) /* at last three are absent */
            train(golden, lkt_backends()[b]->name, replicas);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(training_is_pytorchs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
