#include "models/zoo.h"

static const lki_attribute attributes[] = {
    {.name = "dropout",
     .type = LKI_NOT,
     .offset = offsetof(lks_mnist_cnn_opts, no_dropout),
     .size = sizeof(bool),
     .help = "0.25 and 0.5"},
};

static lks_tensor *build_mnist_cnn(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                   const void *opts)
{
    (void)self;
    return lks_mnist_cnn(graph, x, opts);
}

const lki_zoo_network lki_zoo_mnist_cnn = {
    .name = "mnist_cnn",
    .bytes = sizeof(lks_mnist_cnn_opts),
    .outputs = offsetof(lks_mnist_cnn_opts, classes),
    .attributes = LKI_ATTRIBUTES(attributes),
    .build = build_mnist_cnn,
    .what = "PyTorch's example for MNIST",
    .image = LKI_ZOO_MNIST,
    .classes = 10,
};

lks_tensor *lks_mnist_cnn(lks_graph *graph, lks_tensor *x, const lks_mnist_cnn_opts *opts)
{
    const int64_t classes = opts && opts->classes ? opts->classes : 10;
    const bool dropout = !(opts && opts->no_dropout);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.name = "conv1", .filters = 32, .kernel = {3, 3}});
    x = lks_relu(graph, x);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.name = "conv2", .filters = 64, .kernel = {3, 3}});
    x = lks_relu(graph, x);
    x = lks_max_pool(graph, x, &(lks_pool_opts){.kernel = {2, 2}});
    if (dropout) {
        x = lks_dropout(graph, x, &(lks_dropout_opts){.name = "dropout1", .probability = 0.25f});
    }
    x = lks_flatten(graph, x);
    x = lks_dense(graph, x, &(lks_dense_opts){.name = "fc1", .units = 128});
    x = lks_relu(graph, x);
    if (dropout) {
        x = lks_dropout(graph, x, &(lks_dropout_opts){.name = "dropout2", .probability = 0.5f});
    }
    x = lks_dense(graph, x, &(lks_dense_opts){.name = "fc2", .units = classes});
    return lks_log_softmax(graph, x);
}
