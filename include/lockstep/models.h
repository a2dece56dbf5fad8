/* The model zoo: networks by name, written on graph.h alone. */
#ifndef LOCKSTEP_MODELS_H
#define LOCKSTEP_MODELS_H

#include <lockstep/graph.h>

/* What there is, once: X(name) for lks_<name>(), which a configuration calls so. */
#define LKS_NETWORKS(X)                                                                            \
    X(mnist_cnn)                                                                                   \
    X(mlp)

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
