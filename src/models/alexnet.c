/* AlexNet in the form of "One weird trick" (Krizhevsky, 2014), as torchvision has it. */
#include "models/layers.h"

static const lki_attribute attributes[] = {LKI_ZOO_DROPOUT("0.5 twice")};

static lks_tensor *build_alexnet(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                 const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &lki_zoo_plain};
    x = lki_zoo_image(&net, x);
    x = lki_zoo_conv(&net, x, "features.0", (lki_zoo_window){64, 11, 4, 2, 1}, true);
    x = lki_zoo_max_pool(&net, lks_relu(graph, x), 3, 2, 0);
    x = lki_zoo_conv(&net, x, "features.3", (lki_zoo_window){192, 5, 1, 2, 1}, true);
    x = lki_zoo_max_pool(&net, lks_relu(graph, x), 3, 2, 0);
    x = lki_zoo_conv(&net, x, "features.6", (lki_zoo_window){384, 3, 1, 1, 1}, true);
    x = lks_relu(graph, x);
    x = lki_zoo_conv(&net, x, "features.8", (lki_zoo_window){256, 3, 1, 1, 1}, true);
    x = lks_relu(graph, x);
    x = lki_zoo_conv(&net, x, "features.10", (lki_zoo_window){256, 3, 1, 1, 1}, true);
    x = lki_zoo_max_pool(&net, lks_relu(graph, x), 3, 2, 0);
    x = lks_flatten(graph, lki_zoo_pool_to(&net, x, 6));
    x = lki_zoo_dropout(&net, x, opts, 0.5f);
    x = lks_relu(graph, lki_zoo_dense(&net, x, "classifier.1", 4096));
    x = lki_zoo_dropout(&net, x, opts, 0.5f);
    x = lks_relu(graph, lki_zoo_dense(&net, x, "classifier.4", 4096));
    return lki_zoo_dense(&net, x, "classifier.6", opts->outputs ? opts->outputs : 1000);
}

const lki_zoo_network lki_zoo_alexnet = {
    .name = "alexnet",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .attributes = LKI_ATTRIBUTES(attributes),
    .build = build_alexnet,
    .what = "five convolutions, three dense layers",
    .image = LKI_ZOO_IMAGENET,
    .classes = 1000,
};
