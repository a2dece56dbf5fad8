/* The sentence of every refusal of an operation. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/graph.h"
#include "numeric/random.h"
#include "op/recurrent.h"
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
BUILDER(pool_wide, POOL(.kernel = {3, 3}, .padding = {INT64_MAX, 1}))
BUILDER(pool_stride, POOL(.kernel = {3, 3}, .stride = {1, -1}))
BUILDER(average, lks_avg_pool(g, x, &(lks_pool_opts){.kernel = {9, 9}}))
BUILDER(global, lks_global_avg_pool(g, x))
BUILDER(relu, lks_relu(g, x))
BUILDER(relu6, lks_relu6(g, x))
BUILDER(softplus, lks_softplus(g, x))
BUILDER(flatten, lks_flatten(g, x))
BUILDER(softmax, lks_log_softmax(g, x))
BUILDER(join, lks_concat(g, x, lks_max_pool(g, x, &(lks_pool_opts){.kernel = {1, 2}})))
BUILDER(join_flat, lks_concat(g, x, lks_flatten(g, x)))
BUILDER(join_huge, lks_concat(g, x, lks_relu(g, x)))
BUILDER(layer_dims, lks_layer_norm(g, x, &(lks_layer_norm_opts){.dims = 4}))
BUILDER(layer_less, lks_layer_norm(g, x, &(lks_layer_norm_opts){.dims = -1}))
BUILDER(rms_epsilon, lks_rms_norm(g, x, &(lks_rms_norm_opts){.epsilon = -1}))
BUILDER(sines_of_an_image,
        lks_position(g, x, &(lks_position_opts){.form = LKS_POSITION_SINUSOIDAL}))
BUILDER(sines_with_a_weight, lks_position(g, x,
                                          &(lks_position_opts){.form = LKS_POSITION_SINUSOIDAL,
                                                               .weight_init.kind = LKS_INIT_ZEROS}))
BUILDER(token_of_an_image, lks_position(g, x, &(lks_position_opts){.class_token = true}))
BUILDER(token_of_sines,
        lks_position(g, x,
                     &(lks_position_opts){.form = LKS_POSITION_SINUSOIDAL, .class_token = true}))
BUILDER(layer_epsilon, lks_layer_norm(g, x, &(lks_layer_norm_opts){.epsilon = NAN}))
BUILDER(pool_exclude, POOL(.kernel = {2, 2}, .exclude_padding = true))
BUILDER(init_identity, DENSE(.units = 3, .bias_init = {.kind = LKS_INIT_IDENTITY}))
BUILDER(init_value, DENSE(.units = 3, .weight_init = {.kind = LKS_INIT_CONSTANT, .value = NAN}))
BUILDER(init_gain, DENSE(.units = 3, .weight_init = {.kind = LKS_INIT_XAVIER_NORMAL, .gain = -2}))
BUILDER(init_infinite_gain,
        DENSE(.units = 3, .weight_init = {.kind = LKS_INIT_XAVIER_UNIFORM, .gain = INFINITY}))
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
BUILDER(constant_count, CONST(.count = 2, .std = (float[]){1.0f, 1.0f}))
BUILDER(constant_many, CONST(.count = 100, .std = (float[]){1.0f}))
BUILDER(constant_none, CONST(0))
BUILDER(constant_std, CONST(.count = 1, .mean = (float[]){0.5f}))
BUILDER(constant_mean, CONST(.count = 1, .mean = (float[]){INFINITY}, .std = (float[]){1.0f}))
BUILDER(constant_late, lks_normalize(g, lks_batch_norm(g, x, NULL),
                                     &(lks_normalize_opts){.count = 1, .std = (float[]){1.0f}}))
BUILDER(entropy, lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 7}), NULL))
BUILDER(entropy_positions,
        lks_cross_entropy(g, x,
                          lks_target(g, &(lks_target_opts){.classes = 7, .shape = LKS_SHAPE(5)}),
                          NULL))
BUILDER(embedding, lks_embedding(g, x, &(lks_embedding_opts){.units = 4}))
BUILDER(entropy_floats,
        lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(10)}), NULL))
BUILDER(entropy_smoothing, lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 10}),
                                             &(lks_cross_entropy_opts){.label_smoothing = 1.1f}))
BUILDER(nll, lks_nll(g, x, lks_target(g, &(lks_target_opts){.classes = 10})))
BUILDER(squares, lks_mse(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2, 5)})))
BUILDER(squares_classes, lks_mse(g, x, lks_target(g, &(lks_target_opts){.classes = 10})))
BUILDER(lengths, lks_l1(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2, 5)})))
BUILDER(huber_classes, lks_huber(g, x, lks_target(g, &(lks_target_opts){.classes = 10}), NULL))
BUILDER(huber_delta, lks_huber(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(10)}),
                               &(lks_huber_opts){.delta = -1.0f}))
#define LSTM(...) lks_lstm(g, x, &(lks_recurrent_opts){__VA_ARGS__})
BUILDER(lstm, LSTM(.hidden = 4))
BUILDER(lstm_hidden, LSTM(0))
BUILDER(lstm_both, LSTM(.hidden = 4, .reverse = true, .bidirectional = true))
BUILDER(lstm_dropout, LSTM(.hidden = 4, .dropout = 0.5f))
BUILDER(lstm_layers, LSTM(.hidden = 4, .layers = 65))
BUILDER(lstm_weights, LSTM(.hidden = 1 << 20))
BUILDER(lstm_state, LSTM(.hidden = 1 << 15))
BUILDER(lstm_masked, LSTM(.hidden = 4, .masked = true))
BUILDER(lstm_padding, LSTM(.hidden = 4, .padding = 4))
BUILDER(lstm_name, LSTM(.name = "l", .hidden = 4, .layers = 2))
BUILDER(rnn_kind,
        lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 1, .nonlinearity = (lks_nonlinearity)2}))
BUILDER(gru_stack,
        lki_graph_add(g, LKI_OP_GRU, &(lki_recurrent){.opts = {.hidden = 4, .layers = 2}}, &x, 1))
#define ATTEND(...) lks_attention(g, x, NULL, &(lks_attention_opts){__VA_ARGS__})
BUILDER(attend, ATTEND(.heads = 1))
BUILDER(attend_heads, ATTEND(0))
BUILDER(attend_wide, ATTEND(.heads = 2))
BUILDER(attend_groups, ATTEND(.heads = 3, .kv_heads = 2))
BUILDER(attend_dropout, ATTEND(.heads = 1, .dropout = 1.0f))
BUILDER(attend_nearly, ATTEND(.heads = 1, .dropout = 0.999999f))
BUILDER(attend_many, ATTEND(.heads = 1, .dropout = 0.1f))
BUILDER(attend_turns, ATTEND(.heads = 1, .rotary = 0.5f))
BUILDER(attend_odd, ATTEND(.heads = 1, .rotary = 10000.0f))
BUILDER(attend_masked, ATTEND(.heads = 1, .masked = true))
BUILDER(attend_padding, ATTEND(.heads = 1, .padding = 4))
BUILDER(attend_floats, lks_attention(g, x, x, &(lks_attention_opts){.heads = 1}))
BUILDER(target_nothing, lks_target(g, NULL))
BUILDER(target_both,
        lks_target(g, &(lks_target_opts){.classes = 3, .shape = LKS_SHAPE(1, 1, 1, 1, 1)}))
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

#define ROWS                                                                                       \
    {                                                                                              \
        2,                                                                                         \
        {                                                                                          \
            5, 3                                                                                   \
        }                                                                                          \
    }

static const refusal refusals[] = {
    {conv, VECTOR, 0, LKS_E_SHAPE,
     "conv2d 'conv2d_1': input has 1 dimension, expected 3 (height, width, channels)"},
    {conv, IMAGE, LKS_U8, LKS_E_SHAPE,
     "conv2d 'conv2d_1': input 'input_1' is U8, expected F32; put a normalize before it"},
    {conv,
     {3, {2, 2, 1}},
     0,
     LKS_E_SHAPE,
     "conv2d 'conv2d_1': the kernel covers a height of 3, but the input has 2 with its padding"},
    {conv_filters, IMAGE, 0, LKS_E_INVALID, "filters is 0, expected an integer of at least 1"},
    {conv_kernel, IMAGE, 0, LKS_E_INVALID, "kernel is 0, expected an integer of at least 1"},
    {conv_stride, IMAGE, 0, LKS_E_INVALID, "stride is -1, expected an integer of at least 1"},
    {conv_padding, IMAGE, 0, LKS_E_INVALID, "padding is -2, expected an integer of at least 0"},
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
     "dense 'dense_1': input has 3 dimensions, expected 1, or 2 (positions, channels); put a "
     "flatten before it"},
    {dense_units, VECTOR, 0, LKS_E_INVALID, "units is -4, expected an integer of at least 1"},
    {dense_weights, VECTOR, 0, LKS_E_SHAPE, "weight has more than 2147483647 elements"},
    {dense_init, VECTOR, 0, LKS_E_INVALID, "bias_init has scale -1, expected a positive number"},
    {norm, {2, {4, 4}}, 0, LKS_E_SHAPE, "input has 2 dimensions, expected 3"},
    {norm_momentum, VECTOR, 0, LKS_E_INVALID,
     "momentum is 1.5, expected a number above 0 and at most 1"},
    {norm_epsilon, VECTOR, 0, LKS_E_INVALID, "epsilon is -1e-05, expected a number above 0"},
    {pool, VECTOR, 0, LKS_E_SHAPE, "max_pool 'max_pool_1': input has 1 dimension, expected 3"},
    {pool_kernel, IMAGE, 0, LKS_E_INVALID, "kernel is 0, expected an integer of at least 1"},
    {pool_padding, IMAGE, 0, LKS_E_INVALID, "padding is 2, expected at most half the kernel of 3"},
    {pool_wide, IMAGE, 0, LKS_E_INVALID,
     "padding is 9223372036854775807, expected at most 16777216"},
    {pool_stride, IMAGE, 0, LKS_E_INVALID, "stride is -1, expected an integer of at least 1"},
    {average, IMAGE, 0, LKS_E_SHAPE, "avg_pool 'avg_pool_1': the kernel covers a height of 9"},
    {global, VECTOR, 0, LKS_E_SHAPE, "global_avg_pool 'global_avg_pool_1': input has 1 dimension"},
    {relu, IMAGE, LKS_U8, LKS_E_SHAPE, "relu 'relu_1': input 'input_1' is U8, expected F32"},
    {relu6, IMAGE, LKS_U8, LKS_E_SHAPE, "relu6 'relu6_1': input 'input_1' is U8, expected F32"},
    {softplus, IMAGE, LKS_U8, LKS_E_SHAPE, "softplus 'softplus_1': input 'input_1' is U8"},
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
    {layer_less, IMAGE, 0, LKS_E_INVALID, "dims is -1, expected an integer from 1 to 5"},
    {layer_epsilon, IMAGE, 0, LKS_E_INVALID, "epsilon is nan, expected a number above 0"},
    {rms_epsilon, IMAGE, 0, LKS_E_INVALID, "epsilon is -1, expected a number above 0"},
    {sines_of_an_image, IMAGE, 0, LKS_E_SHAPE,
     "position 'position_1': input has 3 dimensions, expected 2 (positions, channels), as form is "
     "sinusoidal"},
    {sines_with_a_weight, ROWS, 0, LKS_E_INVALID,
     "position 'position_1': weight_init has no meaning, as form is sinusoidal"},
    {token_of_an_image, IMAGE, 0, LKS_E_SHAPE,
     "position 'position_1': input has 3 dimensions, expected 2 (positions, channels), as "
     "class_token is true"},
    {token_of_sines, ROWS, 0, LKS_E_INVALID,
     "position 'position_1': class_token is learned, but form is sinusoidal: drop one of them"},
    {pool_exclude, IMAGE, 0, LKS_E_INVALID,
     "max_pool 'max_pool_1': exclude_padding is set, but padding never wins a maximum; drop it"},
    {init_identity, VECTOR, 0, LKS_E_INVALID,
     "dense 'dense_1': bias_init is identity, which is for weights; use zeros"},
    {init_value, VECTOR, 0, LKS_E_INVALID, "weight_init has value nan, expected a finite number"},
    {init_gain, VECTOR, 0, LKS_E_INVALID, "weight_init has gain -2, expected a positive number"},
    {init_infinite_gain, VECTOR, 0, LKS_E_INVALID,
     "weight_init has gain inf, expected a positive number"},
    {init_slope, VECTOR, 0, LKS_E_INVALID, "weight_init has slope inf, expected a finite number"},
    {product, IMAGE, 0, LKS_E_SHAPE,
     "mul 'mul_1': 'input_1' is 8x6x3, but 'flatten_1' is 144; shapes must be equal, or one a "
     "vector with a value for each channel of the other"},
    {gelu, IMAGE, LKS_U8, LKS_E_SHAPE, "gelu 'gelu_1': input 'input_1' is U8, expected F32"},
    {gelu_form, VECTOR, 0, LKS_E_INVALID, "form is 7, expected erf or tanh, which are 0 to 1"},
    {leaky_slope, VECTOR, 0, LKS_E_INVALID, "slope is -1, expected a number above 0"},
    {scale_nothing, VECTOR, 0, LKS_E_INVALID, "factor is 0, expected a finite number but 0"},
    {scale_nan, VECTOR, 0, LKS_E_INVALID, "factor is nan, expected a finite number"},
    {drop_more, VECTOR, 0, LKS_E_INVALID,
     "probability is 1, expected a number of at least 0 and below 1"},
    {drop_less, VECTOR, 0, LKS_E_INVALID, "probability is -0.1, expected a number of at least 0"},
    {drop_nan, VECTOR, 0, LKS_E_INVALID, "probability is nan, expected a number of at least 0"},
    {drop_nearly, VECTOR, 0, LKS_E_INVALID, "which is 1 in the 16 bits drawn; use at most 0.99998"},
    {constant_count, IMAGE, 0, LKS_E_INVALID,
     "2 constants, expected 1 or the number of channels, 3"},
    {constant_many, IMAGE, 0, LKS_E_INVALID, "100 constants, expected 1 or the number of channels"},
    {constant_none, IMAGE, 0, LKS_E_INVALID,
     "0 constants, expected 1 or the number of channels, 3"},
    {constant_std, IMAGE, 0, LKS_E_INVALID, "std[0] is 0, expected a number above 0"},
    {constant_mean, IMAGE, 0, LKS_E_INVALID, "mean[0] is inf, expected a finite number"},
    {constant_late, IMAGE, 0, LKS_E_INVALID, "no gradient passes normalize; put it right after"},
    {entropy, IMAGE, 0, LKS_E_SHAPE, "input has 3 dimensions, expected 1"},
    {entropy, VECTOR, 0, LKS_E_SHAPE,
     "cross_entropy 'cross_entropy_1': input 'input_1' has 10 values, but target 'target_1' has 7 "
     "classes; they must be equal"},
    {entropy_floats, VECTOR, 0, LKS_E_SHAPE,
     "target 'target_1' has floats, expected classes; give it .classes = 10"},
    {entropy_smoothing, VECTOR, 0, LKS_E_INVALID,
     "label_smoothing is 1.1, expected a number from 0 to 1"},
    {nll, {1, {9}}, 0, LKS_E_SHAPE, "nll 'nll_1': input 'input_1' has 9 values"},
    {squares, VECTOR, 0, LKS_E_SHAPE, "input 'input_1' is 10, but target 'target_1' is 2x5"},
    {squares_classes, VECTOR, 0, LKS_E_SHAPE, "has classes, expected floats; give it a .shape"},
    {lengths, VECTOR, 0, LKS_E_SHAPE, "l1 'l1_1': input 'input_1' is 10, but target 'target_1' is"},
    {huber_classes, VECTOR, 0, LKS_E_SHAPE, "huber 'huber_1': target 'target_1' has classes"},
    {huber_delta, VECTOR, 0, LKS_E_INVALID, "delta is -1, expected a number from 9.3e-10 to"},
    {lstm, VECTOR, 0, LKS_E_SHAPE,
     "lstm 'lstm_1': input has 1 dimension, expected 2 (positions, channels)"},
    {lstm_hidden, ROWS, 0, LKS_E_INVALID, "hidden is 0, expected an integer of at least 1"},
    {lstm_both, ROWS, 0, LKS_E_INVALID, "reverse and bidirectional are both true"},
    {lstm_dropout, ROWS, 0, LKS_E_INVALID,
     "lstm 'lstm_1': dropout is 0.5, but there is one layer, and dropout stands between layers"},
    {lstm_layers, ROWS, 0, LKS_E_INVALID, "layers is 65, expected an integer from 1 to 64"},
    {lstm_weights, {2, {2, 1 << 10}}, 0, LKS_E_SHAPE, "weight_ih has more than 2147483647"},
    {lstm_weights, ROWS, 0, LKS_E_SHAPE, "weight_hh has more than 2147483647 elements"},
    {lstm_state, {2, {1 << 17, 1}}, 0, LKS_E_SHAPE, "has more than 2147483647 elements"},
    {lstm_masked, ROWS, 0, LKS_E_INVALID, "masked is true, but there are no tokens to find the"},
    {lstm_padding, ROWS, 0, LKS_E_INVALID, "padding is 4, but masked is false; set it, or drop"},
    {lstm_name, ROWS, LKS_U8, LKS_E_SHAPE, "lstm 'l': input 'input_1' is U8, expected F32"},
    {rnn_kind, ROWS, 0, LKS_E_INVALID, "nonlinearity is 2, expected tanh or relu"},
    {gru_stack, ROWS, 0, LKS_E_INVALID, "but a node is one of them"},
    {attend, VECTOR, 0, LKS_E_SHAPE,
     "attention 'attention_1': input has 1 dimension, expected 2 (positions, channels)"},
    {attend_heads, ROWS, 0, LKS_E_INVALID, "heads is 0, expected an integer of at least 1"},
    {attend_wide, ROWS, 0, LKS_E_SHAPE,
     "input 'input_1' has 3 channels, expected a multiple of 6: queries of 2 heads, keys and "
     "values of 2 each"},
    {attend_groups, ROWS, 0, LKS_E_INVALID,
     "kv_heads is 2, which does not divide the 3 heads; each has keys and values for as many"},
    {attend_dropout, ROWS, 0, LKS_E_INVALID, "dropout is 1, expected a number of at least 0 and"},
    {attend_nearly, ROWS, 0, LKS_E_INVALID, "which is 1 in the 16 bits drawn; use at most 0.99998"},
    {attend_many, {2, {1 << 18, 3}}, 0, LKS_E_SHAPE, "more than the 17179869176 of a sample that"},
    {attend_turns, ROWS, 0, LKS_E_INVALID, "rotary is 0.5, expected 0 (none), or a base of at"},
    {attend_odd, ROWS, 0, LKS_E_SHAPE, "a head has 1 channels, but rotary turns pairs of them"},
    {attend_masked, ROWS, 0, LKS_E_INVALID, "masked is true, but there are no tokens to find the"},
    {attend_padding, ROWS, 0, LKS_E_INVALID, "padding is 4, but masked is false; set it, or drop"},
    {attend_floats, ROWS, 0, LKS_E_SHAPE, "input 'input_1' is F32, expected tokens, an input of"},
    {target_nothing, VECTOR, 0, LKS_E_INVALID, "neither classes nor a shape is given"},
    {target_both, VECTOR, 0, LKS_E_SHAPE, "positions have 5 dimensions, expected at most 4"},
    {target_classes, VECTOR, 0, LKS_E_INVALID, "classes is -3, expected an integer of at least 0"},
    {target_shape, VECTOR, 0, LKS_E_SHAPE, "dimension 1 of the shape is 0, expected at least 1"},
    {embedding, VECTOR, 0, LKS_E_SHAPE, "input 'input_1' is F32, expected tokens, an input of I32"},
    {entropy_positions,
     {2, {4, 7}},
     0,
     LKS_E_SHAPE,
     "input 'input_1' is 4x7, expected 5x7, as target 'target_1' has a class for each position"},
    {relu,
     {2, {3, 4}},
     LKS_I32,
     LKS_E_INVALID,
     "vocabulary is 0, expected how many tokens there are, as dtype is I32"},
    {relu, {0, {0}}, 0, LKS_E_SHAPE, "the shape has 0 dimensions, expected 1 to 5"},
    {relu, {6, {1, 1, 1, 1, 1}}, 0, LKS_E_SHAPE, "the shape has 6 dimensions, expected 1 to 5"},
    {relu, {2, {3, -1}}, 0, LKS_E_SHAPE, "dimension 1 of the shape is -1, expected at least 1"},
    {relu, {3, {1 << 16, 1 << 15, 1}}, 0, LKS_E_SHAPE, "more than 2147483647 elements"},
    {relu, VECTOR, LKS_I64, LKS_E_INVALID,
     "input 'input_1': dtype is I64, expected F32, U8 or I32"},
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
    assert_non_null(lks_dropout(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(3)}),
                                &(lks_dropout_opts){.probability = 0.99998f}));
    assert_true(lki_bernoulli_make(0.99998f).probability < 1.0);
    lks_graph_destroy(g);
}

/* The second input of attention: tokens, one for each position, of which the padding is one. */
static void tokens_of_attention_are_checked(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    for (int i = 0; i < 3; i++) {
        static const char *const part[] = {"attention 'a': padding is 5, expected at most 4",
                                           "padding is -1, expected an integer of at least 0",
                                           "tokens 'x' are 8, but input 'qkv' has 1 positions"};
        static const lks_attention_opts opts[] = {{.name = "a", .heads = 1, .padding = 5},
                                                  {.name = "a", .heads = 1, .padding = -1},
                                                  {.name = "a", .heads = 1}};
        LKT_OK(lks_graph_create(&g, context));
        lks_tensor *x = lks_input(
            g, &(lks_input_opts){
                   .name = "x", .shape = LKS_SHAPE(8), .dtype = LKS_I32, .vocabulary = 5});
        lks_tensor *y = lks_embedding(g, x, &(lks_embedding_opts){.units = 3});
        if (i == 2) { /* another number of positions than there are tokens */
            y = lks_lstm(g, y, &(lks_recurrent_opts){.hidden = 3});
            y->shape = LKS_SHAPE(1, 3);
            snprintf(y->node->name, sizeof y->node->name, "qkv");
        }
        assert_null(lks_attention(g, y, x, &opts[i]));
        LKT_FAILS(i < 2 ? LKS_E_INVALID : LKS_E_SHAPE, part[i], lks_graph_status(g));
        lks_graph_destroy(g);
    }
}

static void padding_of_an_embedding_is_checked(void **state)
{
    static const char *const part[] = {
        "embedding 'e': padding is 5, expected at most 4",
        "padding is 2, but masked is false; set it, or drop padding"};
    static const lks_embedding_opts opts[] = {
        {.name = "e", .units = 3, .masked = true, .padding = 5},
        {.name = "e", .units = 3, .padding = 2}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        lks_graph *g = NULL;
        LKT_OK(lks_graph_create(&g, context));
        lks_tensor *x = lks_input(
            g, &(lks_input_opts){.shape = LKS_SHAPE(8), .dtype = LKS_I32, .vocabulary = 5});
        assert_null(lks_embedding(g, x, &opts[i]));
        LKT_FAILS(LKS_E_INVALID, part[i], lks_graph_status(g));
        lks_graph_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_of_an_embedding_is_checked),
        cmocka_unit_test(tokens_of_attention_are_checked),
        cmocka_unit_test(wrong_attributes_are_refused),
        cmocka_unit_test(nearly_all_may_be_dropped),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
