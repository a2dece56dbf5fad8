/* Operations from golden files. */
#include "support/op_json.h"

#include <stdlib.h>
#include <string.h>

static float number(const json_t *test, const char *key)
{
    return (float)lkt_json_number(test, key);
}

static void pair(const json_t *test, const char *key, int64_t out[2])
{
    for (size_t i = 0; i < 2; i++)
        out[i] = json_integer_value(json_array_get(json_object_get(test, key), i));
}

static lks_tensor *build_conv2d(lks_graph *g, lks_tensor *x, const json_t *test)
{
    lks_conv2d_opts opts = {.filters = lkt_json_integer(test, "filters"),
                            .groups = lkt_json_integer(test, "groups"),
                            .no_bias = json_is_true(json_object_get(test, "no_bias"))};

    pair(test, "kernel", opts.kernel);
    pair(test, "stride", opts.stride);
    pair(test, "padding", opts.padding);
    pair(test, "dilation", opts.dilation);
    return lks_conv2d(g, x, &opts);
}

static lks_tensor *build_pool(lks_graph *g, lks_tensor *x, const json_t *test, bool max)
{
    lks_pool_opts opts = {0};

    pair(test, "kernel", opts.kernel);
    pair(test, "stride", opts.stride);
    pair(test, "padding", opts.padding);
    opts.exclude_padding = json_is_true(json_object_get(test, "exclude_padding"));
    return max ? lks_max_pool(g, x, &opts) : lks_avg_pool(g, x, &opts);
}

/* The second tensor is made by a layer that gives the channels; its values are set as an input's. */
static lks_tensor *build_concat(lks_graph *g, lks_tensor *x, const json_t *test)
{
    const int64_t channels = lkt_json_integer(test, "channels");
    lks_tensor *y;

    if (lks_tensor_shape(x).ndim == 1)
        y = lks_dense(g, x, &(lks_dense_opts){.units = channels});
    else
        y = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = channels, .kernel = {1, 1}});
    return lks_concat(g, x, y);
}

/* The second operand's values are set as an input's, whatever makes it. */
static lks_tensor *build_pair(lks_graph *g, lks_tensor *x, const json_t *test, bool product)
{
    const json_t *with = json_object_get(test, "with");
    const int64_t last = json_integer_value(json_array_get(with, json_array_size(with) - 1));
    lks_tensor *y = lks_relu(g, x);

    if ((int)json_array_size(with) != lks_tensor_shape(x).ndim)
        y = lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = last});
    return product ? lks_mul(g, x, y) : lks_add(g, x, y);
}

static lks_tensor *build_gelu(lks_graph *g, lks_tensor *x, const json_t *test)
{
    const bool tanh_form = json_object_get(test, "form") != NULL;

    return lks_gelu(g, x, &(lks_gelu_opts){.form = tanh_form ? LKS_GELU_TANH : LKS_GELU_ERF});
}

static lks_tensor *build_recurrent(lks_graph *g, lks_tensor *x, const json_t *test, const char *op)
{
    const lks_recurrent_opts opts = {.hidden = lkt_json_integer(test, "hidden"),
                                     .reverse = json_is_true(json_object_get(test, "reverse")),
                                     .nonlinearity = json_object_get(test, "nonlinearity") != NULL
                                                         ? LKS_NONLINEARITY_RELU
                                                         : LKS_NONLINEARITY_TANH};

    if (strcmp(op, "lstm") == 0) return lks_lstm(g, x, &opts);
    if (strcmp(op, "gru") == 0) return lks_gru(g, x, &opts);
    return lks_rnn(g, x, &opts);
}

static lks_tensor *build_attention(lks_graph *g, lks_tensor *x, const json_t *test)
{
    lks_tensor *tokens = x->node->op == LKI_OP_EMBEDDING ? x->node->in[0] : NULL;

    return lks_attention(
        g, x, tokens,
        &(lks_attention_opts){.heads = lkt_json_integer(test, "heads"),
                              .kv_heads = lkt_json_integer(test, "kv_heads"),
                              .causal = json_is_true(json_object_get(test, "causal")),
                              .rotary = number(test, "rotary"),
                              .padding = lkt_json_integer(test, "padding")});
}

static lks_tensor *build(lks_graph *g, lks_tensor *x, const json_t *test)
{
    const char *op = json_string_value(json_object_get(test, "op"));
    const lks_shape shape = lks_tensor_shape(x);
    lks_tensor *target = NULL;

    if (json_object_get(test, "hidden") != NULL) return build_recurrent(g, x, test, op);
    if (json_object_get(test, "heads") != NULL) return build_attention(g, x, test);
    if (strcmp(op, "mse") == 0 || strcmp(op, "l1") == 0 || strcmp(op, "huber") == 0)
        target = lks_target(g, &(lks_target_opts){.shape = shape});
    else
        target = lks_target(g, &(lks_target_opts){.classes = shape.dim[0]});
    if (strcmp(op, "conv2d") == 0) return build_conv2d(g, x, test);
    if (strcmp(op, "dense") == 0)
        return lks_dense(
            g, x,
            &(lks_dense_opts){.units = lkt_json_integer(test, "units"),
                              .no_bias = json_is_true(json_object_get(test, "no_bias"))});
    if (strcmp(op, "batch_norm") == 0)
        return lks_batch_norm(g, x,
                              &(lks_batch_norm_opts){.momentum = number(test, "momentum"),
                                                     .epsilon = number(test, "epsilon")});
    if (strcmp(op, "layer_norm") == 0)
        return lks_layer_norm(
            g, x,
            &(lks_layer_norm_opts){.dims = (int)lkt_json_integer(test, "dims"),
                                   .epsilon = number(test, "epsilon"),
                                   .no_affine = json_is_true(json_object_get(test, "no_affine")),
                                   .no_bias = json_is_true(json_object_get(test, "no_bias"))});
    if (strcmp(op, "rms_norm") == 0)
        return lks_rms_norm(
            g, x,
            &(lks_rms_norm_opts){.epsilon = number(test, "epsilon"),
                                 .no_affine = json_is_true(json_object_get(test, "no_affine"))});
    if (strcmp(op, "position") == 0)
        return lks_position(g, x,
                            &(lks_position_opts){
                                .form = json_object_get(test, "form") != NULL
                                            ? LKS_POSITION_SINUSOIDAL
                                            : LKS_POSITION_LEARNED,
                                .class_token = json_is_true(json_object_get(test, "class_token"))});
    if (strcmp(op, "concat") == 0) return build_concat(g, x, test);
    if (strcmp(op, "max_pool") == 0) return build_pool(g, x, test, true);
    if (strcmp(op, "avg_pool") == 0) return build_pool(g, x, test, false);
    if (strcmp(op, "global_avg_pool") == 0) return lks_global_avg_pool(g, x);
    if (strcmp(op, "sequence") == 0) return lks_sequence(g, x);
    if (strcmp(op, "select") == 0)
        return lks_select(g, x, &(lks_select_opts){.position = lkt_json_integer(test, "position")});
    if (strcmp(op, "relu") == 0) return lks_relu(g, x);
    if (strcmp(op, "relu6") == 0) return lks_relu6(g, x);
    if (strcmp(op, "leaky_relu") == 0)
        return lks_leaky_relu(g, x, &(lks_leaky_relu_opts){.slope = number(test, "slope")});
    if (strcmp(op, "gelu") == 0) return build_gelu(g, x, test);
    if (strcmp(op, "silu") == 0) return lks_silu(g, x);
    if (strcmp(op, "softplus") == 0) return lks_softplus(g, x);
    if (strcmp(op, "tanh") == 0) return lks_tanh(g, x);
    if (strcmp(op, "sigmoid") == 0) return lks_sigmoid(g, x);
    if (strcmp(op, "scale") == 0)
        return lks_scale(g, x, &(lks_scale_opts){.factor = number(test, "factor")});
    if (strcmp(op, "dropout") == 0)
        return lks_dropout(g, x, &(lks_dropout_opts){.probability = number(test, "probability")});
    if (strcmp(op, "add") == 0) return build_pair(g, x, test, false);
    if (strcmp(op, "mul") == 0) return build_pair(g, x, test, true);
    if (strcmp(op, "flatten") == 0) return lks_flatten(g, x);
    if (strcmp(op, "log_softmax") == 0) return lks_log_softmax(g, x);
    if (strcmp(op, "cross_entropy") == 0)
        return lks_cross_entropy(
            g, x, target,
            &(lks_cross_entropy_opts){.label_smoothing = number(test, "label_smoothing")});
    if (strcmp(op, "nll") == 0) return lks_nll(g, x, target);
    if (strcmp(op, "l1") == 0) return lks_l1(g, x, target);
    if (strcmp(op, "huber") == 0)
        return lks_huber(g, x, target, &(lks_huber_opts){.delta = number(test, "delta")});
    assert_string_equal(op, "mse");
    return lks_mse(g, x, target);
}

lks_tensor *lkt_json_op(lks_graph *graph, const json_t *test)
{
    const json_t *in = json_object_get(test, "in");
    lks_input_opts opts = {.shape.ndim = (int)json_array_size(in)};

    for (size_t i = 0; i < json_array_size(in); i++)
        opts.shape.dim[i] = json_integer_value(json_array_get(in, i));
    if (json_object_get(test, "vocabulary") == NULL)
        return build(graph, lks_input(graph, &opts), test);
    lks_tensor *tokens = lks_input(
        graph, &(lks_input_opts){.shape = LKS_SHAPE(opts.shape.dim[0]),
                                 .dtype = LKS_I32,
                                 .vocabulary = lkt_json_integer(test, "vocabulary")});
    const lks_embedding_opts table = {.units = opts.shape.dim[1]};
    return build(graph, lks_embedding(graph, tokens, &table), test);
}
