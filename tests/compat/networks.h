/*
 * The networks whose hashes are kept in hashes.json. Together they have every operation, optimizer and
 * option that bits depend on; test_hashes.c checks that. They are never changed: what is new gets a
 * network of its own.
 */
#ifndef LKT_COMPAT_NETWORKS_H
#define LKT_COMPAT_NETWORKS_H

#include <math.h>

#include <lockstep/lockstep.h>

enum { KEPT_CLASSES = 5, KEPT_VALUES = 12 * 10 * 3 };

/* Images and a class each; floats, and two of them; KEPT_POSITIONS tokens, of which each has a class or none. */
typedef enum kept_data { KEPT_IMAGES, KEPT_NUMBERS, KEPT_TOKENS } kept_data;
enum { KEPT_POSITIONS = 11, KEPT_VOCABULARY = 23 };

typedef struct kept_network {
    const char *name;
    lks_tensor *(*build)(lks_graph *graph);
    kept_data data;
    int64_t batch;
    double lr;
    lks_optim (*optim)(void);
    lks_model_opts opts;
} kept_network;

static lks_tensor *kept_image(lks_graph *g)
{
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    return lks_normalize(g, x,
                         &(lks_normalize_opts){.count = 3,
                                               .mean = (float[]){.5f, .4f, .45f},
                                               .std = (float[]){.25f, .3f, .2f}});
}

static lks_tensor *kept_conv(lks_graph *g, lks_tensor *x, int64_t filters, int64_t kernel)
{
    return lks_conv2d(g, x,
                      &(lks_conv2d_opts){.filters = filters,
                                         .kernel = {kernel, kernel},
                                         .padding = {kernel / 2, kernel / 2}});
}

static lks_tensor *kept_dense(lks_graph *g, lks_tensor *x, int64_t units)
{
    return lks_dense(g, x, &(lks_dense_opts){.units = units});
}

static lks_tensor *kept_loss(lks_graph *g, lks_tensor *x, float smoothing)
{
    lks_tensor *y = lks_target(g, &(lks_target_opts){.name = "y", .classes = KEPT_CLASSES});
    return lks_cross_entropy(g, kept_dense(g, x, KEPT_CLASSES), y,
                             &(lks_cross_entropy_opts){.label_smoothing = smoothing});
}

static lks_tensor *kept_words(lks_graph *g)
{
    return lks_input(g, &(lks_input_opts){.name = "x",
                                          .shape = LKS_SHAPE(KEPT_POSITIONS),
                                          .dtype = LKS_I32,
                                          .vocabulary = KEPT_VOCABULARY});
}

/* Of classes at positions. */
static lks_tensor *kept_position_loss(lks_graph *g, lks_tensor *x, float smoothing)
{
    lks_tensor *y = lks_target(g, &(lks_target_opts){.name = "y",
                                                     .classes = KEPT_CLASSES,
                                                     .shape = LKS_SHAPE(KEPT_POSITIONS)});
    return lks_cross_entropy(g, x, y, &(lks_cross_entropy_opts){.label_smoothing = smoothing});
}

/* Of tokens: each position by itself, and of each of them a class. */
static lks_tensor *kept_tokens(lks_graph *g)
{
    lks_tensor *x = kept_words(g);
    x = lks_position(g, lks_embedding(g, x, &(lks_embedding_opts){.units = 37}), NULL);
    lks_tensor *y = lks_gelu(g, kept_dense(g, lks_layer_norm(g, x, NULL), 70), NULL);
    x = lks_add(g, x, kept_dense(g, y, 37));
    return kept_position_loss(g, kept_dense(g, x, KEPT_CLASSES), .1f);
}

/* A weight with two users, and a bias beside it. */
static lks_tensor *kept_tied(lks_graph *g)
{
    lks_tensor *x = kept_words(g);
    lks_tensor *embedded = lks_embedding(g, x, &(lks_embedding_opts){.units = 19});
    x = lks_dense(g, lks_tanh(g, kept_dense(g, lks_position(g, embedded, NULL), 19)),
                  &(lks_dense_opts){.units = KEPT_VOCABULARY, .weight_of = embedded});
    return kept_position_loss(g, kept_dense(g, x, KEPT_CLASSES), 0);
}

/* Recurrent layers of each kind, wide and narrow, in both directions. */
static lks_tensor *kept_recurrent(lks_graph *g)
{
    lks_tensor *x = kept_words(g);
    x = lks_embedding(g, x, &(lks_embedding_opts){.units = 21});
    x = lks_lstm(g, x, &(lks_recurrent_opts){.hidden = 70, .layers = 2, .dropout = .25f});
    x = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 13, .bidirectional = true});
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 33, .reverse = true});
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 5, .nonlinearity = LKS_NONLINEARITY_RELU});
    return kept_position_loss(g, kept_dense(g, x, KEPT_CLASSES), 0);
}

/* The same with padding, which the layers pass over. */
static lks_tensor *kept_held(lks_graph *g)
{
    lks_tensor *x = kept_words(g);
    x = lks_embedding(g, x, &(lks_embedding_opts){.units = 21});
    x = lks_lstm(g, x,
                 &(lks_recurrent_opts){
                     .hidden = 37, .layers = 2, .dropout = .25f, .masked = true, .padding = 3});
    x = lks_gru(
        g, x,
        &(lks_recurrent_opts){.hidden = 13, .bidirectional = true, .masked = true, .padding = 5});
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 9, .reverse = true, .masked = true});
    return kept_position_loss(g, kept_dense(g, x, KEPT_CLASSES), 0);
}

/* Attention: grouped and turned, then of heads as wide as no vector, with padding. */
static lks_tensor *kept_attention(lks_graph *g)
{
    lks_tensor *tokens = lks_input(g, &(lks_input_opts){.name = "x",
                                                        .shape = LKS_SHAPE(KEPT_POSITIONS),
                                                        .dtype = LKS_I32,
                                                        .vocabulary = KEPT_VOCABULARY});
    lks_tensor *x = lks_embedding(g, tokens, &(lks_embedding_opts){.units = 36}), *y;
    y = lks_attention(
        g, kept_dense(g, x, 60), NULL,
        &(lks_attention_opts){
            .heads = 6, .kv_heads = 2, .causal = true, .dropout = .25f, .rotary = 10000});
    x = lks_add(g, x, kept_dense(g, y, 36));
    y = lks_attention(g, kept_dense(g, lks_layer_norm(g, x, NULL), 102), tokens,
                      &(lks_attention_opts){.heads = 2, .dropout = .1f, .padding = 3});
    x = lks_add(g, x, kept_dense(g, y, 36));
    return lks_cross_entropy(g, kept_dense(g, x, KEPT_CLASSES),
                             lks_target(g, &(lks_target_opts){.name = "y",
                                                              .classes = KEPT_CLASSES,
                                                              .shape = LKS_SHAPE(KEPT_POSITIONS)}),
                             NULL);
}

/* Frames, an eighth of which is padding: attention leaves it out. */
static lks_tensor *kept_frames(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(KEPT_VALUES / 3, 3)});
    lks_tensor *tokens = lks_masking(g, x = lks_relu(g, x), NULL);
    x = lks_attention(g, kept_dense(g, x, 42), tokens, &(lks_attention_opts){.heads = 2});
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = 2});
    return lks_mse(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2)}));
}

/* Recurrent layers that carry their state, wide and narrow. */
static lks_tensor *kept_carried(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.name = "x",
                                                   .shape = LKS_SHAPE(KEPT_POSITIONS),
                                                   .dtype = LKS_I32,
                                                   .vocabulary = KEPT_VOCABULARY});
    x = lks_embedding(g, x, &(lks_embedding_opts){.units = 9});
    x = lks_lstm(g, x, &(lks_recurrent_opts){.hidden = 70, .layers = 2, .carry_state = true});
    x = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 13, .carry_state = true});
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 5, .carry_state = true});
    return lks_cross_entropy(g, kept_dense(g, x, KEPT_CLASSES),
                             lks_target(g, &(lks_target_opts){.name = "y",
                                                              .classes = KEPT_CLASSES,
                                                              .shape = LKS_SHAPE(KEPT_POSITIONS)}),
                             NULL);
}

/* A multi-layer perceptron. */
static lks_tensor *kept_mlp(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, kept_dense(g, lks_flatten(g, kept_image(g)), 70));
    x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .3f});
    return kept_loss(g, lks_relu(g, kept_dense(g, x, 33)), 0);
}

/* Few channels and filters behind each other, and windows that overlap. */
static lks_tensor *kept_lenet(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, kept_conv(g, kept_image(g), 6, 5));
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {3, 3}, .stride = {2, 2}});
    x = lks_relu(g, lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 17, .kernel = {2, 3}}));
    x = lks_flatten(g, lks_max_pool(g, x, &(lks_pool_opts){.kernel = {2, 2}}));
    return kept_loss(g, lks_relu(g, kept_dense(g, x, 20)), 0);
}

/* Convolutions behind which pooling leaves most gradients zero; runs of 48 and of 160 values. */
static lks_tensor *kept_pooled(lks_graph *g)
{
    const lks_pool_opts pool = {.kernel = {2, 2}};
    lks_tensor *x = lks_relu(g, kept_conv(g, kept_image(g), 16, 3));
    x = lks_max_pool(g, lks_relu(g, kept_conv(g, x, 32, 3)), &pool);
    x = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 64, .kernel = {3, 5}, .padding = {1, 2}});
    x = lks_max_pool(g, lks_relu(g, x), &pool);
    x = lks_flatten(g, lks_dropout(g, x, &(lks_dropout_opts){.probability = .25f}));
    x = lks_log_softmax(g, kept_dense(g, x, KEPT_CLASSES));
    return lks_nll(g, x, lks_target(g, &(lks_target_opts){.classes = KEPT_CLASSES}));
}

static lks_tensor *kept_block(lks_graph *g, lks_tensor *x, int64_t filters, int64_t stride)
{
    const lks_conv2d_opts first = {.filters = filters,
                                   .kernel = {3, 3},
                                   .padding = {1, 1},
                                   .stride = {stride, stride},
                                   .no_bias = true};
    const lks_conv2d_opts way = {
        .filters = filters, .kernel = {1, 1}, .stride = {stride, stride}, .no_bias = true};
    lks_tensor *y = lks_relu(g, lks_batch_norm(g, lks_conv2d(g, x, &first), NULL));
    y = lks_batch_norm(g, kept_conv(g, y, filters, 3),
                       &(lks_batch_norm_opts){.momentum = .2f, .epsilon = 1e-3f});
    if (stride != 1) x = lks_batch_norm(g, lks_conv2d(g, x, &way), NULL);
    return lks_relu(g, lks_add(g, x, y));
}

/* A residual network with batch norm. */
static lks_tensor *kept_residual(lks_graph *g)
{
    lks_tensor *x = kept_block(g, kept_conv(g, kept_image(g), 12, 3), 12, 1);
    x = kept_block(g, x, 20, 2);
    return kept_loss(g, lks_global_avg_pool(g, x), .1f);
}

/* The same with batch norm over the whole batch, and with one behind a dense layer. */
static lks_tensor *kept_synced(lks_graph *g)
{
    lks_tensor *x = kept_block(g, kept_conv(g, kept_image(g), 12, 3), 12, 1);
    x = lks_global_avg_pool(g, kept_block(g, x, 20, 2));
    x = lks_tanh(g, lks_batch_norm(g, kept_dense(g, x, 19), NULL));
    return lks_graph_sync_batch_norm(g, NULL) == LKS_OK ? kept_loss(g, x, .1f) : NULL;
}

/* Every activation; gates of channels. */
static lks_tensor *kept_gated(lks_graph *g)
{
    lks_tensor *x = lks_gelu(g, kept_conv(g, kept_image(g), 6, 3), NULL);
    lks_tensor *y = lks_gelu(g, kept_conv(g, x, 6, 3), &(lks_gelu_opts){.form = LKS_GELU_TANH});
    lks_tensor *gate = lks_silu(g, kept_dense(g, lks_global_avg_pool(g, y), 3));
    gate = lks_sigmoid(g, kept_dense(g, gate, 6));
    x = lks_add(g, x, lks_scale(g, lks_mul(g, y, gate), &(lks_scale_opts){.factor = .3f}));
    y = lks_tanh(g, kept_conv(g, x, 6, 3));
    x = lks_mul(g, y, lks_leaky_relu(g, x, &(lks_leaky_relu_opts){.slope = .03f}));
    x = lks_softplus(g, lks_add(g, x, lks_global_avg_pool(g, x)));
    return kept_loss(g, lks_global_avg_pool(g, x), 0);
}

/* Layer norms, branches, average pools. */
static lks_tensor *kept_joined(lks_graph *g)
{
    const lks_pool_opts inside = {
        .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .exclude_padding = true};
    const lks_pool_opts whole = {.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 1}};
    lks_tensor *x = kept_conv(g, kept_image(g), 6, 3);
    lks_tensor *a = lks_relu(g, lks_layer_norm(g, x, NULL));
    lks_tensor *b = lks_layer_norm(g, x, &(lks_layer_norm_opts){.dims = 3, .epsilon = 1e-4f});
    x = lks_concat(g, a, lks_avg_pool(g, b, &inside));
    x = lks_layer_norm(g, lks_avg_pool(g, x, &whole),
                       &(lks_layer_norm_opts){.dims = 2, .no_affine = true});
    x = lks_layer_norm(g, lks_flatten(g, x), NULL);
    return kept_loss(g, x, 0);
}

/* Depthwise and grouped convolutions, strides and dilation. */
static lks_tensor *kept_depthwise(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, kept_conv(g, kept_image(g), 24, 3));
    x = lks_conv2d(
        g, x,
        &(lks_conv2d_opts){
            .name = "depthwise", .filters = 24, .groups = 24, .kernel = {3, 3}, .padding = {1, 1}});
    x = lks_relu(g, lks_batch_norm(g, x, NULL));
    x = lks_conv2d(g, x,
                   &(lks_conv2d_opts){.filters = 24,
                                      .groups = 24,
                                      .kernel = {5, 3},
                                      .stride = {2, 2},
                                      .dilation = {1, 2},
                                      .padding = {2, 2},
                                      .no_bias = true});
    x = lks_relu(
        g, lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 18, .groups = 3, .kernel = {2, 2}}));
    return kept_loss(g, lks_global_avg_pool(g, x), 0);
}

/* Numbers to numbers, and sums of more than 1,024 terms. */
static lks_tensor *kept_regression(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(KEPT_VALUES)});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.1f}, .std = (float[]){.7f}});
    x = lks_tanh(g, kept_dense(g, x, 1100));
    x = lks_dense(g, x, &(lks_dense_opts){.units = 2, .no_bias = true});
    return lks_mse(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2)}));
}

/* The same with losses that grow slower than squares. */
static lks_tensor *kept_lines(lks_graph *g)
{
    lks_tensor *x = kept_dense(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(KEPT_VALUES)}),
                               40);
    x = lks_dense(g, lks_relu(g, x), &(lks_dense_opts){.units = 2});
    return lks_l1(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2)}));
}

static lks_tensor *kept_huber(lks_graph *g)
{
    lks_tensor *x = kept_dense(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(KEPT_VALUES)}),
                               40);
    x = lks_dense(g, lks_relu(g, x), &(lks_dense_opts){.units = 2});
    return lks_huber(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(2)}),
                     &(lks_huber_opts){.delta = 0.3f});
}

/* Convolutions of more than 1,024 terms, both ways, and of more than fit a block of channels. */
static lks_tensor *kept_wide(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, kept_conv(g, kept_image(g), 300, 1));
    x = lks_relu(g, kept_conv(g, x, 9, 3));
    x = lks_relu(g, kept_conv(g, x, 130, 3));
    x = lks_avg_pool(g, kept_conv(g, x, 4, 1), &(lks_pool_opts){.kernel = {12, 10}});
    return kept_loss(g, lks_flatten(g, x), 0);
}

/* Maxima of windows that overlap. */
static lks_tensor *kept_maxima(lks_graph *g)
{
    lks_tensor *x = kept_conv(g, kept_image(g), 7, 3);
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 1}});
    x = lks_relu(g, kept_conv(g, x, 8, 1));
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .37f});
    return kept_loss(g, lks_flatten(g, x), 0);
}

/* Convolutions of 5 x 5 taps by Winograd's algorithm, behind each other, in front of a norm and of pools of both kinds. */
static lks_tensor *kept_five(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, kept_conv(g, kept_image(g), 18, 3));
    x = lks_relu(g, kept_conv(g, x, 17, 5));
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_relu(g, lks_batch_norm(g, kept_conv(g, x, 66, 5), NULL));
    x = lks_relu(g, kept_conv(g, x, 20, 5));
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {3, 3}, .stride = {2, 2}});
    return kept_loss(g, lks_flatten(g, kept_conv(g, x, 16, 5)), 0);
}

/* A dense layer of more than 1,024 inputs of which more than half are zeros. */
static lks_tensor *kept_masked(lks_graph *g)
{
    const lks_conv2d_opts opts = {.filters = 52, .kernel = {4, 3}, .stride = {2, 2}};
    lks_tensor *x = lks_relu(g, lks_conv2d(g, kept_image(g), &opts));
    x = lks_flatten(g, lks_dropout(g, x, &(lks_dropout_opts){.probability = .25f}));
    return kept_loss(g, lks_relu(g, kept_dense(g, x, 70)), 0);
}

/* Every way in which parameters start. */
static lks_tensor *kept_starts(lks_graph *g)
{
    static const lks_init inits[] = {
        {.kind = LKS_INIT_KAIMING_UNIFORM},
        {.kind = LKS_INIT_KAIMING_NORMAL, .slope = .2f, .fan_out = true},
        {.kind = LKS_INIT_XAVIER_UNIFORM},
        {.kind = LKS_INIT_XAVIER_NORMAL, .gain = 1.5f},
        {.kind = LKS_INIT_UNIFORM, .scale = .1f},
        {.kind = LKS_INIT_NORMAL, .scale = .05f},
        {.kind = LKS_INIT_IDENTITY},
        {.kind = LKS_INIT_CONSTANT, .value = .01f},
    };
    lks_tensor *x = lks_conv2d(g, kept_image(g),
                               &(lks_conv2d_opts){.filters = 10,
                                                  .kernel = {7, 5},
                                                  .stride = {3, 2},
                                                  .dilation = {1, 2},
                                                  .weight_init = inits[0],
                                                  .bias_init = {.kind = LKS_INIT_ONES}});
    x = lks_flatten(g, x);
    for (int i = 1; i < 8; i++)
        x = lks_leaky_relu(g,
                           lks_dense(g, x,
                                     &(lks_dense_opts){.units = 13,
                                                       .weight_init = inits[i],
                                                       .bias_init = {.kind = LKS_INIT_ZEROS}}),
                           NULL);
    return kept_loss(g, x, 0);
}

static lks_optim kept_momentum(void)
{
    lks_optim o = lks_sgd(0.9);
    o.nesterov = true;
    o.weight_decay = 1e-3;
    return o;
}

static lks_optim kept_plain(void)
{
    return lks_sgd(0);
}

static lks_optim kept_dampened(void)
{
    lks_optim o = lks_sgd(0.8);
    o.dampening = 0.3;
    return o;
}

/* As MobileNetV2 has it: a residual with more channels inside, that has relu6. */
static lks_tensor *kept_inverted(lks_graph *g)
{
    const lks_conv2d_opts wide = {.filters = 48, .kernel = {1, 1}, .no_bias = true};
    const lks_conv2d_opts deep = {
        .filters = 48, .kernel = {3, 3}, .padding = {1, 1}, .groups = 48, .no_bias = true};
    const lks_conv2d_opts narrow = {.filters = 8, .kernel = {1, 1}, .no_bias = true};
    lks_tensor *x = lks_relu6(g, kept_conv(g, kept_image(g), 8, 3));
    lks_tensor *y = lks_relu6(g, lks_batch_norm(g, lks_conv2d(g, x, &wide), NULL));
    y = lks_relu6(g, lks_batch_norm(g, lks_conv2d(g, y, &deep), NULL));
    y = lks_batch_norm(g, lks_conv2d(g, y, &narrow), NULL);
    return kept_loss(g, lks_global_avg_pool(g, lks_add(g, x, y)), 0);
}

/* Stochastic depth, before an add and behind a pool. */
static lks_tensor *kept_depth(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, kept_conv(g, kept_image(g), 8, 3));
    lks_tensor *y = lks_batch_norm(g, kept_conv(g, x, 8, 1), NULL);
    y = lks_dropout(g, y, &(lks_dropout_opts){.probability = .4f, .by_sample = true});
    x = lks_max_pool(g, lks_relu(g, kept_conv(g, lks_relu(g, lks_add(g, y, x)), 12, 3)),
                     &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .13f, .by_sample = true});
    return kept_loss(g, lks_flatten(g, x), 0);
}

/* Patches as positions, whose norms have no bias. */
static lks_tensor *kept_patches(lks_graph *g)
{
    const lks_conv2d_opts patch = {.filters = 21, .kernel = {2, 2}, .stride = {2, 2}};
    lks_tensor *x = lks_sequence(g, lks_conv2d(g, kept_image(g), &patch));
    x = lks_position(g, x, &(lks_position_opts){.form = LKS_POSITION_SINUSOIDAL});
    lks_tensor *y = lks_silu(g, kept_dense(g, lks_rms_norm(g, x, NULL), 21));
    x = lks_layer_norm(g, lks_add(g, x, y), &(lks_layer_norm_opts){.no_bias = true});
    return kept_loss(g, lks_global_avg_pool(g, x), 0);
}

/* What has been seen behind the last position, and what is at the second. */
static lks_tensor *kept_seen(lks_graph *g)
{
    const lks_conv2d_opts patch = {.filters = 11, .kernel = {2, 2}, .stride = {2, 2}};
    lks_tensor *x = lks_sequence(g, lks_conv2d(g, kept_image(g), &patch));
    lks_tensor *y = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 9});
    y = lks_select(g, y, &(lks_select_opts){.position = -1});
    return kept_loss(g, lks_concat(g, y, lks_select(g, x, &(lks_select_opts){.position = 1})), 0);
}

static lks_optim kept_centered(void)
{
    lks_optim o = lks_rmsprop();
    o.centered = true;
    o.momentum = 0.7;
    o.alpha = 0.9999;
    return o;
}

static lks_optim kept_adadelta(void)
{
    lks_optim o = lks_adadelta();
    o.rho = 0.95;
    o.weight_decay = 1e-4;
    return o;
}

static lks_optim kept_adamp(void)
{
    lks_optim o = lks_adamp();
    o.weight_decay = 0.01;
    o.nesterov = true;
    return o;
}

static lks_optim kept_lars(void)
{
    lks_optim o = lks_lars();
    o.weight_decay = 5e-4;
    o.momentum = 0.9;
    o.trust = 0.02;
    return o;
}

static lks_optim kept_lamb(void)
{
    lks_optim o = lks_lamb();
    o.weight_decay = 0.01;
    return o;
}

static const lks_group kept_groups[] = {
    {.match = "*.bias", .weight_decay = 0, .lr_factor = 0.5},
    {.match = "layer_norm_*", .weight_decay = NAN, .lr_factor = 0},
};

static const kept_network kept_networks[] = {
    {"mlp",
     kept_mlp,
     KEPT_IMAGES,
     31,
     .05,
     kept_momentum,
     {.replicas = 6, .decay_of = LKS_DECAY_WEIGHTS}},
    {"pooled", kept_pooled, KEPT_IMAGES, 20, 1, lks_adadelta, {.replicas = 4}},
    {"residual",
     kept_residual,
     KEPT_IMAGES,
     24,
     1e-3,
     kept_centered,
     {.replicas = 3, .ema_decay = 0.99}},
    {"gated", kept_gated, KEPT_IMAGES, 19, 1e-2, lks_adam, {.replicas = 5, .clip_norm = 0.5}},
    {"joined",
     kept_joined,
     KEPT_IMAGES,
     16,
     1e-2,
     lks_adamw,
     {.replicas = 4, .groups = kept_groups, .group_count = 2}},
    {"depthwise", kept_depthwise, KEPT_IMAGES, 18, 1e-2, kept_adamp, {.replicas = 2}},
    {"regression",
     kept_regression,
     KEPT_NUMBERS,
     90,
     1e-2,
     kept_plain,
     {.replicas = 1, .clip_value = 0.01}},
    {"lines", kept_lines, KEPT_NUMBERS, 30, 1e-2, lks_adam, {.replicas = 4}},
    {"huber", kept_huber, KEPT_NUMBERS, 31, 1e-2, lks_adam, {.replicas = 3}},
    {"frames", kept_frames, KEPT_NUMBERS, 9, 1e-2, lks_adam, {.replicas = 2}},
    {"wide",
     kept_wide,
     KEPT_IMAGES,
     7,
     .02,
     kept_dampened,
     {.replicas = 3, .kernels.single = true}},
    {"lenet", kept_lenet, KEPT_IMAGES, 22, 1e-2, lks_adam, {.replicas = 3}},
    {"maxima", kept_maxima, KEPT_IMAGES, 23, .5, kept_adadelta, {.replicas = 8}},
    {"starts",
     kept_starts,
     KEPT_IMAGES,
     15,
     1e-3,
     lks_rmsprop,
     {.replicas = 2, .accumulate = 3, .skip_not_finite = true}},
    {"lars", kept_residual, KEPT_IMAGES, 26, .5, kept_lars, {.replicas = 4, .clip_norm = 0.5}},
    {"lamb", kept_mlp, KEPT_IMAGES, 33, 1e-2, kept_lamb, {.replicas = 3}},
    {"large-share", kept_mlp, KEPT_IMAGES, 150, .1, kept_plain, {.replicas = 2}},
    {"synced", kept_synced, KEPT_IMAGES, 21, .02, kept_momentum, {.replicas = 6, .ema_decay = 0.9}},
    {"masked", kept_masked, KEPT_IMAGES, 70, .05, kept_momentum, {.replicas = 2}},
    {"inverted", kept_inverted, KEPT_IMAGES, 17, .05, kept_momentum, {.replicas = 3}},
    {"depth", kept_depth, KEPT_IMAGES, 37, .05, kept_momentum, {.replicas = 4}},
    {"patches", kept_patches, KEPT_IMAGES, 33, 1e-2, lks_adamw, {.replicas = 4}},
    {"seen", kept_seen, KEPT_IMAGES, 21, 1e-2, lks_adamw, {.replicas = 3}},
    {"five", kept_five, KEPT_IMAGES, 22, .02, kept_momentum, {.replicas = 3}},
    {"absent", kept_residual, KEPT_IMAGES, 5, .05, kept_momentum, {.replicas = 8, .clip_norm = 10}},
    {"rounded",
     kept_residual,
     KEPT_IMAGES,
     24,
     .05,
     kept_momentum,
     {.replicas = 3, .kernels.bf16 = true}},
    {"rounded-mlp",
     kept_mlp,
     KEPT_IMAGES,
     70,
     1e-2,
     lks_adam,
     {.replicas = 2, .kernels.bf16 = true}},
    {"stored",
     kept_residual,
     KEPT_IMAGES,
     24,
     .05,
     kept_momentum,
     {.replicas = 3, .kernels.bf16_storage = true}},
    {"recurrent", kept_recurrent, KEPT_TOKENS, 31, 1e-2, lks_adam, {.replicas = 4}},
    {"held", kept_held, KEPT_TOKENS, 26, 1e-2, lks_adam, {.replicas = 4}},
    {"attention", kept_attention, KEPT_TOKENS, 30, 1e-2, lks_adamw, {.replicas = 4}},
    {"carried", kept_carried, KEPT_TOKENS, 22, .5, kept_momentum, {.replicas = 5}},
    {"tokens", kept_tokens, KEPT_TOKENS, 29, 1e-2, lks_adamw, {.replicas = 5}},
    {"tied", kept_tied, KEPT_TOKENS, 27, 1e-2, lks_adamw, {.replicas = 4, .clip_norm = .5}},
};
enum { KEPT_NETWORKS = sizeof kept_networks / sizeof kept_networks[0] };

#endif
