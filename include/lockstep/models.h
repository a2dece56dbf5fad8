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
    X(airbench)

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
    lks_stem
        stem; /* of networks that have both: resnet18 to 152, wide_resnet*, vgg*, mobilenet_v2 */
    bool no_dropout; /* of those that have any */
    float
        drop_path; /* stochastic depth, of networks of residual blocks that add their input (resnet18 to 152,
                        wide_resnet*, wrn28_10): in training block l of L is left out of a sample with the probability
                        drop_path * l / L, what is kept scaled up; default 0 */
} lks_network_opts;
/*
 * Any of them: logits of the image x (log-probabilities of mnist_cnn). Names of parameters are those of
 * PyTorch's MNIST example, of torchvision (resnet18 to 152, wide_resnet*, alexnet, vgg*, mobilenet_v2), and of the
 * published sources of wrn28_10 and airbench, so that state dicts are read and written as they are. All
 * but airbench's start as they do there, too. docs/networks.md has what each is.
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

#ifdef __cplusplus
}
#endif
#endif
