/* Shapes, parameters, costs and printed attributes. */
#include <string.h>

#include <lockstep/tools.h>

#include "core/graph.h"
#include "support/test.h"

static lks_context *context;

static int set_up(void **state)
{
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

static lks_tensor *input(lks_graph *g, lks_shape shape)
{
    return lks_input(g, &(lks_input_opts){.shape = shape});
}

static void expect_shape(const lks_tensor *t, const char *expected)
{
    char text[128];

    assert_non_null(t);
    assert_string_equal(lki_shape_print(&t->shape, text, sizeof text), expected);
}

static void expect_print(const lks_tensor *t, const char *expected)
{
    char text[256];

    lki_node_print(t->node, text, sizeof text);
    assert_string_equal(text, expected);
}

static void expect_param(const lks_tensor *t, int i, const char *suffix, const char *shape,
                         int64_t fan_in, int64_t fan_out)
{
    const lki_param *param = &t->node->param[i];
    char text[128];

    assert_true(i < t->node->param_count);
    assert_string_equal(param->suffix, suffix);
    assert_string_equal(lki_shape_print(&param->shape, text, sizeof text), shape);
    assert_int_equal(param->fan_in, fan_in);
    assert_int_equal(param->fan_out, fan_out);
}

static void inputs_and_targets(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(28, 28, 1), .dtype = LKS_U8});
    lks_tensor *t = lks_target(g, &(lks_target_opts){.classes = 10});
    LKT_OK(lks_graph_status(g));
    expect_shape(x, "28x28x1");
    expect_print(x, "shape=28x28x1 dtype=U8");
    assert_int_equal(lks_tensor_dtype(x), LKS_U8);
    expect_print(t, "classes=10");
    expect_shape(t, "one number");
    assert_int_equal(lks_tensor_dtype(t), LKS_I32);
    lks_tensor *n = lks_normalize(
        g, x,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){0.1307f}, .std = (float[]){0.3081f}});
    expect_shape(n, "28x28x1");
    assert_int_equal(lks_tensor_dtype(n), LKS_F32);
    expect_print(n, "mean=0.1307 std=0.3081");
    assert_false(n->node->needs_gradient);
    lks_graph_destroy(g);

    LKT_OK(lks_graph_create(&g, context));
    x = input(g, LKS_SHAPE(2, 3));
    t = lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2, 3)});
    n = lks_normalize(g, x,
                      &(lks_normalize_opts){.count = 3,
                                            .mean = (float[]){1.0f, -2.5f, 0.0f},
                                            .std = (float[]){1.0f, 0.1f, 3.0f}});
    expect_print(x, "shape=2x3");
    expect_print(t, "shape=2x3");
    expect_print(n, "mean=1,-2.5,0 std=1,0.1,3");
    lks_tensor *loss = lks_mse(g, n, t);
    LKT_OK(lks_graph_status(g));
    expect_shape(loss, "one number");
    expect_print(loss, "");
    lks_graph_destroy(g);
}

static void convolutions(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(28, 30, 6));
    lks_tensor *y = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 32, .kernel = {3, 3}});
    expect_shape(y, "26x28x32");
    expect_print(y, "filters=32 kernel=3x3");
    expect_param(y, 0, "weight", "32x6x3x3", 54, 288);
    expect_param(y, 1, "bias", "32", 54, 288);
    assert_int_equal(y->node->param_count, 2);
    assert_int_equal(y->node->multiply_adds, 26 * 28 * 32 * 54);

    y = lks_conv2d(
        g, x,
        &(lks_conv2d_opts){.filters = 4,
                           .kernel = {3, 5},
                           .stride = {2, 3},
                           .padding = {1, 1},
                           .dilation = {2, 1},
                           .groups = 2,
                           .no_bias = true,
                           .weight_init = {.kind = LKS_INIT_KAIMING_NORMAL, .fan_out = true}});
    expect_shape(y, "13x10x4"); /* (28 + 2 - 4 - 1) / 2 + 1, (30 + 2 - 4 - 1) / 3 + 1 */
    expect_print(y, "filters=4 kernel=3x5 stride=2x3 padding=1 dilation=2x1 groups=2 no_bias "
                    "weight_init=kaiming_normal:fan_out");
    expect_param(y, 0, "weight", "4x3x3x5", 45, 60);
    assert_int_equal(y->node->param_count, 1);
    assert_int_equal(y->node->multiply_adds, 13 * 10 * 4 * 45);

    y = lks_conv2d(g, x,
                   &(lks_conv2d_opts){.filters = 1,
                                      .kernel = {28, 30},
                                      .bias_init = {.kind = LKS_INIT_ZEROS},
                                      .weight_init = {.kind = LKS_INIT_UNIFORM, .scale = 0.5f}});
    expect_shape(y, "1x1x1");
    expect_print(y, "filters=1 kernel=28x30 weight_init=uniform:0.5 bias_init=zeros");
    LKT_OK(lks_graph_status(g));
    lks_graph_destroy(g);
}

static void layers_with_parameters(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(784));
    lks_tensor *y = lks_dense(g, x, &(lks_dense_opts){.units = 10});
    expect_shape(y, "10");
    expect_print(y, "units=10");
    expect_param(y, 0, "weight", "10x784", 784, 10);
    expect_param(y, 1, "bias", "10", 784, 10);
    assert_int_equal(y->node->multiply_adds, 7840);
    expect_print(lks_dense(g, x, &(lks_dense_opts){.units = 1, .no_bias = true}),
                 "units=1 no_bias");

    y = lks_batch_norm(g, y, NULL);
    expect_shape(y, "10");
    expect_print(y, "");
    expect_param(y, 0, "weight", "10", 1, 1);
    expect_param(y, 1, "bias", "10", 1, 1);
    assert_int_equal(y->node->param[0].init.kind, LKS_INIT_ONES);
    assert_int_equal(y->node->param[1].init.kind, LKS_INIT_ZEROS);
    assert_int_equal(y->node->stats, 22);
    assert_int_equal(y->node->buffer_count, 3);
    assert_string_equal(y->node->buffer[0].suffix, "running_mean");
    assert_string_equal(y->node->buffer[1].suffix, "running_var");
    assert_string_equal(y->node->buffer[2].suffix, "num_batches_tracked");
    assert_true(y->node->buffer[0].start == 0.0f && y->node->buffer[1].start == 1.0f);
    assert_int_equal(y->node->buffer[2].dtype, LKS_I64);
    assert_int_equal(y->node->buffer[2].shape.ndim, 0);
    assert_true(lki_op_get(LKI_OP_BATCH_NORM)->per_replica);
    y = lks_batch_norm(g, y, &(lks_batch_norm_opts){.momentum = 0.01f, .epsilon = 0.001f});
    expect_print(y, "momentum=0.01 epsilon=0.001");

    y = lks_layer_norm(g, y, NULL);
    expect_shape(y, "10");
    expect_print(y, "");
    expect_param(y, 0, "weight", "10", 1, 1);
    expect_param(y, 1, "bias", "10", 1, 1);
    assert_int_equal(y->node->param[0].init.kind, LKS_INIT_ONES);
    assert_int_equal(y->node->param[1].init.kind, LKS_INIT_ZEROS);
    assert_int_equal(y->node->stats, 0);
    assert_false(lki_op_get(LKI_OP_LAYER_NORM)->per_replica);
    y = lks_layer_norm(g, y, &(lks_layer_norm_opts){.epsilon = 0.001f, .no_affine = true});
    expect_print(y, "epsilon=0.001 no_affine");
    assert_int_equal(y->node->param_count, 0);
    LKT_OK(lks_graph_status(g));
    lks_graph_destroy(g);
}

static void attention_of_heads(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(7), .dtype = LKS_I32, .vocabulary = 9});
    lks_tensor *qkv = lks_embedding(g, x, &(lks_embedding_opts){.units = 96});
    lks_tensor *y = lks_attention(g, qkv, NULL, &(lks_attention_opts){.heads = 4});
    expect_shape(y, "7x32");
    expect_print(y, "heads=4");
    assert_int_equal(((const lks_attention_opts *)y->node->attr)->kv_heads, 4);
    assert_int_equal(y->node->multiply_adds, 2 * 4 * 8 * 7 * 7);
    assert_int_equal(y->node->in_count, 1);
    y = lks_attention(g, qkv, x,
                      &(lks_attention_opts){.heads = 8,
                                            .kv_heads = 2,
                                            .causal = true,
                                            .dropout = 0.1f,
                                            .rotary = 10000.0f,
                                            .padding = 8});
    expect_shape(y, "7x64");
    expect_print(y, "heads=8 kv_heads=2 causal dropout=0.1 rotary=10000 masked padding=8");
    assert_int_equal(y->node->multiply_adds, 2 * 8 * 8 * 7 * 8 / 2);
    assert_int_equal(y->node->in_count, 2);
    assert_int_equal(y->node->param_count, 0);
    /* Of a list of layers: masked alone says that the tokens are the graph's. */
    y = lks_graph_line(g, qkv, "attention heads=4 masked");
    expect_print(y, "heads=4 masked");
    assert_ptr_equal(y->node->in[1], x);
    assert_int_equal(lks_graph_line(g, qkv, "attention heads=4")->node->in_count, 1);
    /* Of recurrent layers it always does, in each layer and direction. */
    y = lks_gru(g, qkv,
                &(lks_recurrent_opts){.hidden = 3, .layers = 2, .masked = true, .padding = 8});
    expect_print(y, "hidden=3 masked padding=8");
    assert_ptr_equal(y->node->in[1], x);
    assert_ptr_equal(y->node->in[0]->node->in[1], x);
    y = lks_graph_line(g, qkv, "lstm hidden=3 masked bidirectional");
    for (int i = 0; i < 2; i++) assert_ptr_equal(y->node->in[i]->node->in[1], x);
    assert_int_equal(lks_rnn(g, qkv, &(lks_recurrent_opts){.hidden = 3})->node->in_count, 1);
    LKT_OK(lks_graph_status(g));
    lks_graph_destroy(g);
}

static void initialisers_are_printed(void **state)
{
    static const struct {
        lks_init init;
        const char *print;
    } list[] = {
        {{.kind = LKS_INIT_DEFAULT}, "units=2"},
        {{.kind = LKS_INIT_ONES}, "units=2 weight_init=ones"},
        {{.kind = LKS_INIT_NORMAL, .scale = 0.1f}, "units=2 weight_init=normal:0.1"},
        {{.kind = LKS_INIT_CONSTANT}, "units=2 weight_init=constant:0"},
        {{.kind = LKS_INIT_CONSTANT, .value = -0.3f}, "units=2 weight_init=constant:-0.3"},
        {{.kind = LKS_INIT_KAIMING_UNIFORM}, "units=2 weight_init=kaiming_uniform"},
        {{.kind = LKS_INIT_KAIMING_UNIFORM, .slope = 0.01f, .fan_out = true},
         "units=2 weight_init=kaiming_uniform:0.01:fan_out"},
        {{.kind = LKS_INIT_XAVIER_UNIFORM, .gain = 1.0f}, "units=2 weight_init=xavier_uniform"},
        {{.kind = LKS_INIT_XAVIER_NORMAL, .gain = 1.4f}, "units=2 weight_init=xavier_normal:1.4"},
        {{.kind = LKS_INIT_IDENTITY}, "units=2 weight_init=identity"},
    };
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(3));
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lks_tensor *y = lks_dense(g, x, &(lks_dense_opts){.units = 2, .weight_init = list[i].init});
        LKT_OK(lks_graph_status(g));
        expect_print(y, list[i].print);
    }
    lks_graph_destroy(g);
}

/* The last dimensions' shape; of a whole image PyTorch's. */
static void shapes_of_layer_norm(void **state)
{
    static const struct {
        lks_shape in;
        int dims;
        const char *print, *parameters;
    } list[] = {
        {{3, {4, 6, 3}}, 1, "", "3"},
        {{3, {4, 6, 3}}, 2, "dims=2", "6x3"},
        {{3, {4, 6, 3}}, 3, "dims=3", "3x4x6"},
        {{4, {2, 4, 6, 3}}, 3, "dims=3", "4x6x3"},
        {{4, {2, 4, 6, 3}}, 4, "dims=4", "2x4x6x3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lks_graph *g = NULL;
        char before[64], after[64];

        LKT_OK(lks_graph_create(&g, context));
        lks_tensor *x = lks_layer_norm(g, input(g, list[i].in),
                                       &(lks_layer_norm_opts){.dims = list[i].dims});
        LKT_OK(lks_graph_status(g));
        assert_string_equal(lki_shape_print(&list[i].in, before, sizeof before),
                            lki_shape_print(&x->shape, after, sizeof after));
        expect_print(x, list[i].print);
        for (int k = 0; k < 2; k++)
            expect_param(x, k, k == 0 ? "weight" : "bias", list[i].parameters, 1, 1);
        lks_graph_destroy(g);
    }
}

static void layers_without_parameters(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(9, 8, 5));
    lks_tensor *y = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {2, 2}});
    expect_shape(y, "4x4x5");
    expect_print(y, "kernel=2x2");
    y = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 0}});
    expect_shape(y, "5x4x5");
    expect_print(y, "kernel=3x2 stride=2 padding=1x0");
    y = lks_avg_pool(g, x, &(lks_pool_opts){.kernel = {3, 3}, .stride = {1, 3}, .padding = {1, 1}});
    expect_shape(y, "9x3x5");
    expect_print(y, "kernel=3x3 stride=1x3 padding=1");
    y = lks_avg_pool(
        g, x, &(lks_pool_opts){.kernel = {2, 2}, .padding = {1, 1}, .exclude_padding = true});
    expect_shape(y, "5x5x5");
    expect_print(y, "kernel=2x2 padding=1 exclude_padding");
    y = lks_concat(g, x, lks_concat(g, x, lks_relu(g, x)));
    expect_shape(y, "9x8x15");
    expect_print(y, "");
    y = lks_global_avg_pool(g, x);
    expect_shape(y, "5");
    expect_shape(lks_relu(g, x), "9x8x5");
    expect_shape(lks_relu6(g, x), "9x8x5");
    expect_shape(lks_add(g, x, lks_relu(g, x)), "9x8x5");
    lks_tensor *vector = lks_global_avg_pool(g, x);
    expect_shape(lks_add(g, x, vector), "9x8x5");
    lks_tensor *product = lks_mul(g, vector,
                                  x); /* the vector is the second operand, in either order */
    expect_shape(product, "9x8x5");
    assert_ptr_equal(product->node->in[0], x);
    assert_ptr_equal(product->node->in[1], vector);
    expect_print(product, "");
    expect_shape(lks_mul(g, vector, vector), "5");
    expect_shape(lks_flatten(g, x), "360");
    expect_shape(lks_log_softmax(g, y), "5");
    y = lks_dropout(g, y, &(lks_dropout_opts){.probability = 0.1f});
    expect_shape(y, "5");
    expect_print(y, "probability=0.1");
    lks_tensor *t = lks_target(g, &(lks_target_opts){.classes = 5});
    lks_tensor *loss = lks_cross_entropy(g, y, t, NULL);
    expect_shape(loss, "one number");
    expect_print(loss, "");
    expect_print(lks_cross_entropy(g, y, t, &(lks_cross_entropy_opts){.label_smoothing = 0.1f}),
                 "label_smoothing=0.1");
    expect_shape(lks_nll(g, y, t), "one number");
    LKT_OK(lks_graph_status(g));
    lks_graph_destroy(g);
}

static void activations(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(9, 8, 5));
    expect_shape(lks_silu(g, x), "9x8x5");
    expect_shape(lks_softplus(g, x), "9x8x5");
    expect_print(lks_gelu(g, x, NULL), "");
    expect_print(lks_gelu(g, x, &(lks_gelu_opts){.form = LKS_GELU_TANH}), "form=tanh");
    lks_tensor *y = lks_leaky_relu(g, x, NULL);
    assert_true(((const lks_leaky_relu_opts *)y->node->attr)->slope == 0.01f);
    expect_print(y, "");
    expect_print(lks_leaky_relu(g, x, &(lks_leaky_relu_opts){.slope = 0.2f}), "slope=0.2");
    expect_print(lks_scale(g, x, &(lks_scale_opts){.factor = -0.5f}), "factor=-0.5");
    LKT_OK(lks_graph_status(g));
    lks_graph_destroy(g);
}

/* As many constants as there are channels: kept, printed, and found by both kernels. */
static void constants_of_many_channels(void **state)
{
    enum { CHANNELS = 300 };
    float mean[CHANNELS], std[CHANNELS];
    char text[24 * CHANNELS], again[40];
    lks_graph *g = NULL;

    (void)state;
    for (int c = 0; c < CHANNELS; c++) {
        mean[c] = (float)c / 512.0f;
        std[c] = 0.25f + (float)(c % 4);
    }
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(2, CHANNELS));
    lks_tensor *y = lks_normalize(
        g, x, &(lks_normalize_opts){.count = CHANNELS, .mean = mean, .std = std});
    LKT_OK(lks_graph_status(g));
    mean[0] = std[299] = 9.0f; /* the graph has its own */
    const lks_normalize_opts *kept = y->node->attr;
    assert_true(kept->mean[0] == 0.0f && kept->mean[299] == 299.0f / 512.0f);
    assert_true(kept->std[299] == 3.25f);
    const size_t length = lki_node_print(y->node, text, sizeof text);
    assert_int_equal(strlen(text), length);
    assert_non_null(strstr(text, ",0.5839844 std=0.25,1.25,"));
    /* Where not all have room, the first ones stand, and how many more there are. */
    assert_true(lki_node_print(y->node, again, sizeof again) < length);
    assert_memory_equal(again, text, sizeof again - 1);
    lks_graph_destroy(g);
}

/* A print into little room is cut off, never written past. */
static void printing_respects_the_room(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = input(g, LKS_SHAPE(9, 9, 1));
    lks_tensor *y = lks_conv2d(
        g, x, &(lks_conv2d_opts){.filters = 3, .kernel = {3, 3}, .padding = {1, 1}});
    for (size_t size = 1; size < 40; size++) {
        char text[64];

        memset(text, 'x', sizeof text);
        lki_node_print(y->node, text, size);
        assert_true(strlen(text) < size);
        assert_true(text[size] == 'x');
    }
    lks_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_and_targets),         cmocka_unit_test(convolutions),
        cmocka_unit_test(layers_with_parameters),     cmocka_unit_test(shapes_of_layer_norm),
        cmocka_unit_test(attention_of_heads),         cmocka_unit_test(initialisers_are_printed),
        cmocka_unit_test(layers_without_parameters),  cmocka_unit_test(activations),
        cmocka_unit_test(constants_of_many_channels), cmocka_unit_test(printing_respects_the_room),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
