/*
 * Which nodes a model gives to one fused kernel: never one that another node reads, nor the output.
 *
 * All numbers are small integers and divisions are by powers of two, so every sum is exact in f32
 * and has the same bits in any order: outputs and gradients with fusion, without it, and on ref are
 * equal.
 */
#include <string.h>

#include <lockstep/tools.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { SIDE = 8, CHANNELS = 16, FILTERS = 32, BATCH = 4, MOST = SIDE * SIDE * FILTERS };

typedef struct net {
    lks_tensor *loss, *output;
} net;

typedef struct case_of {
    const char *what;
    net (*make)(lks_graph *graph);
    const char *fused; /* on cpu: the layers of the stage that starts with 'c' */
} case_of;

static lks_tensor *input(lks_graph *graph)
{
    return lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, CHANNELS)});
}

/* 'c': what conv_block takes, 16 channels to 32. */
static lks_tensor *conv(lks_graph *graph, lks_tensor *x)
{
    return lks_conv2d(
        graph, x,
        &(lks_conv2d_opts){.name = "c", .filters = FILTERS, .kernel = {3, 3}, .padding = {1, 1}});
}

static lks_tensor *pool(lks_graph *graph, lks_tensor *x)
{
    return lks_max_pool(graph, x, &(lks_pool_opts){.name = "pool", .kernel = {2, 2}});
}

static net end(lks_graph *graph, lks_tensor *x, lks_tensor *output)
{
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.shape = lks_tensor_shape(x)});
    return (net){.loss = lks_mse(graph, x, y), .output = output};
}

static net chain(lks_graph *graph)
{
    lks_tensor *x = lks_relu(graph, conv(graph, input(graph)));
    return end(graph, lks_flatten(graph, pool(graph, x)), NULL);
}

static net read_by_add(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    return end(graph, lks_add(graph, lks_relu(graph, c), c), NULL);
}

static net read_by_add_first(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    return end(graph, lks_add(graph, c, lks_relu(graph, c)), NULL);
}

static net read_before_relu(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    lks_tensor *scaled = lks_scale(graph, c, &(lks_scale_opts){.factor = 2.0f});
    return end(graph, lks_add(graph, lks_relu(graph, c), scaled), NULL);
}

static net read_twice_by_one(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    return end(graph, lks_relu(graph, lks_add(graph, c, c)), NULL);
}

static net read_doubled(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    return end(graph, lks_relu(graph, lks_scale(graph, c, &(lks_scale_opts){.factor = 2.0f})),
               NULL);
}

static net read_as_second_input(lks_graph *graph)
{
    lks_tensor *x = input(graph);
    lks_tensor *a = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = FILTERS, .kernel = {1, 1}});
    return end(graph, lks_relu(graph, lks_add(graph, a, conv(graph, x))), NULL);
}

static net relu_read_beside_pool(lks_graph *graph)
{
    lks_tensor *r = lks_relu(graph, conv(graph, input(graph)));
    lks_tensor *average = lks_avg_pool(graph, r, &(lks_pool_opts){.kernel = {2, 2}});
    return end(graph, lks_add(graph, pool(graph, r), average), NULL);
}

static net pool_read_beside_flatten(lks_graph *graph)
{
    lks_tensor *p = pool(graph, lks_relu(graph, conv(graph, input(graph))));
    lks_tensor *twice = lks_flatten(graph, lks_scale(graph, p, &(lks_scale_opts){.factor = 2.0f}));
    return end(graph, lks_add(graph, lks_flatten(graph, p), twice), NULL);
}

static net output_is_convolution(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    return end(graph, pool(graph, lks_relu(graph, c)), c);
}

static net output_is_relu(lks_graph *graph)
{
    lks_tensor *r = lks_relu(graph, conv(graph, input(graph)));
    return end(graph, lks_flatten(graph, pool(graph, r)), r);
}

static net output_is_pool(lks_graph *graph)
{
    lks_tensor *p = pool(graph, lks_relu(graph, conv(graph, input(graph))));
    return end(graph, lks_flatten(graph, p), p);
}

static net loss_reads_relu(lks_graph *graph)
{
    lks_tensor *r = lks_relu(graph, conv(graph, input(graph)));
    return end(graph, r, pool(graph, r));
}

static net loss_reads_convolution(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    return end(graph, c, pool(graph, lks_relu(graph, c)));
}

/* A reader that neither the loss nor the output needs is none. */
static net read_by_nobody_needed(lks_graph *graph)
{
    lks_tensor *c = conv(graph, input(graph));
    lks_tensor *x = pool(graph, lks_relu(graph, c));
    (void)lks_sigmoid(graph, c);
    return end(graph, x, NULL);
}

/* Readers of b add to its gradient in reverse order of the graph: where relu(c) is built behind another
 * reader of b, c and relu in one stage would add before that. */
static lks_tensor *before_c(lks_graph *graph)
{
    return lks_conv2d(graph, input(graph),
                      &(lks_conv2d_opts){.name = "b", .filters = CHANNELS, .kernel = {1, 1}});
}

static net relu_behind_a_reader(lks_graph *graph)
{
    lks_tensor *b = before_c(graph);
    lks_tensor *c = conv(graph, b);
    lks_tensor *other = lks_conv2d(graph, b,
                                   &(lks_conv2d_opts){.filters = FILTERS, .kernel = {1, 1}});
    return end(graph, lks_add(graph, lks_relu(graph, c), other), NULL);
}

/* Both are behind both: the order stays. */
static net two_relus_behind_two_readers(lks_graph *graph)
{
    lks_tensor *b = before_c(graph);
    lks_tensor *c = conv(graph, b);
    lks_tensor *other = lks_conv2d(graph, b,
                                   &(lks_conv2d_opts){.filters = FILTERS, .kernel = {1, 1}});
    c = lks_relu(graph, c);
    return end(graph, lks_add(graph, c, lks_relu(graph, other)), NULL);
}

/* What needs no gradient has no order. */
static net relu_behind_a_reader_of_the_input(lks_graph *graph)
{
    lks_tensor *x = input(graph);
    lks_tensor *c = conv(graph, x);
    lks_tensor *other = lks_conv2d(graph, x,
                                   &(lks_conv2d_opts){.filters = FILTERS, .kernel = {1, 1}});
    return end(graph, lks_add(graph, lks_relu(graph, c), other), NULL);
}

static const case_of SHAPES[] = {
    {"a chain", chain, "c relu_1 pool flatten_1"},
    {"relu(c) + c", read_by_add, "c"},
    {"c + relu(c)", read_by_add_first, "c"},
    {"relu(c) + 2 c", read_before_relu, "c"},
    {"relu(c + c)", read_twice_by_one, "c"},
    {"relu(a + c)", read_as_second_input, "c"},
    {"pool(relu(c)) + average(relu(c))", relu_read_beside_pool, "c relu_1"},
    {"flatten(pool) + flatten(2 pool)", pool_read_beside_flatten, "c relu_1 pool"},
    {"output c", output_is_convolution, "c"},
    {"output relu(c)", output_is_relu, "c relu_1"},
    {"output pool(relu(c))", output_is_pool, "c relu_1 pool"},
    {"loss of relu(c), output behind it", loss_reads_relu, "c relu_1"},
    {"loss of c, output behind it", loss_reads_convolution, "c"},
    {"sigmoid(c) that nobody needs", read_by_nobody_needed, "c relu_1 pool"},
    {"relu(c) + d, built c, d, relu", relu_behind_a_reader, "c"},
    {"relu(c) + relu(d), built c, d, relu, relu", two_relus_behind_two_readers, "c relu_1"},
    {"relu(c) + d of the input", relu_behind_a_reader_of_the_input, "c relu_1"},
};

/* -1, 0 and 1 by turns without a pattern that a kernel could see. */
static void fill(float *values, int64_t count, uint64_t seed)
{
    lkt_random random = {.state = seed};
    for (int64_t i = 0; i < count; i++) values[i] = (float)lkt_random_from(&random, -1, 1);
}

static void set_parameters(lks_model *model)
{
    static float values[FILTERS * CHANNELS * 9];
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_PARAMETER) continue;
        assert_true(info.bytes <= sizeof values);
        fill(values, (int64_t)(info.bytes / sizeof(float)), 7 + (uint64_t)i);
        LKT_OK(lks_model_state_write(model, i, values, info.bytes));
    }
}

static const char *layers_from_c(const lks_model *model, char *out, size_t size)
{
    const lks_tensor *layer;
    out[0] = '\0';
    for (int s = 0; s < lks_model_stages(model); s++) {
        if (strcmp(lks_tensor_name(lks_model_stage_layer(model, s, 0)), "c") != 0) continue;
        for (int i = 0; (layer = lks_model_stage_layer(model, s, i)) != NULL; i++)
            snprintf(out + strlen(out), size - strlen(out), "%s%s", i > 0 ? " " : "",
                     lks_tensor_name(layer));
    }
    return out;
}

typedef struct result {
    float output[BATCH * MOST], weight[FILTERS * CHANNELS * 9], bias[FILTERS];
    lks_metrics metrics;
} result;

static void read_gradient(lks_model *model, const char *name, float *out, size_t bytes)
{
    LKT_OK(lks_model_state_read(model, lks_model_state_find(model, name), out, bytes));
}

static void run(const case_of *shape, const char *device, bool no_fusion, result *out)
{
    static float x[BATCH * SIDE * SIDE * CHANNELS], y[BATCH * MOST];
    const lks_batch batch = {.x = x, .y = y, .count = BATCH};
    char found[256];

    memset(out, 0, sizeof *out);
    fill(x, BATCH * SIDE * SIDE * CHANNELS, 1);
    fill(y, BATCH * MOST, 2);
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    const net n = shape->make(m.graph);
    LKT_OK(lks_graph_status(m.graph));
    lkt_compile(&m,
                &(lks_model_opts){.loss = n.loss,
                                  .output = n.output,
                                  .global_batch = BATCH,
                                  .replicas = 2,
                                  .workers = 2,
                                  .kernels = {.winograd = LKS_WINOGRAD_OFF, .single = no_fusion}});
    const bool fuses = strcmp(device, "cpu") == 0 && !no_fusion;
    if (strcmp(layers_from_c(m.model, found, sizeof found), fuses ? shape->fused : "c") != 0)
        fail_msg("%s, %s on %s: the stage is '%s', expected '%s'", shape->what,
                 no_fusion ? "unfused" : "fused", device, found, fuses ? shape->fused : "c");
    set_parameters(m.model);
    LKT_OK(lks_model_predict(m.model, x, BATCH, out->output));
    LKT_OK(lks_model_gradient(m.model, &batch, &out->metrics));
    read_gradient(m.model, "gradient.c.weight", out->weight, sizeof out->weight);
    read_gradient(m.model, "gradient.c.bias", out->bias, sizeof out->bias);
    lkt_end(&m);
}

static void equal(const case_of *shape, const char *what, const float *found, const float *expected,
                  int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(found[i] == expected[i]))
            fail_msg("%s: %s[%lld] is %.9g, on ref %.9g", shape->what, what, (long long)i,
                     (double)found[i], (double)expected[i]);
}

static void what_others_read_is_not_fused(void **state)
{
    static result expected, found;
    (void)state;
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
        const case_of *shape = &SHAPES[s];
        run(shape, "ref", true, &expected);
        for (int i = 0; lkt_backends()[i / 2] != NULL; i++) {
            run(shape, lkt_backends()[i / 2]->name, i % 2 == 1, &found);
            equal(shape, "the output", found.output, expected.output, BATCH * MOST);
            equal(shape, "the weight's gradient", found.weight, expected.weight,
                  FILTERS * CHANNELS * 9);
            equal(shape, "the bias's gradient", found.bias, expected.bias, FILTERS);
            assert_int_equal(found.metrics.loss_high, expected.metrics.loss_high);
            assert_int_equal(found.metrics.loss_low, expected.metrics.loss_low);
        }
    }
}

/* Both inputs of a node may be one: its gradient is the sum of what both get. */
static void one_reader_may_read_twice(void **state)
{
    static const case_of twice = {"relu(c + c)", read_twice_by_one, "c"};
    static const case_of doubled = {"relu(2 c)", read_doubled, "c"};
    static result expected, found;
    (void)state;
    for (int i = 0; lkt_backends()[i] != NULL; i++) {
        run(&doubled, lkt_backends()[i]->name, false, &expected);
        run(&twice, lkt_backends()[i]->name, false, &found);
        equal(&twice, "the output", found.output, expected.output, BATCH * MOST);
        equal(&twice, "the weight's gradient", found.weight, expected.weight,
              FILTERS * CHANNELS * 9);
        equal(&twice, "the bias's gradient", found.bias, expected.bias, FILTERS);
    }
}

/* A cluster that is refused is refused at its end and at each node where it might end before: that is
 * said once, and in the order of the implementations. */
static void a_refusal_is_noted_once(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
        lks_tensor *x = input(m.graph);
        x = lks_conv2d(m.graph, x, /* no block is dilated */
                       &(lks_conv2d_opts){
                           .filters = 5, .kernel = {2, 2}, .padding = {2, 2}, .dilation = {2, 2}});
        x = lks_flatten(m.graph, pool(m.graph, lks_relu(m.graph, x)));
        lkt_compile(&m, &(lks_model_opts){.output = x, .global_batch = BATCH, .workers = 1});
        int noted = 0;
        for (int s = 0; s < m.model->program.stages; s++)
            for (const lki_refusal *r = m.model->program.stage[s].refused; r != NULL; r = r->next) {
                assert_true(r->next == NULL || r->place < r->next->place);
                noted++;
            }
        assert_int_equal(noted > 0, strcmp(lkt_backends()[b]->name, "cpu") == 0);
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_read_is_not_fused),
        cmocka_unit_test(one_reader_may_read_twice),
        cmocka_unit_test(a_refusal_is_noted_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
