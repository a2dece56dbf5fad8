/* The model zoo: networks by name, written on graph.h alone. */
#ifndef LOCKSTEP_MODELS_H
#define LOCKSTEP_MODELS_H

#include <lockstep/graph.h>

/* What there is, once: X(name) for each; lks_network() and configurations call it so. */
#define LKS_NETWORKS(X)                                                                            \
    X(mnist_cnn)                                                                                   \
    X(mlp)                                                                                         \
    X(lenet5)                                                                                      \
    X(resnet9)                                                                                     \
    X(resnet18)                                                                                    \
    X(resnet34)                                                                                    \
    X(resnet50)                                                                                    \
    X(resnet101)                                                                                   \
    X(resnet152)                                                                                   \
    X(wide_resnet50_2)                                                                             \
    X(wide_resnet101_2)                                                                            \
    X(wrn28_10)                                                                                    \
    X(alexnet)                                                                                     \
    X(vgg11)                                                                                       \
    X(vgg13)                                                                                       \
    X(vgg16)                                                                                       \
    X(vgg19)                                                                                       \
    X(vgg11_bn)                                                                                    \
    X(vgg13_bn)                                                                                    \
    X(vgg16_bn)                                                                                    \
    X(vgg19_bn)                                                                                    \
    X(mobilenet_v2)                                                                                \
    X(airbench)                                                                                    \
    X(gpt)                                                                                         \
    X(encoder)                                                                                     \
    X(vit)                                                                                         \
    X(lstm_lm)                                                                                     \
    X(gru_lm)                                                                                      \
    X(rnn_lm)                                                                                      \
    X(needle_transformer)

#ifdef __cplusplus
extern "C" {
#endif

/* What the network begins and, for VGG, ends with: for small images (3x3, stride 1; one dense layer), or as
 * published for ImageNet. AUTO: the former for images of at most 64 rows and columns. UNPOOLED, of ResNets: as
 * published, with stride 1 and without the pooling. */
typedef enum lks_stem {
    LKS_STEM_AUTO,
    LKS_STEM_CIFAR,
    LKS_STEM_IMAGENET,
    LKS_STEM_UNPOOLED
} lks_stem;

typedef struct lks_network_opts {
    int64_t outputs; /* default: 1000 as published for ImageNet, else 10 */
    lks_stem stem; /* of those that have both: resnet18 to 152, wide_resnet*, vgg*, mobilenet_v2 */
    bool no_dropout; /* of those that have any */
    float drop_path; /* stochastic depth, of networks of residual blocks that add their input
                        (resnet18 to 152, wide_resnet*, wrn28_10): in training block l of L is left out of
                        a sample with the probability drop_path * l / L, what is kept scaled up; default 0 */
} lks_network_opts;
/*
 * Any of them: logits of the image x (log-probabilities of mnist_cnn). Names of parameters are those of
 * PyTorch's MNIST example, of torchvision (resnet18 to 152, wide_resnet*, alexnet, vgg*, mobilenet_v2), and of the
 * published sources of wrn28_10 and airbench, so that state dicts are read and written as they are. All
 * but airbench's start as they do there, too. docs/networks.md has what each is. gpt and encoder take tokens; what else they and
 * vit may be is said with lks_gpt().
 */
LKS_API lks_tensor *lks_network(lks_graph *graph, lks_tensor *x, const char *name,
                                const lks_network_opts *opts);

/*
 * conv1 3x3 32, relu, conv2 3x3 64, relu, max_pool 2, dropout 0.25, flatten, fc1 128, relu, dropout
 * 0.5, fc2, log_softmax: log-probabilities of `classes` (default 10). x is an image. Parameters
 * have the names of PyTorch's MNIST example.
 */
typedef struct lks_mnist_cnn_opts {
    int64_t classes;
    bool no_dropout;
} lks_mnist_cnn_opts;
LKS_API lks_tensor *lks_mnist_cnn(lks_graph *graph, lks_tensor *x, const lks_mnist_cnn_opts *opts);

/* Dense layers fc1, fc2, ... with relu between them; the last has `outputs` units and no relu. An
 * image is flattened first. */
#define LKS_MLP_MAX_HIDDEN 16
typedef struct lks_mlp_opts {
    int hidden_count;
    int64_t hidden[LKS_MLP_MAX_HIDDEN];
    int64_t outputs; /* default 10 */
    float dropout;   /* after every relu; default none */
} lks_mlp_opts;
LKS_API lks_tensor *lks_mlp(lks_graph *graph, lks_tensor *x, const lks_mlp_opts *opts);

/*
 * Transformers. Each block is x += attention(norm(x)), x += mlp(norm(x)), with a norm behind the last (post_norm: x = norm(x +
 * attention(x)), ..., and none). Weights start as N(0, 0.02), biases as 0; those whose output is added as N(0, 0.02 /
 * sqrt(residual_layers)).
 */
typedef enum lks_transformer_norm { LKS_NORM_LAYER, LKS_NORM_RMS } lks_transformer_norm;
typedef enum lks_transformer_mlp {
    LKS_MLP_GELU,
    LKS_MLP_GELU_TANH,
    LKS_MLP_RELU,
    LKS_MLP_SWIGLU /* silu(gate(x)) * up(x), a third matrix */
} lks_transformer_mlp;
typedef struct lks_transformer_opts {
    const char *name; /* lks_transformer_block: required, and the only one that has it */
    int64_t outputs;  /* gpt: the vocabulary, default 50257; others: default 10 */
    int64_t depth;    /* blocks; default 12 */
    int64_t heads;    /* default 12; they divide the width */
    int64_t kv_heads; /* of keys and values; default: heads */
    int64_t width;    /* channels of a position; default 768, of a block those of x */
    int64_t inner;    /* units of the mlp; default 4 width, of SWIGLU 8/3, to a multiple of 8 */
    int64_t patch;    /* vit: rows and columns of a patch; default 16 */
    lks_transformer_norm norm;
    lks_transformer_mlp activation;
    float rotary;  /* as lks_attention_opts', in the place of learned positions; default 0 */
    float dropout; /* of the embedding, attention's weights, and what is added; default 0 */
    bool post_norm;
    bool causal;     /* gpt is in any case */
    bool no_bias;    /* of norms and dense layers, but for the head of encoder and vit */
    bool masked;     /* encoder: attention and mean leave padding out, of frames lks_masking()'s */
    int64_t padding; /* of tokens: which; default 0 */
    int64_t residual_layers; /* sums of the network, two in a block; default 1; gpt: 2 depth */
    bool class_token; /* encoder, vit: the first position in place of the mean: tokens begin with
                         one of the class; in front of others stands a learned one */
} lks_transformer_opts;
/* A block behind x (positions, channels). Names of its layers are those of encoder behind its own: "NAME.norm1", "NAME.attn.qkv",
 * ... Padding (masked) is looked for in tokens, as lks_attention() has them, or NULL. */
LKS_API lks_tensor *lks_transformer_block(lks_graph *graph, lks_tensor *x, lks_tensor *tokens,
                                          const lks_transformer_opts *opts);
/* Logits of the next token at each position. The head has the weight of the embedding. Parameters have the names of nanoGPT
 * and of Hugging Face's GPT-2 ("transformer.h.0.attn.c_attn.weight"), with nanoGPT's shapes; lks_weights_load() reads both. */
LKS_API lks_tensor *lks_gpt(lks_graph *graph, lks_tensor *tokens, const lks_transformer_opts *opts);
/* Logits of a sample: of tokens, or of floats by position (positions, channels), the mean over positions. */
LKS_API lks_tensor *lks_encoder(lks_graph *graph, lks_tensor *x, const lks_transformer_opts *opts);
/* Logits of an image, whose patches are positions. */
LKS_API lks_tensor *lks_vit(lks_graph *graph, lks_tensor *x, const lks_transformer_opts *opts);

/*
 * lstm_lm, gru_lm, rnn_lm: a language model of tokens x, an output for each word of the vocabulary at every position.
 * Embedding encoder, recurrent layers rnn, dense decoder: the names of PyTorch's word_language_model.
 */
typedef struct lks_language_model_opts {
    int64_t outputs;        /* words of the vocabulary; default 10,000, as of the Penn Treebank */
    int64_t embedding_size; /* default 200 */
    int64_t hidden_size;    /* default 200 */
    int64_t num_layers;     /* default 2 */
    float dropout;          /* on embeddings, between layers, in front of decoder; default none */
    float init_scale;       /* all parameters uniform in +- this; default 0: as PyTorch's layers */
    bool carry_state;       /* lks_recurrent_opts.carry_state */
} lks_language_model_opts;
LKS_API lks_tensor *lks_language_model(lks_graph *graph, lks_tensor *x, const char *name,
                                       const lks_language_model_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
