/* A model layer by layer (lockstep/layers.h): the bits of a step, true gradients, and every number by name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { BATCH = 5, STEPS = 5, SIDE = 5, CHANNELS = 2, PIXELS = SIDE * SIDE * CHANNELS, OUTPUTS = 3 };

typedef struct fixture {
    lkt_model own;
    lks_model *model;
} fixture;

static fixture open_net(const char *device, lkt_net net, lks_model_opts opts)
{
    fixture f = {.own = lkt_begin(&(lks_context_opts){.device = device, .seed = 5})};
    opts.loss = net(f.own.graph);
    if (opts.global_batch == 0) opts.global_batch = BATCH;
    lkt_compile(&f.own, &opts);
    f.model = f.own.model;
    return f;
}

static void close_net(fixture *f)
{
    lkt_end(&f->own);
}

static void forward_backward(lks_model *model, const lks_batch *batch, lks_metrics *metrics)
{
    LKT_OK(lks_model_forward(model, batch, true, metrics));
    LKT_OK(lks_model_backward_input(model, NULL));
    LKT_OK(lks_model_backward_params(model));
}

/* Inputs and parameters of a small network without kinks: two convolutions, one of which two others read. */
static lks_tensor *smooth(lks_graph *graph)
{
    lks_tensor *x = lks_input(
        graph, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, CHANNELS), .dtype = LKS_F32});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.shape = LKS_SHAPE(OUTPUTS)});
    const lks_conv2d_opts conv = {
        .name = "conv1", .filters = 3, .kernel = {3, 3}, .padding = {1, 1}};
    lks_conv2d_opts second = conv;
    second.name = "conv2";
    x = lks_tanh(graph, lks_conv2d(graph, x, &conv));
    x = lks_add(graph, x, lks_tanh(graph, lks_conv2d(graph, x, &second)));
    x = lks_dense(graph, lks_flatten(graph, x), &(lks_dense_opts){.name = "fc", .units = OUTPUTS});
    return lks_mse(graph, x, y);
}

typedef struct samples {
    float x[BATCH * PIXELS], y[BATCH * OUTPUTS];
} samples;

static lks_batch smooth_batch(samples *s)
{
    lkt_random random = lkt_random_make("layers", 3);
    for (int i = 0; i < BATCH * PIXELS; i++) s->x[i] = (float)lkt_random_real(&random, -1, 1);
    for (int i = 0; i < BATCH * OUTPUTS; i++) s->y[i] = (float)lkt_random_real(&random, -1, 1);
    return (lks_batch){.x = s->x, .y = s->y, .count = BATCH};
}

static float *read_value(lks_model *model, const char *name, size_t *count)
{
    const int index = lks_model_value_find(model, name);
    const lks_value_info info = lks_model_value_info(model, index);
    float *out = malloc(info.bytes);
    assert_non_null(out);
    if (index < 0) fail_msg("there is no '%s'", name);
    LKT_OK(lks_model_value_read(model, index, out, info.bytes));
    *count = info.bytes / sizeof *out;
    return out;
}

static void bits_of_a_step(void **state)
{
    static const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual, lkt_net_gated,
                                   lkt_net_joined};
    const lks_model_opts opts[] = {{.hash_every = 2},
                                   {.optim = lks_adam(), .clip_norm = 0.5, .ema_decay = 0.5},
                                   {.optim = lks_adamp(), .clip_value = 0.01}};
    (void)state;
    lkt_images images = lkt_images_make(2 * BATCH);
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t k = 0; k < 3 * sizeof nets / sizeof *nets; k++) {
            const char *device = lkt_backends()[b]->name;
            lks_model_opts apart = opts[k % 3], whole = opts[k % 3];
            apart.layers = true;
            whole.replicas = whole.workers = 1;
            whole.kernels.single = true;
            fixture f = open_net(device, nets[k / 3], apart);
            fixture g = open_net(device, nets[k / 3], whole);
            for (int step = 0; step < STEPS; step++) {
                lks_metrics found = {0}, expected = {0};
                const int64_t first = step % 2 * BATCH, count = BATCH - step % 2;
                const lks_batch batch = {
                    .x = images.x + first * 12 * 10 * 3, .y = images.y + first, .count = count};
                LKT_OK(lks_model_zero_gradients(f.model));
                forward_backward(f.model, &batch, &found);
                LKT_OK(lks_model_update(f.model, 0.05));
                LKT_OK(lks_model_step(g.model, &batch, 0.05, &expected));
                assert_memory_equal(&found, &expected, sizeof found);
                if (lkt_state_hash(f.model) != lkt_state_hash(g.model))
                    fail_msg("%s, net %zu, step %d: other bits than a step's", device, k, step);
            }
            assert_int_equal(lks_model_progress(f.model).link, lks_model_progress(g.model).link);
            assert_int_equal(lks_model_progress(f.model).step, STEPS);
            close_net(&f);
            close_net(&g);
        }
    lkt_images_free(&images);
}

/* Gradients of two batches are those of both as two replicas: the tree adds the same numbers. */
static void gradients_add_up(void **state)
{
    (void)state;
    lkt_images images = lkt_images_make(BATCH - 1);
    for (int k = 0; lkt_backends()[k / 2] != NULL; k++) {
        const char *device = lkt_backends()[k / 2]->name;
        const double norm = k % 2 * 0.01; /* then the means are formed first */
        const lks_model_opts two = {.global_batch = BATCH - 1,
                                    .replicas = 2,
                                    .workers = 1,
                                    .clip_norm = norm,
                                    .kernels.single = true};
        fixture f = open_net(device, lkt_net_joined,
                             (lks_model_opts){.layers = true, .clip_norm = norm});
        fixture g = open_net(device, lkt_net_joined, two);
        lks_batch batch = {.x = images.x, .y = images.y, .count = BATCH - 1};
        LKT_OK(lks_model_step(g.model, &batch, 0.05, NULL));
        batch.count = (BATCH - 1) / 2;
        for (int turn = 0; turn < 2; turn++) { /* what was there before is gone */
            LKT_OK(lks_model_zero_gradients(f.model));
            forward_backward(f.model, &batch, NULL);
        }
        batch.x = images.x + batch.count * 12 * 10 * 3;
        batch.y = images.y + batch.count;
        forward_backward(f.model, &batch, NULL);
        LKT_OK(lks_model_update(f.model, 0.05));
        if (lkt_state_hash(f.model) != lkt_state_hash(g.model))
            fail_msg("%s: other bits than those of two replicas", device);
        close_net(&f);
        close_net(&g);
    }
    lkt_images_free(&images);
}

/* The sum of losses, or of all outputs, with the parameters that there are. */
static double sum_of(lks_model *model, const lks_batch *batch, bool outputs)
{
    lks_metrics metrics;
    size_t count;
    double sum = 0;
    LKT_OK(lks_model_forward(model, batch, true, &metrics));
    if (!outputs) return lks_metrics_loss(&metrics) * (double)metrics.samples;
    float *out = read_value(model, "fc", &count);
    for (size_t i = 0; i < count; i++) sum += (double)out[i];
    free(out);
    return sum;
}

/* A central quotient with h = 2^-6 has an error of h^2 / 6 times a third derivative, 4e-5 of it, and, as losses and outputs here
 * have magnitude 1 to 10 and are right to some 1e-6, one of 1e-6 / h, 6e-5; gradients have magnitude 0.1 to 10. */
static void check_parameter(lks_model *model, const lks_batch *batch, const char *name,
                            bool outputs)
{
    const float h = 0x1p-6f;
    char gradient[80];
    size_t count;
    snprintf(gradient, sizeof gradient, "%s.gradient", name);
    float *found = read_value(model, gradient, &count);
    float *value = malloc(count * sizeof *value);
    const int index = lks_model_state_find(model, name);
    assert_non_null(value);
    LKT_OK(lks_model_state_read(model, index, value, count * sizeof *value));
    for (size_t i = 0; i < count; i++) {
        const float kept = value[i];
        double sum[2];
        for (int side = 0; side < 2; side++) {
            value[i] = side == 0 ? kept - h : kept + h;
            LKT_OK(lks_model_state_write(model, index, value, count * sizeof *value));
            sum[side] = sum_of(model, batch, outputs);
        }
        value[i] = kept;
        const double expected = (sum[1] - sum[0]) / (2 * (double)h);
        if (!(fabs(expected - (double)found[i]) <= 1e-3 + 1e-3 * fabs(expected)))
            fail_msg("%s, element %zu: gradient %g, expected %g", gradient, i, (double)found[i],
                     expected);
    }
    LKT_OK(lks_model_state_write(model, index, value, count * sizeof *value));
    free(found);
    free(value);
}

static void true_gradients(void **state)
{
    static const char *const names[] = {"conv1.weight", "conv1.bias", "conv2.weight",
                                        "conv2.bias",   "fc.weight",  "fc.bias"};
    static samples s;
    float ones[BATCH * OUTPUTS];
    const lks_batch batch = smooth_batch(&s);
    (void)state;
    for (int i = 0; i < BATCH * OUTPUTS; i++) ones[i] = 1;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int outputs = 0; outputs < 2; outputs++) {
            fixture f = open_net(lkt_backends()[b]->name, smooth, (lks_model_opts){.layers = true});
            LKT_OK(lks_model_forward(f.model, &batch, true, NULL));
            LKT_OK(lks_model_backward_input(f.model, outputs ? ones : NULL));
            LKT_OK(lks_model_backward_params(f.model));
            for (size_t n = 0; n < sizeof names / sizeof *names; n++)
                check_parameter(f.model, &batch, names[n], outputs);
            close_net(&f);
        }
}

/* A bias adds to every element of its channel, so its gradient is the sum of those of its layer's output; that of the
 * output is 2 (p - t) / 3, as mse has it; and given by hand it leads to the same parameters' gradients. */
static void gradients_of_activations(void **state)
{
    static samples s;
    const lks_batch batch = smooth_batch(&s);
    size_t count, others;
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        fixture f = open_net(lkt_backends()[b]->name, smooth, (lks_model_opts){.layers = true});
        forward_backward(f.model, &batch, NULL);
        float *bias = read_value(f.model, "conv1.bias.gradient", &count);
        float *d_out = read_value(f.model, "conv1.gradient", &others);
        assert_int_equal(others, BATCH * SIDE * SIDE * 3);
        for (size_t c = 0; c < 3; c++) {
            double sum = 0;
            for (size_t i = c; i < others; i += 3) sum += (double)d_out[i];
            assert_true(fabs(sum - (double)bias[c]) <= 1e-5 * (1 + fabs(sum)));
        }
        float *out = read_value(f.model, "fc", &count),
              *d = read_value(f.model, "fc.gradient", &others);
        assert_int_equal(count, BATCH * OUTPUTS);
        for (size_t i = 0; i < count; i++)
            assert_true(fabs((double)d[i] - 2.0 / OUTPUTS * ((double)out[i] - (double)s.y[i])) <
                        1e-6);
        float *weight = read_value(f.model, "conv1.weight.gradient", &count);
        LKT_OK(lks_model_zero_gradients(f.model));
        LKT_OK(lks_model_backward_input(f.model, d));
        LKT_OK(lks_model_backward_params(f.model));
        float *again = read_value(f.model, "conv1.weight.gradient", &count);
        assert_memory_equal(weight, again, count * sizeof *weight);
        free(bias);
        free(d_out);
        free(out);
        free(d);
        free(weight);
        free(again);
        close_net(&f);
    }
}

typedef struct text {
    char all[16384];
} text;

static void add_line(void *user, const char *line)
{
    text *t = user;
    const size_t length = strlen(t->all);
    snprintf(t->all + length, sizeof t->all - length, "%s\n", line);
}

static void what_is_printed(void **state)
{
    static samples s;
    static text t;
    const lks_batch batch = smooth_batch(&s);
    (void)state;
    fixture f = open_net(lkt_device("ref"), smooth, (lks_model_opts){.layers = true});
    float bias[3] = {0.5f, -0.25f, 2};
    const int index = lks_model_state_find(f.model, "fc.bias");
    LKT_OK(lks_model_state_write(f.model, index, bias, sizeof bias));
    LKT_OK(lks_dump(f.model, "fc.bias", add_line, &t));
    bias[1] = 0.5f;
    LKT_OK(lks_model_state_write(f.model, index, bias, sizeof bias));
    LKT_OK(lks_dump(f.model, "fc.bias", add_line, &t));
    assert_string_equal(t.all, "fc.bias: 3, strides 1\n"
                               "         0.5       -0.25           2\n"
                               "Layer 6 - Weight sum: 2.250000 (change: 0.000000)\n"
                               "fc.bias: 3, strides 1\n"
                               "         0.5         0.5           2\n"
                               "Layer 6 - Weight sum: 3.000000 (change: 0.750000)\n");
    LKT_OK(lks_model_forward(f.model, &batch, true, NULL));
    t.all[0] = '\0';
    LKT_OK(lks_dump(f.model, "conv1", add_line, &t));
    assert_non_null(strstr(t.all, "conv1: 5 samples of 5x5x3, strides 75 15 3 1\n"));
    assert_non_null(strstr(t.all, " ...\n"));
    t.all[0] = '\0';
    LKT_OK(lks_dump(f.model, NULL, add_line, &t));
    assert_non_null(strstr(t.all, "conv1: 5 samples"));
    assert_non_null(strstr(t.all, "fc.weight: 3x75, strides 75 1\n"));
    assert_null(strstr(t.all, "gradient")); /* none is there */
    LKT_FAILS(LKS_E_INVALID, "no value 'fc3'", lks_dump(f.model, "fc3", add_line, &t));
    close_net(&f);
}

static void names_and_sizes(void **state)
{
    static samples s;
    const lks_batch batch = smooth_batch(&s);
    float numbers[OUTPUTS];
    (void)state;
    fixture f = open_net(lkt_device("ref"), smooth, (lks_model_opts){.layers = true});
    const int bias = lks_model_value_find(f.model, "fc.bias.gradient");
    LKT_OK(lks_model_value_read(f.model, bias, numbers, sizeof numbers));
    for (int i = 0; i < OUTPUTS; i++) assert_true(numbers[i] == 0);
    LKT_FAILS(LKS_E_STATE, "'fc' is not there; lks_model_forward() forms it",
              lks_model_value_read(f.model, lks_model_value_find(f.model, "fc"), numbers, 0));
    forward_backward(f.model, &batch, NULL);
    for (int i = 0; i < lks_model_value_count(f.model); i++) {
        const lks_value_info info = lks_model_value_info(f.model, i);
        assert_int_equal(lks_model_value_find(f.model, info.name), i);
        assert_int_equal(info.samples, info.kind <= LKS_VALUE_ACTIVATION_GRADIENT ? BATCH : 0);
        assert_int_equal(strncmp(info.name, info.layer, strlen(info.layer)), 0);
    }
    const lks_value_info info = lks_model_value_info(f.model, bias);
    assert_string_equal(info.layer, "fc");
    assert_int_equal(info.number, 6);
    assert_int_equal(info.kind, LKS_VALUE_PARAMETER_GRADIENT);
    assert_int_equal(lks_model_value_find(f.model, "conv3"), -1);
    LKT_FAILS(LKS_E_INVALID, "has 12 bytes, and 8",
              lks_model_value_read(f.model, bias, numbers, 8));
    LKT_FAILS(LKS_E_INVALID, "no value 99", lks_model_value_read(f.model, 99, numbers, 8));
    close_net(&f);
}

static void wrong_order(void **state)
{
    static samples s;
    const lks_batch batch = smooth_batch(&s);
    (void)state;
    fixture f = open_net(lkt_device("ref"), smooth, (lks_model_opts){.layers = true});
    LKT_FAILS(LKS_E_STATE, "follows lks_model_forward()", lks_model_backward_input(f.model, NULL));
    LKT_FAILS(LKS_E_STATE, "has no gradients", lks_model_update(f.model, 0.1));
    LKT_OK(lks_model_forward(f.model, &batch, false, NULL));
    LKT_FAILS(LKS_E_STATE, "in training", lks_model_backward_input(f.model, NULL));
    LKT_OK(lks_model_forward(f.model, &batch, true, NULL));
    LKT_FAILS(LKS_E_STATE, "follows lks_model_backward_input()",
              lks_model_backward_params(f.model));
    forward_backward(f.model, &batch, NULL);
    LKT_FAILS(LKS_E_INVALID, "learning rate", lks_model_update(f.model, -1));
    LKT_OK(lks_model_update(f.model, 0.1));
    LKT_FAILS(LKS_E_STATE, "any other step or update", lks_model_backward_input(f.model, NULL));
    lks_metrics sum = {0};
    LKT_OK(lks_model_forward(f.model, &batch, true, NULL));
    LKT_OK(lks_model_evaluate(f.model, &batch, &sum));
    LKT_FAILS(LKS_E_STATE, "any other step or update", lks_model_backward_input(f.model, NULL));
    LKT_OK(lks_model_update(f.model, 0.1)); /* gradients of parameters are there still */
    LKT_OK(lks_model_step(f.model, &batch, 0.1, NULL));
    LKT_FAILS(LKS_E_STATE, "has no gradients", lks_model_update(f.model, 0.1));
    s.x[3] = NAN;
    LKT_OK(lks_model_zero_gradients(f.model));
    forward_backward(f.model, &batch, &sum);
    assert_int_equal(sum.not_finite, 1);
    const uint64_t before = lkt_state_hash(f.model);
    LKT_FAILS(LKS_E_NUMERIC, "nothing was updated", lks_model_update(f.model, 0.1));
    assert_int_equal(lkt_state_hash(f.model), before);
    s.x[3] = 0;
    forward_backward(f.model, &batch, NULL); /* added to what is not finite */
    LKT_FAILS(LKS_E_NUMERIC, "nothing was updated", lks_model_update(f.model, 0.1));
    LKT_OK(lks_model_zero_gradients(f.model));
    forward_backward(f.model, &batch, NULL);
    LKT_OK(lks_model_update(f.model, 0.1));
    close_net(&f);
}

static lks_tensor *tensor_at(lks_graph *graph, const char *name)
{
    lki_node *node = graph->first;
    while (strcmp(node->name, name) != 0) node = node->next;
    return &node->out;
}

/* The loss reads a tensor in front of the output: by gradients of the output alone not all are formed. */
static void other_options(void **state)
{
    static samples s;
    const lks_batch batch = smooth_batch(&s);
    const struct {
        lks_model_opts opts;
        const char *part;
    } cases[] = {{{.workers = 2, .replicas = 2}, "several workers"},
                 {{.replicas = 2}, "several replicas"},
                 {{.accumulate = 2}, "accumulated replicas"},
                 {{.recompute = true}, "recompute"},
                 {{.loss_scale = 2}, "loss_scale"},
                 {{.loss_scale_steps = 9}, "loss_scale"}};
    (void)state;
    lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_device("ref")});
    lks_tensor *loss = smooth(m.graph);
    lks_tensor *early = tensor_at(m.graph, "conv1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_model_opts opts = cases[i].opts;
        opts.loss = loss;
        opts.global_batch = BATCH;
        opts.layers = true;
        LKT_FAILS(LKS_E_UNSUPPORTED, cases[i].part, lks_model_compile(&m.model, m.graph, &opts));
    }
    lkt_compile(&m, &(lks_model_opts){
                        .loss = loss, .output = early, .global_batch = BATCH, .layers = true});
    static float d[BATCH * SIDE * SIDE * 3];
    LKT_OK(lks_model_forward(m.model, &batch, true, NULL));
    LKT_FAILS(LKS_E_UNSUPPORTED, "depends on more than the output",
              lks_model_backward_input(m.model, d));
    lkt_end(&m);
    fixture f = open_net(lkt_device("ref"), lkt_net_mlp, (lks_model_opts){.workers = 1});
    LKT_FAILS(LKS_E_STATE, "compiled with lks_model_opts.layers",
              lks_model_forward(f.model, &batch, true, NULL));
    close_net(&f);
    m = lkt_begin(&(lks_context_opts){.device = lkt_device("ref")});
    loss = lkt_net_synced(m.graph);
    LKT_FAILS(
        LKS_E_UNSUPPORTED, "leave its sync out",
        lks_model_compile(&m.model, m.graph,
                          &(lks_model_opts){.loss = loss, .global_batch = BATCH, .layers = true}));
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_a_step),  cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(true_gradients),  cmocka_unit_test(gradients_of_activations),
        cmocka_unit_test(what_is_printed), cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(wrong_order),     cmocka_unit_test(other_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
