/*
 * The MNIST CNN without dropout against PyTorch: its first gradient and the losses of steps of
 * Adadelta. tools/goldens/mnist_cnn.py made tests/model/golden/mnist_cnn.json; weights and samples
 * come from the integer formula written there, and from the same one here.
 *
 * The numbers are PyTorch's in float64. The bounds are `factor` times the largest distance from
 * them that PyTorch's own float32 runs show (in several orders of summation). From e, the bound of
 * a gradient's L2 distance, follow two more: its L2 norm differs by at most e, and its sum over n
 * elements by at most sqrt(n) e (Cauchy-Schwarz).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <lockstep/lockstep.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/test.h"

enum { SAMPLES = 128, BATCH = 32, FIRST = 4, PIXELS = 28 * 28, STEPS = 20, REF_STEPS = 3 };

static json_t *golden;

static int load(void **state)
{
    (void)state;
    golden = lkt_json_load("tests/model/golden/mnist_cnn.json");
    return 0;
}

static int unload(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("the golden file has no number '%s'", key);
    return json_number_value(value);
}

typedef struct samples {
    uint8_t x[SAMPLES * PIXELS];
    int32_t y[SAMPLES];
    int64_t ids[SAMPLES];
} samples;

static void make_samples(samples *out)
{
    for (uint32_t s = 0; s < SAMPLES; s++) {
        out->ids[s] = s;
        out->y[s] = (int32_t)(lkt_hashed(s, 1000) % 10);
        for (uint32_t j = 0; j < PIXELS; j++) {
            const bool band = j / 28 * 10 / 28 == (uint32_t)out->y[s];
            out->x[s * PIXELS + j] = (uint8_t)((lkt_hashed(s * PIXELS + j, 1001) >> 26) +
                                               (band ? 160 : 0));
        }
    }
}

static lks_batch part(const samples *data, int first, int count)
{
    return (lks_batch){.x = data->x + first * PIXELS,
                       .y = data->y + first,
                       .ids = data->ids + first,
                       .count = count};
}

static void write_weights(lks_model *model)
{
    static const char *const NAME[] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                       "fc1.weight",   "fc1.bias",   "fc2.weight",   "fc2.bias"};
    static const int FAN_IN[] = {9, 288, 9216, 128};
    const uint32_t salt = (uint32_t)number(golden, "salt");
    for (uint32_t p = 0; p < 8; p++) {
        const int index = lks_model_state_find(model, NAME[p]);
        assert_true(index >= 0);
        const size_t bytes = lks_model_state_info(model, index).bytes;
        const float bound = (float)(1 / sqrt(FAN_IN[p / 2]));
        float *values = malloc(bytes);
        assert_non_null(values);
        for (uint32_t i = 0; i < bytes / sizeof *values; i++) {
            values[i] = ((float)(lkt_hashed(i, salt + p) >> 8) * 0x1p-23f - 1) * bound;
        }
        LKT_OK(lks_model_state_write(model, index, values, bytes));
        free(values);
    }
}

/* One tensor of the first gradient against its entry in the golden file. */
static void check_gradient(lks_model *model, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    char full[100];
    snprintf(full, sizeof full, "gradient.%s", name);
    const int index = lks_model_state_find(model, full);
    assert_true(index >= 0);
    const int64_t count = (int64_t)number(entry, "elements");
    const size_t bytes = (size_t)count * sizeof(float);
    assert_int_equal(lks_model_state_info(model, index).bytes, bytes);
    float *values = malloc(bytes);
    assert_non_null(values);
    LKT_OK(lks_model_state_read(model, index, values, bytes));

    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    const double factor = number(golden, "factor"), bound = factor * number(entry, "f32_l2_error");
    const double l2 = sqrt(squares);
    if (!(fabs(l2 - number(entry, "l2")) <= bound)) {
        fail_msg("%s: L2 norm %.9g, PyTorch %.9g +- %.2g", name, l2, number(entry, "l2"), bound);
    }
    if (!(fabs(sum - number(entry, "sum")) <= bound * sqrt((double)count))) {
        fail_msg("%s: sum %.9g, PyTorch %.9g +- %.2g", name, sum, number(entry, "sum"),
                 bound * sqrt((double)count));
    }
    const json_t *picks = json_object_get(entry, "picks");
    const json_t *expected = json_object_get(entry, "values");
    const double largest = factor * number(entry, "f32_largest_error");
    assert_true(json_array_size(picks) > 0);
    for (size_t k = 0; k < json_array_size(picks); k++) {
        const json_int_t i = json_integer_value(json_array_get(picks, k));
        const double wanted = json_number_value(json_array_get(expected, k));
        if (!(fabs((double)values[i] - wanted) <= largest)) {
            fail_msg("%s[%d]: %.9g, PyTorch %.9g +- %.2g", name, (int)i, (double)values[i], wanted,
                     largest);
        }
    }
    free(values);
}

static void check_losses(lks_model *model, const samples *data, int steps)
{
    const double factor = number(golden, "factor");
    const json_t *losses = json_object_get(golden, "losses");
    const json_t *errors = json_object_get(golden, "f32_loss_errors");
    assert_true(json_array_size(losses) == STEPS);
    for (int step = 0; step < steps; step++) {
        const lks_batch batch = part(data, step % 4 * BATCH, BATCH);
        lks_metrics metrics;
        LKT_OK(lks_model_step(model, &batch, 1.0, &metrics));
        const double loss = lks_metrics_loss(&metrics);
        const double wanted = json_number_value(json_array_get(losses, (size_t)step));
        const double bound = factor * json_number_value(json_array_get(errors, (size_t)step));
        if (!(fabs(loss - wanted) <= bound)) {
            fail_msg("step %d: loss %.9g, PyTorch %.9g +- %.2g", step, loss, wanted, bound);
        }
    }
}

static void mnist_cnn_is_pytorchs(const char *device, int steps, const lks_model_opts *how)
{
    static samples data;
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    make_samples(&data);
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = device}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(
        graph, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(28, 28, 1), .dtype = LKS_U8});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.name = "y", .classes = 10});
    x = lks_normalize(
        graph, x,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){0.1307f}, .std = (float[]){0.3081f}});
    x = lks_mnist_cnn(graph, x, &(lks_mnist_cnn_opts){.no_dropout = true});
    lks_model_opts opts = *how;
    opts.loss = lks_nll(graph, x, y);
    opts.global_batch = BATCH;
    opts.optim = lks_adadelta();
    LKT_OK(lks_model_compile(&model, graph, &opts));
    write_weights(model);

    const lks_batch first = part(&data, 0, FIRST);
    LKT_OK(lks_model_gradient(model, &first, NULL));
    const json_t *gradient = json_object_get(golden, "gradient");
    assert_true(json_array_size(gradient) == 8);
    for (size_t i = 0; i < 8; i++) check_gradient(model, json_array_get(gradient, i));
    check_losses(model, &data, steps);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

/* Plain loops are slow, so fewer steps; the replicas are for the two workers. */
static void on_ref(void **state)
{
    (void)state;
    mnist_cnn_is_pytorchs(lkt_device("ref"), REF_STEPS, &(lks_model_opts){.replicas = 4});
}

static void on_cpu(void **state)
{
    (void)state;
    if (lki_backend_find("cpu") == NULL) {
        print_message("there is no cpu backend in this build\n");
        skip();
    }
    mnist_cnn_is_pytorchs("cpu", STEPS, &(lks_model_opts){.replicas = 1});
    mnist_cnn_is_pytorchs("cpu", 6, &(lks_model_opts){.replicas = 3});
    mnist_cnn_is_pytorchs("cpu", 2, &(lks_model_opts){.replicas = 1, .kernels.single = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_ref), cmocka_unit_test(on_cpu)};
    return cmocka_run_group_tests(tests, load, unload);
}
