/* Shapes, parameters, costs, printed attributes and the sentence of every refusal. */
#include <math.h>
#include <string.h>

#include "base/random.h"
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

    lki_op_get(t->node->op)->print(t->node, text, sizeof text);
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
        g, x, &(lks_normalize_opts){.count = 1, .mean = {0.1307f}, .std = {0.3081f}});
    expect_shape(n, "28x28x1");
    assert_int_equal(lks_tensor_dtype(n), LKS_F32);
    expect_print(n, "mean=0.1307 std=0.3081");
    assert_false(n->node->needs_gradient);
    lks_graph_destroy(g);

    LKT_OK(lks_graph_create(&g, context));
    x = input(g, LKS_SHAPE(2, 3));
    t = lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2, 3)});
    n = lks_normalize(
        g, x,
        &(lks_normalize_opts){.count = 3, .mean = {1.0f, -2.5f, 0.0f}, .std = {1.0f, 0.1f, 3.0f}});
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
        lki_op_get(y->node->op)->print(y->node, text, size);
        assert_true(strlen(text) < size);
        assert_true(text[size] == 'x');
    }
    lks_graph_destroy(g);
}

/* Each refusal: what is built, on which input, and the sentence. */
typedef struct refusal {
    lks_tensor *(*build)(lks_graph *g, lks_tensor *x);
    lks_shape in;
    lks_dtype dtype;
    lks_status status;
    const char *part;
} refusal;

#define BUILDER(name, expression)                                                                  \
    static lks_tensor *name(lks_graph *g, lks_tensor *x)                                           \
    {                                                                                              \
        (void)x;                                                                                   \
        return expression;                                                                         \
    }
#define CONV(...)  lks_conv2d(g, x, &(lks_conv2d_opts){__VA_ARGS__})
#define DENSE(...) lks_dense(g, x, &(lks_dense_opts){__VA_ARGS__})
#define POOL(...)  lks_max_pool(g, x, &(lks_pool_opts){__VA_ARGS__})
#define NORM(...)  lks_batch_norm(g, x, &(lks_batch_norm_opts){__VA_ARGS__})
#define CONST(...) lks_normalize(g, x, &(lks_normalize_opts){__VA_ARGS__})

BUILDER(conv, CONV(.filters = 2, .kernel = {3, 3}))
BUILDER(conv_filters, CONV(.kernel = {3, 3}))
BUILDER(conv_kernel, CONV(.filters = 2, .kernel = {3, 0}))
BUILDER(conv_stride, CONV(.filters = 2, .kernel = {3, 3}, .stride = {-1, 1}))
BUILDER(conv_padding, CONV(.filters = 2, .kernel = {3, 3}, .padding = {0, -2}))
BUILDER(conv_dilation, CONV(.filters = 2, .kernel = {3, 3}, .dilation = {4, 4}))
BUILDER(conv_huge, CONV(.filters = 2, .kernel = {3, 3}, .padding = {INT64_MAX, 1}))
BUILDER(conv_groups, CONV(.filters = 4, .kernel = {3, 3}, .groups = 2))
BUILDER(conv_many_groups, CONV(.filters = 4, .kernel = {3, 3}, .groups = 4))
BUILDER(conv_init, CONV(.filters = 2, .kernel = {1, 1}, .weight_init = {.kind = LKS_INIT_NORMAL}))
BUILDER(conv_kind, CONV(.filters = 2, .kernel = {1, 1}, .bias_init = {.kind = (lks_init_kind)99}))
BUILDER(conv_weights, CONV(.filters = 1 << 24, .kernel = {8, 8}))
BUILDER(conv_outputs, CONV(.filters = 1 << 24, .kernel = {1, 1}, .padding = {1 << 10, 1 << 10}))
BUILDER(dense, DENSE(.units = 3))
BUILDER(dense_units, DENSE(.units = -4))
BUILDER(dense_weights, DENSE(.units = INT32_MAX))
BUILDER(dense_init, DENSE(.units = 3, .bias_init = {.kind = LKS_INIT_UNIFORM, .scale = -1.0f}))
BUILDER(norm, NORM(0))
BUILDER(norm_momentum, NORM(.momentum = 1.5f))
BUILDER(norm_epsilon, NORM(.epsilon = -1e-5f))
BUILDER(pool, POOL(.kernel = {2, 2}))
BUILDER(pool_kernel, POOL(.kernel = {0, 2}))
BUILDER(pool_padding, POOL(.kernel = {3, 3}, .padding = {1, 2}))
BUILDER(pool_stride, POOL(.kernel = {3, 3}, .stride = {1, -1}))
BUILDER(average, lks_avg_pool(g, x, &(lks_pool_opts){.kernel = {9, 9}}))
BUILDER(global, lks_global_avg_pool(g, x))
BUILDER(relu, lks_relu(g, x))
BUILDER(flatten, lks_flatten(g, x))
BUILDER(softmax, lks_log_softmax(g, x))
BUILDER(join, lks_concat(g, x, lks_max_pool(g, x, &(lks_pool_opts){.kernel = {1, 2}})))
BUILDER(join_flat, lks_concat(g, x, lks_flatten(g, x)))
BUILDER(join_huge, lks_concat(g, x, lks_relu(g, x)))
BUILDER(layer_dims, lks_layer_norm(g, x, &(lks_layer_norm_opts){.dims = 4}))
BUILDER(layer_less, lks_layer_norm(g, x, &(lks_layer_norm_opts){.dims = -1}))
BUILDER(layer_epsilon, lks_layer_norm(g, x, &(lks_layer_norm_opts){.epsilon = NAN}))
BUILDER(pool_exclude, POOL(.kernel = {2, 2}, .exclude_padding = true))
BUILDER(init_identity, DENSE(.units = 3, .bias_init = {.kind = LKS_INIT_IDENTITY}))
BUILDER(init_value, DENSE(.units = 3, .weight_init = {.kind = LKS_INIT_CONSTANT, .value = NAN}))
BUILDER(init_gain, DENSE(.units = 3, .weight_init = {.kind = LKS_INIT_XAVIER_NORMAL, .gain = -2}))
BUILDER(init_slope,
        DENSE(.units = 3, .weight_init = {.kind = LKS_INIT_KAIMING_NORMAL, .slope = INFINITY}))
BUILDER(sum, lks_add(g, x, lks_flatten(g, x)))
BUILDER(product, lks_mul(g, x, lks_flatten(g, x)))
BUILDER(gelu, lks_gelu(g, x, NULL))
BUILDER(gelu_form, lks_gelu(g, x, &(lks_gelu_opts){.form = (lks_gelu_form)7}))
BUILDER(leaky_slope, lks_leaky_relu(g, x, &(lks_leaky_relu_opts){.slope = -1.0f}))
BUILDER(scale_nothing, lks_scale(g, x, NULL))
BUILDER(scale_nan, lks_scale(g, x, &(lks_scale_opts){.factor = NAN}))
BUILDER(drop_more, lks_dropout(g, x, &(lks_dropout_opts){.probability = 1.0f}))
BUILDER(drop_less, lks_dropout(g, x, &(lks_dropout_opts){.probability = -0.1f}))
BUILDER(drop_nan, lks_dropout(g, x, &(lks_dropout_opts){.probability = NAN}))
BUILDER(drop_nearly, lks_dropout(g, x, &(lks_dropout_opts){.probability = 0.999999f}))
BUILDER(constant_count, CONST(.count = 2, .std = {1.0f, 1.0f}))
BUILDER(constant_none, CONST(0))
BUILDER(constant_std, CONST(.count = 1, .mean = {0.5f}))
BUILDER(constant_mean, CONST(.count = 1, .mean = {INFINITY}, .std = {1.0f}))
BUILDER(constant_late, lks_normalize(g, lks_batch_norm(g, x, NULL),
                                     &(lks_normalize_opts){.count = 1, .std = {1.0f}}))
BUILDER(entropy, lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 7}), NULL))
BUILDER(entropy_floats,
        lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(10)}), NULL))
BUILDER(entropy_smoothing, lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 10}),
                                             &(lks_cross_entropy_opts){.label_smoothing = 1.1f}))
BUILDER(nll, lks_nll(g, x, lks_target(g, &(lks_target_opts){.classes = 10})))
BUILDER(squares, lks_mse(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2, 5)})))
BUILDER(squares_classes, lks_mse(g, x, lks_target(g, &(lks_target_opts){.classes = 10})))
BUILDER(target_nothing, lks_target(g, NULL))
BUILDER(target_both, lks_target(g, &(lks_target_opts){.classes = 3, .shape = LKS_SHAPE(3)}))
BUILDER(target_classes, lks_target(g, &(lks_target_opts){.classes = -3}))
BUILDER(target_shape, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(3, 0)}))

#define IMAGE                                                                                      \
    {                                                                                              \
        3,                                                                                         \
        {                                                                                          \
            8, 6, 3                                                                                \
        }                                                                                          \
    }
#define VECTOR                                                                                     \
    {                                                                                              \
        1,                                                                                         \
        {                                                                                          \
            10                                                                                     \
        }                                                                                          \
    }

static const refusal refusals[] = {
    {conv, VECTOR, 0, LKS_E_SHAPE,
     "conv2d 'conv2d_1': input has 1 dimension, expected 3 (height, width, channels)"},
    {conv, IMAGE, LKS_U8, LKS_E_SHAPE,
     "conv2d 'conv2d_1': input 'input_1' is U8, expected F32; lks_normalize() it first"},
    {conv,
     {3, {2, 2, 1}},
     0,
     LKS_E_SHAPE,
     "conv2d 'conv2d_1': the kernel covers a height of 3, but the input has 2 with its padding"},
    {conv_filters, IMAGE, 0, LKS_E_INVALID, "filters is 0, expected at least 1"},
    {conv_kernel, IMAGE, 0, LKS_E_INVALID, "kernel is 0, expected at least 1"},
    {conv_stride, IMAGE, 0, LKS_E_INVALID, "stride is -1, expected at least 1"},
    {conv_padding, IMAGE, 0, LKS_E_INVALID, "padding is -2, expected at least 0"},
    {conv_dilation, IMAGE, 0, LKS_E_SHAPE, "covers a height of 9, but the input has 8"},
    {conv_huge, IMAGE, 0, LKS_E_INVALID, "expected at most 16777216"},
    {conv_groups, IMAGE, 0, LKS_E_INVALID,
     "groups is 2, which does not divide both the input's 3 channels and the 4 filters"},
    {conv_many_groups, IMAGE, 0, LKS_E_INVALID, "groups is 4, expected at most 3"},
    {conv_init, IMAGE, 0, LKS_E_INVALID, "weight_init has scale 0, expected a positive number"},
    {conv_kind, IMAGE, 0, LKS_E_INVALID, "bias_init is 99, which is no kind of initialisation"},
    {conv_weights, {3, {8, 8, 3}}, 0, LKS_E_SHAPE, "weight has more than 2147483647 elements"},
    {conv_outputs, IMAGE, 0, LKS_E_SHAPE, "the output has more than 2147483647 elements"},
    {dense, IMAGE, 0, LKS_E_SHAPE,
     "dense 'dense_1': input has 3 dimensions, expected 1; lks_flatten() it first"},
    {dense_units, VECTOR, 0, LKS_E_INVALID, "units is -4, expected at least 1"},
    {dense_weights, VECTOR, 0, LKS_E_SHAPE, "weight has more than 2147483647 elements"},
    {dense_init, VECTOR, 0, LKS_E_INVALID, "bias_init has scale -1, expected a positive number"},
    {norm, {2, {4, 4}}, 0, LKS_E_SHAPE, "input has 2 dimensions, expected 3"},
    {norm_momentum, VECTOR, 0, LKS_E_INVALID, "momentum is 1.5, expected more than 0, at most 1"},
    {norm_epsilon, VECTOR, 0, LKS_E_INVALID, "epsilon is -1e-05, expected a positive number"},
    {pool, VECTOR, 0, LKS_E_SHAPE, "max_pool 'max_pool_1': input has 1 dimension, expected 3"},
    {pool_kernel, IMAGE, 0, LKS_E_INVALID, "kernel is 0, expected at least 1"},
    {pool_padding, IMAGE, 0, LKS_E_INVALID, "padding is 2, expected at most half the kernel of 3"},
    {pool_stride, IMAGE, 0, LKS_E_INVALID, "stride is -1, expected at least 1"},
    {average, IMAGE, 0, LKS_E_SHAPE, "avg_pool 'avg_pool_1': the kernel covers a height of 9"},
    {global, VECTOR, 0, LKS_E_SHAPE, "global_avg_pool 'global_avg_pool_1': input has 1 dimension"},
    {relu, IMAGE, LKS_U8, LKS_E_SHAPE, "relu 'relu_1': input 'input_1' is U8, expected F32"},
    {flatten, IMAGE, LKS_U8, LKS_E_SHAPE, "flatten 'flatten_1': input 'input_1' is U8"},
    {softmax, IMAGE, 0, LKS_E_SHAPE, "log_softmax 'log_softmax_1': input has 3 dimensions"},
    {sum, IMAGE, 0, LKS_E_SHAPE,
     "add 'add_1': 'input_1' is 8x6x3, but 'flatten_1' is 144; shapes must be equal"},
    {join, IMAGE, 0, LKS_E_SHAPE,
     "concat 'concat_1': 'input_1' is 8x6x3, but 'max_pool_1' is 8x3x3; shapes must be equal but "
     "for the last dimension, the channels"},
    {join_flat, IMAGE, 0, LKS_E_SHAPE, "'input_1' is 8x6x3, but 'flatten_1' is 144"},
    {join_huge, {1, {1 << 30}}, 0, LKS_E_SHAPE, "the output has more than 2147483647 elements"},
    {layer_dims, IMAGE, 0, LKS_E_INVALID,
     "layer_norm 'layer_norm_1': dims is 4, expected 1 to 3, the dimensions of input 'input_1'"},
    {layer_less, IMAGE, 0, LKS_E_INVALID, "dims is -1, expected 1 to 3"},
    {layer_epsilon, IMAGE, 0, LKS_E_INVALID, "epsilon is nan, expected a positive number"},
    {pool_exclude, IMAGE, 0, LKS_E_INVALID,
     "max_pool 'max_pool_1': exclude_padding is set, but padding never wins a maximum; drop it"},
    {init_identity, VECTOR, 0, LKS_E_INVALID,
     "dense 'dense_1': bias_init is identity, which is for weights; use zeros"},
    {init_value, VECTOR, 0, LKS_E_INVALID, "weight_init has value nan, expected a finite number"},
    {init_gain, VECTOR, 0, LKS_E_INVALID, "weight_init has gain -2, expected a positive number"},
    {init_slope, VECTOR, 0, LKS_E_INVALID, "weight_init has slope inf, expected a finite number"},
    {product, IMAGE, 0, LKS_E_SHAPE,
     "mul 'mul_1': 'input_1' is 8x6x3, but 'flatten_1' is 144; shapes must be equal, or one a "
     "vector with a value for each channel of the other"},
    {gelu, IMAGE, LKS_U8, LKS_E_SHAPE, "gelu 'gelu_1': input 'input_1' is U8, expected F32"},
    {gelu_form, VECTOR, 0, LKS_E_INVALID, "form is 7, expected LKS_GELU_ERF or _TANH"},
    {leaky_slope, VECTOR, 0, LKS_E_INVALID, "slope is -1, expected a positive number"},
    {scale_nothing, VECTOR, 0, LKS_E_INVALID, "factor is 0, expected a finite number but 0"},
    {scale_nan, VECTOR, 0, LKS_E_INVALID, "factor is nan, expected a finite number but 0"},
    {drop_more, VECTOR, 0, LKS_E_INVALID, "probability is 1, expected at least 0, less than 1"},
    {drop_less, VECTOR, 0, LKS_E_INVALID, "probability is -0.1, expected at least 0"},
    {drop_nan, VECTOR, 0, LKS_E_INVALID, "probability is nan, expected at least 0"},
    {drop_nearly, VECTOR, 0, LKS_E_INVALID, "which is 1 in the 16 bits drawn; use at most 0.99998"},
    {constant_count, IMAGE, 0, LKS_E_INVALID,
     "count is 2, expected 1 or the number of channels, 3"},
    {constant_none, IMAGE, 0, LKS_E_INVALID, "count is 0, expected 1 or the number of channels, 3"},
    {constant_std, IMAGE, 0, LKS_E_INVALID, "std[0] is 0, expected a positive number"},
    {constant_mean, IMAGE, 0, LKS_E_INVALID, "mean[0] is inf, expected a finite number"},
    {constant_late, IMAGE, 0, LKS_E_INVALID, "no gradient passes normalize; put it right after"},
    {entropy, IMAGE, 0, LKS_E_SHAPE, "input has 3 dimensions, expected 1"},
    {entropy, VECTOR, 0, LKS_E_SHAPE,
     "cross_entropy 'cross_entropy_1': input 'input_1' has 10 values, but target 'target_1' has 7 "
     "classes; they must be equal"},
    {entropy_floats, VECTOR, 0, LKS_E_SHAPE,
     "target 'target_1' has floats, expected classes; give it .classes = 10"},
    {entropy_smoothing, VECTOR, 0, LKS_E_INVALID, "label_smoothing is 1.1, expected 0 to 1"},
    {nll, {1, {9}}, 0, LKS_E_SHAPE, "nll 'nll_1': input 'input_1' has 9 values"},
    {squares, VECTOR, 0, LKS_E_SHAPE, "input 'input_1' is 10, but target 'target_1' is 2x5"},
    {squares_classes, VECTOR, 0, LKS_E_SHAPE, "has classes, expected floats; give it a .shape"},
    {target_nothing, VECTOR, 0, LKS_E_INVALID, "neither classes nor a shape is given"},
    {target_both, VECTOR, 0, LKS_E_INVALID, "both classes and a shape are given"},
    {target_classes, VECTOR, 0, LKS_E_INVALID, "classes is -3, expected at least 1"},
    {target_shape, VECTOR, 0, LKS_E_SHAPE, "dimension 1 of the shape is 0, expected at least 1"},
    {relu, {0, {0}}, 0, LKS_E_SHAPE, "the shape has 0 dimensions, expected 1 to 5"},
    {relu, {6, {1, 1, 1, 1, 1}}, 0, LKS_E_SHAPE, "the shape has 6 dimensions, expected 1 to 5"},
    {relu, {2, {3, -1}}, 0, LKS_E_SHAPE, "dimension 1 of the shape is -1, expected at least 1"},
    {relu, {3, {1 << 16, 1 << 15, 1}}, 0, LKS_E_SHAPE, "more than 2147483647 elements"},
    {relu, VECTOR, LKS_I64, LKS_E_INVALID, "input 'input_1': dtype is I64, expected F32 or U8"},
};

static void wrong_attributes_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        lks_graph *g = NULL;

        LKT_OK(lks_graph_create(&g, context));
        lks_tensor *x = lks_input(
            g, &(lks_input_opts){.shape = refusals[i].in, .dtype = refusals[i].dtype});
        assert_null(refusals[i].build(g, x));
        LKT_FAILS(refusals[i].status, refusals[i].part, lks_graph_status(g));
        lks_graph_destroy(g);
    }
}

/* The largest probability that the sentence allows is allowed. */
static void nearly_all_may_be_dropped(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_OK(lks_graph_create(&g, context));
    assert_non_null(
        lks_dropout(g, input(g, LKS_SHAPE(3)), &(lks_dropout_opts){.probability = 0.99998f}));
    assert_true(lki_bernoulli_make(0.99998f).probability < 1.0);
    lks_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_and_targets),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(layers_with_parameters),
        cmocka_unit_test(shapes_of_layer_norm),
        cmocka_unit_test(initialisers_are_printed),
        cmocka_unit_test(layers_without_parameters),
        cmocka_unit_test(activations),
        cmocka_unit_test(printing_respects_the_room),
        cmocka_unit_test(wrong_attributes_are_refused),
        cmocka_unit_test(nearly_all_may_be_dropped),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
