/*
 * Describing a network.
 *
 * A builder returns a tensor, or NULL after the first error; a NULL input yields a NULL output, so
 * a whole network can be written without a check on every line. The error stays in the graph;
 * lks_graph_status() and lks_model_compile() report it. Building computes nothing.
 *
 * Every opts struct has a `name`: it names the node in messages and its parameters in checkpoints
 * ("conv1" gives conv1.weight and conv1.bias). Default: the operation and a number, "conv2d_1".
 * Names are unique in a graph, and none begins with "optimizer.", "gradient." or "ema.", as names of
 * other state do. Parameters have PyTorch's shapes and order.
 */
#ifndef LOCKSTEP_GRAPH_H
#define LOCKSTEP_GRAPH_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_graph lks_graph;

LKS_API LKS_MUSTUSE lks_status lks_graph_create(lks_graph **out, lks_context *context);
LKS_API void lks_graph_destroy(lks_graph *graph); /* destroy its models first */

/* LKS_OK, or the first error of a builder, which is put back into lks_last_error(). */
LKS_API LKS_MUSTUSE lks_status lks_graph_status(const lks_graph *graph);

/* For builders of your own, whose arguments are not valid: keeps LKS_E_INVALID with this sentence,
 * unless the graph has an error already. Returns NULL, as the builder should then. */
LKS_API lks_tensor *lks_graph_fail(lks_graph *graph, const char *format, ...) LKS_PRINTF(2, 3);

/*
 * How parameters start. With fan_in and fan_out as PyTorch counts them (conv2d: kernel area times
 * in channels per group, or times filters; dense: columns or rows):
 *   DEFAULT          PyTorch's for the layer: weight and bias uniform in +-1/sqrt(fan_in)
 *   ZEROS, ONES, CONSTANT
 *   KAIMING_UNIFORM  +-sqrt(6 / ((1 + slope^2) fan_in)), for relu
 *   KAIMING_NORMAL   sqrt(2 / ((1 + slope^2) fan_in)) * normal, for relu
 *   XAVIER_UNIFORM   +-gain * sqrt(6 / (fan_in + fan_out))
 *   XAVIER_NORMAL    gain * sqrt(2 / (fan_in + fan_out)) * normal
 *   UNIFORM, NORMAL  +-scale, or scale * normal
 *   IDENTITY         of weights: the layer passes its input on as it is, as far as it has channels
 *                    for it (PyTorch's eye_ for dense, dirac_ with the layer's groups for conv2d)
 *   PARTIAL_IDENTITY the same, and outputs for which there is no input start as DEFAULT, not as 0
 * A bias is DEFAULT unless its own init says otherwise.
 */
typedef enum lks_init_kind {
    LKS_INIT_DEFAULT,
    LKS_INIT_ZEROS,
    LKS_INIT_ONES,
    LKS_INIT_UNIFORM,
    LKS_INIT_NORMAL,
    LKS_INIT_KAIMING_UNIFORM,
    LKS_INIT_KAIMING_NORMAL,
    LKS_INIT_XAVIER_UNIFORM,
    LKS_INIT_XAVIER_NORMAL,
    LKS_INIT_CONSTANT,
    LKS_INIT_IDENTITY,
    LKS_INIT_PARTIAL_IDENTITY,
} lks_init_kind;

typedef struct lks_init {
    lks_init_kind kind;
    float scale;  /* UNIFORM, NORMAL: required there, unused elsewhere */
    float value;  /* CONSTANT */
    float gain;   /* XAVIER: default 1 */
    float slope;  /* KAIMING: of the leaky relu behind the layer; default 0, relu */
    bool fan_out; /* KAIMING: fan_out instead of fan_in */
} lks_init;

/* The samples of a batch. One per graph. U8 goes through lks_normalize() first, I32 through lks_embedding(). */
typedef struct lks_input_opts {
    const char *name;
    lks_shape shape; /* of one sample; required; images are height, width, channels; a sequence is
                           positions, channels, or, of tokens, positions alone */
    lks_dtype dtype; /* default F32; or U8, or I32: tokens, */
    int64_t vocabulary; /* from 0 to below this: required there */
} lks_input_opts;
LKS_API lks_tensor *lks_input(lks_graph *graph, const lks_input_opts *opts);

/* What the network should answer. One per graph. */
typedef struct lks_target_opts {
    const char *name;
    int64_t classes; /* I32 class indices below this; 0: floats of `shape` (regression) */
    lks_shape shape; /* of one sample's floats; with classes: the positions, of which each has one,
                        or LKS_NO_CLASS; default: one class a sample */
} lks_target_opts;
LKS_API lks_tensor *lks_target(lks_graph *graph, const lks_target_opts *opts);

/* y = (x * scale - mean) / std per channel (the last dimension); constants, no gradient to x. U8 input has scale 1/255, F32
 * input scale 1. Computed in f32, scaling by division as PyTorch does. The constants are copied. */
typedef struct lks_normalize_opts {
    const char *name;
    int count;         /* 1: the same for all channels; else the number of channels */
    const float *mean; /* [count]; NULL: zeros */
    const float *std;  /* [count]: positive; required */
} lks_normalize_opts;
LKS_API lks_tensor *lks_normalize(lks_graph *graph, lks_tensor *x, const lks_normalize_opts *opts);

/* weight [filters][channels/groups][kernel h][kernel w], bias [filters]; x is h, w, channels.
 * Out size: (size + 2*padding - dilation*(kernel-1) - 1) / stride + 1, rounded down. */
typedef struct lks_conv2d_opts {
    const char *name;
    int64_t filters;     /* required */
    int64_t kernel[2];   /* required: height, width */
    int64_t stride[2];   /* default 1 */
    int64_t padding[2];  /* default 0; zeros */
    int64_t dilation[2]; /* default 1 */
    int64_t groups;      /* default 1 */
    bool no_bias;
    lks_init weight_init, bias_init;
} lks_conv2d_opts;
LKS_API lks_tensor *lks_conv2d(lks_graph *graph, lks_tensor *x, const lks_conv2d_opts *opts);

/* weight [vocabulary][units], initially N(0, 1), of tokens (the graph's input): the row of each; out is positions, units. */
typedef struct lks_embedding_opts {
    const char *name;
    int64_t units; /* required */
    lks_init weight_init;
    bool masked;     /* PyTorch's padding_idx: that row begins with zeros and has no gradient */
    int64_t padding; /* the token; default 0 */
} lks_embedding_opts;
LKS_API lks_tensor *lks_embedding(lks_graph *graph, lks_tensor *tokens,
                                  const lks_embedding_opts *opts);

/* Which positions of frames (positions, features) are padding, as tokens for what is masked: 0 where all features equal
 * `value`, else 1. NaN equals nothing. Behind a normalize of floats those in front of it are looked at. No gradient passes. */
typedef struct lks_masking_opts {
    const char *name;
    float value; /* default 0 */
} lks_masking_opts;
LKS_API lks_tensor *lks_masking(lks_graph *graph, lks_tensor *x, const lks_masking_opts *opts);

/* x + weight, of x's shape, which are learned: what each position adds. Initially N(0, 1). SINUSOIDAL, of positions, channels:
 * instead of a weight sin(t r) in even channels and cos(t r) in odd ones, at position t, with r = 10000^(-2i / channels) in
 * channels 2i and 2i + 1. */
typedef enum lks_position_form { LKS_POSITION_LEARNED, LKS_POSITION_SINUSOIDAL } lks_position_form;
typedef struct lks_position_opts {
    const char *name;
    lks_position_form form; /* default LEARNED */
    lks_init weight_init;
    bool class_token; /* LEARNED: out has one position more, in front: the weight's first row */
} lks_position_opts;
LKS_API lks_tensor *lks_position(lks_graph *graph, lks_tensor *x, const lks_position_opts *opts);

/*
 * Attention of the positions to each other in several heads, as PyTorch's scaled_dot_product_attention: out of position i
 * is, of each head, the sum of the values v_j of all positions j by softmax over j of q_i . k_j / sqrt(head width). qkv is
 * positions, (heads + 2 kv_heads) head width: in each position the queries of all heads, then keys, then values, as a
 * dense layer from PyTorch's in_proj_weight or GPT-2's c_attn gives them. out is positions, heads head width. Positions whose
 * token (the graph's input, or a masking's) is the padding are no keys; a row without a key is 0.
 */
typedef struct lks_attention_opts {
    const char *name;
    int64_t heads;    /* required */
    int64_t kv_heads; /* of keys and values, each for heads / kv_heads in a row; default: heads */
    bool causal;      /* position i sees those up to i */
    float dropout;    /* of the weights behind softmax, in training; default 0 */
    /* A base, 10000 say: queries and keys are turned by their position, each pair (d, d + head width / 2) by the angle
     * position base^(-2d / head width), as Llama's are; default 0, which is not at all. */
    float rotary;
    bool masked;     /* set where tokens are given; in a list: the graph's, or its last masking's */
    int64_t padding; /* the token; default 0 */
} lks_attention_opts;
LKS_API lks_tensor *lks_attention(lks_graph *graph, lks_tensor *qkv, lks_tensor *tokens,
                                  const lks_attention_opts *opts); /* tokens may be NULL */

/*
 * Recurrent layers from position to position, as PyTorch's: x is positions, channels; out is positions, hidden (twice
 * that of both directions, forward first). The state in front of the first position is zero. With masked the graph has
 * tokens, its input or a masking's, of each position; the output of one that is padding is the state before it. Parameters are
 * NAME.weight_ih_l0 [gates hidden][channels], weight_hh_l0 [gates hidden][hidden], bias_ih_l0, bias_hh_l0, and l1, ... of
 * further layers, with "_reverse" behind them in the other direction; gates are i f g o (lstm) and r z n (gru). A stack
 * is one node for each layer and direction: NAME, NAME.l1, NAME.l0_reverse, ...
 */
typedef enum lks_nonlinearity { LKS_NONLINEARITY_TANH, LKS_NONLINEARITY_RELU } lks_nonlinearity;
typedef struct lks_recurrent_opts {
    const char *name;
    lks_nonlinearity nonlinearity; /* of rnn alone */
    int64_t hidden;                /* required */
    int64_t layers;                /* default 1 */
    bool bidirectional;            /* both directions */
    bool reverse;                  /* only from the last position to the first */
    float dropout;                 /* between layers; default 0 */
    bool carry_state; /* positions go on from the last of the batch before: lks_batch.continues */
    bool masked;      /* where the token is the padding, the state stays as it is */
    int64_t padding;  /* the token; default 0 */
    lks_init weight_init, bias_init; /* default: uniform in +-1/sqrt(hidden), all four */
} lks_recurrent_opts;
LKS_API lks_tensor *lks_rnn(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts);
LKS_API lks_tensor *lks_lstm(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts);
LKS_API lks_tensor *lks_gru(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts);

/* y[u] = sum_k x[k] * weight[u][k] + bias[u], of the last dimension of x, for each of its positions where it has others
 * (lks_flatten() an image to have all of it at once). */
typedef struct lks_dense_opts {
    const char *name;
    int64_t units; /* required */
    bool no_bias;
    lks_init weight_init, bias_init;
    /* What an embedding gives, of as many tokens as units and as many units as x has channels, and from which x comes:
     * the layer has no weight but the embedding's, whose gradient is the sum of both. */
    lks_tensor *weight_of;
} lks_dense_opts;
LKS_API lks_tensor *lks_dense(lks_graph *graph, lks_tensor *x, const lks_dense_opts *opts);

/*
 * Batch normalisation over the replica's samples and pixels, or, with sync, over those of the whole
 * batch, whatever the number of replicas; parameters weight (ones), bias (zeros); buffers running_mean,
 * running_var, num_batches_tracked. See docs/numerics.md 6. With sync all replicas of a worker are run
 * together, which takes memory for the activations and gradients of all of them.
 */
typedef struct lks_batch_norm_opts {
    const char *name;
    float momentum; /* default 0.1: weight of the new batch */
    float epsilon;  /* default 1e-5 */
    bool sync;      /* statistics of the whole batch */
} lks_batch_norm_opts;
LKS_API lks_tensor *lks_batch_norm(lks_graph *graph, lks_tensor *x,
                                   const lks_batch_norm_opts *opts);
/* Gives every batch norm of the graph as it is now `sync`: before it is compiled. `count`, which may be
 * NULL, receives how many there are. */
LKS_API LKS_MUSTUSE lks_status lks_graph_sync_batch_norm(lks_graph *graph, int *count);

/*
 * Layer normalisation: each sample by itself, over its last `dims` dimensions; parameters weight
 * (ones) and bias (zeros) with these dimensions' shape. As activations are height, width, channels,
 * dims = 1 normalises the channels of each pixel. Over a whole image (dims = 3) the parameters are
 * [channels][height][width], those of PyTorch's LayerNorm([C, H, W]), which gives the same result; so
 * does LayerNorm([features]) behind lks_flatten().
 */
typedef struct lks_layer_norm_opts {
    const char *name;
    int dims;       /* default 1 */
    float epsilon;  /* default 1e-5 */
    bool no_affine; /* no weight, no bias */
    bool no_bias;   /* a weight alone */
} lks_layer_norm_opts;
LKS_API lks_tensor *lks_layer_norm(lks_graph *graph, lks_tensor *x,
                                   const lks_layer_norm_opts *opts);

/* x / sqrt(mean of x x + epsilon) * weight, of the last dimension; weight (ones) has as many. */
typedef struct lks_rms_norm_opts {
    const char *name;
    float epsilon;  /* default 2^-23, as PyTorch's RMSNorm */
    bool no_affine; /* no weight */
} lks_rms_norm_opts;
LKS_API lks_tensor *lks_rms_norm(lks_graph *graph, lks_tensor *x, const lks_rms_norm_opts *opts);

/* Max pooling: padding never wins; ties go to the first in row order. Average pooling: padded
 * pixels count as zeros, unless they are excluded (PyTorch's count_include_pad=False): then the sum is
 * divided by the number of the window's pixels in the image. Padding is at most half the kernel. */
typedef struct lks_pool_opts {
    const char *name;
    int64_t kernel[2];    /* required */
    int64_t stride[2];    /* default: the kernel */
    int64_t padding[2];   /* default 0 */
    bool exclude_padding; /* avg_pool only */
} lks_pool_opts;
LKS_API lks_tensor *lks_max_pool(lks_graph *graph, lks_tensor *x, const lks_pool_opts *opts);
LKS_API lks_tensor *lks_avg_pool(lks_graph *graph, lks_tensor *x, const lks_pool_opts *opts);
LKS_API lks_tensor *lks_global_avg_pool(lks_graph *graph,
                                        lks_tensor *x); /* h,w,c or positions,c to c */

/* Functions of each element. Relu is 0 for a NaN, and so is relu6, min(relu(x), 6), which passes no gradient
 * at 0 or 6; silu is x * sigmoid(x); softplus is log(1 + exp(x)). */
LKS_API lks_tensor *lks_relu(lks_graph *graph, lks_tensor *x);
LKS_API lks_tensor *lks_relu6(lks_graph *graph, lks_tensor *x);
LKS_API lks_tensor *lks_silu(lks_graph *graph, lks_tensor *x);
LKS_API lks_tensor *lks_tanh(lks_graph *graph, lks_tensor *x);
LKS_API lks_tensor *lks_sigmoid(lks_graph *graph, lks_tensor *x);
LKS_API lks_tensor *lks_softplus(lks_graph *graph, lks_tensor *x);

/* x where x > 0, else slope * x */
typedef struct lks_leaky_relu_opts {
    const char *name;
    float slope; /* default 0.01; positive */
} lks_leaky_relu_opts;
LKS_API lks_tensor *lks_leaky_relu(lks_graph *graph, lks_tensor *x,
                                   const lks_leaky_relu_opts *opts);

/* x times the probability that a normal variable is below x; TANH approximates it with
 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2. */
typedef enum lks_gelu_form { LKS_GELU_ERF, LKS_GELU_TANH } lks_gelu_form;
typedef struct lks_gelu_opts {
    const char *name;
    lks_gelu_form form; /* default ERF */
} lks_gelu_opts;
LKS_API lks_tensor *lks_gelu(lks_graph *graph, lks_tensor *x, const lks_gelu_opts *opts);

/* y = factor * x. */
typedef struct lks_scale_opts {
    const char *name;
    float factor; /* required: finite, not 0 */
} lks_scale_opts;
LKS_API lks_tensor *lks_scale(lks_graph *graph, lks_tensor *x, const lks_scale_opts *opts);

/* a + b and a * b, of equal shapes; or one of them a vector with a value for each channel (the last
 * dimension) of the other, for all its pixels: as squeeze-and-excitation has it. */
LKS_API lks_tensor *lks_add(lks_graph *graph, lks_tensor *a, lks_tensor *b);
LKS_API lks_tensor *lks_mul(lks_graph *graph, lks_tensor *a, lks_tensor *b);
/* The channels (the last dimension) of a, then those of b; other dimensions are equal. */
LKS_API lks_tensor *lks_concat(lks_graph *graph, lks_tensor *a, lks_tensor *b);
LKS_API lks_tensor *lks_log_softmax(lks_graph *graph, lks_tensor *x); /* of the last dimension */

/* One dimension, in PyTorch's order: channel, row, column of an image, position, channel of a sequence. */
LKS_API lks_tensor *lks_flatten(lks_graph *graph, lks_tensor *x);

/* The pixels of an image as positions, row by row: height, width, channels to height * width, channels. */
LKS_API lks_tensor *lks_sequence(lks_graph *graph, lks_tensor *x);

/* One of the positions of a sequence: positions, channels to channels. */
typedef struct lks_select_opts {
    const char *name;
    int64_t position; /* from 0, the default; below 0 from the end, -1 is the last */
} lks_select_opts;
LKS_API lks_tensor *lks_select(lks_graph *graph, lks_tensor *x, const lks_select_opts *opts);

/* Zeroes an element with the given probability in training and scales the others by
 * 1/(1 - probability). The probability is rounded to the bits drawn: docs/numerics.md. */
typedef struct lks_dropout_opts {
    const char *name;
    float probability; /* required, in [0, 1) */
    bool by_sample; /* all of a sample or none: stochastic depth (Huang et al., 2016), before add */
} lks_dropout_opts;
LKS_API lks_tensor *lks_dropout(lks_graph *graph, lks_tensor *x, const lks_dropout_opts *opts);

/* Losses: one number per sample, or, of classes at positions, per position (0 where there is no class); training
 * minimises the mean over those of the global batch that have one. x is the target's shape, then the classes. */
typedef struct lks_cross_entropy_opts {
    const char *name;
    float label_smoothing; /* default 0 */
} lks_cross_entropy_opts;
LKS_API lks_tensor *lks_cross_entropy(lks_graph *graph, lks_tensor *logits, lks_tensor *target,
                                      const lks_cross_entropy_opts *opts);
LKS_API lks_tensor *lks_nll(lks_graph *graph, lks_tensor *log_probabilities, lks_tensor *target);
LKS_API lks_tensor *lks_mse(lks_graph *graph, lks_tensor *x, lks_tensor *target); /* mean over x */
LKS_API lks_tensor *lks_l1(lks_graph *graph, lks_tensor *x, lks_tensor *target);  /* |x - target| */
typedef struct lks_huber_opts {
    const char *name;
    float delta; /* default 1. d = |x - target|: d^2/2 up to it, beyond delta (d - delta/2) */
} lks_huber_opts;
LKS_API lks_tensor *lks_huber(lks_graph *graph, lks_tensor *x, lks_tensor *target,
                              const lks_huber_opts *opts);

/*
 * Any of the above by a line, as lks_tensor_line() prints it: "conv2d filters=32 kernel=3x3", "relu". Any layer may have
 * name=, and from= the name of an earlier one to begin at instead of x; with= is the name of a second operand. A loss takes
 * the graph's target, which is made where there is none. docs/ops.md has the options; what a line refuses, the graph keeps.
 */
LKS_API lks_tensor *lks_graph_line(lks_graph *graph, lks_tensor *x, const char *line);

#ifdef __cplusplus
}
#endif
#endif
