/* VGG (Simonyan, Zisserman, 2014), as torchvision has it; for small images with one dense layer behind the
 * convolutions, as is usual for CIFAR. */
#include "models/layers.h"

typedef struct variant {
    int convolutions[5]; /* in front of each pool */
    bool norm;
} variant;

static const lki_attribute attributes[] = {
    LKI_ZOO_STEM("auto cifar imagenet"),
    LKI_ZOO_DROPOUT("0.5 twice"),
};

static lks_tensor *features(const lki_zoo_net *net, lks_tensor *x, const variant *v)
{
    static const int64_t widths[5] = {64, 128, 256, 512, 512};
    char name[LKI_ZOO_NAME];
    int index = 0; /* in torchvision's list */
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < v->convolutions[stage]; i++) {
            x = lki_zoo_conv(net, x, lki_zoo_name(name, "features.%d", index++),
                             (lki_zoo_window){widths[stage], 3, 1, 1, 1}, true);
            if (v->norm) x = lki_zoo_norm(net, x, lki_zoo_name(name, "features.%d", index++));
            x = lks_relu(net->graph, x);
            index++;
        }
        x = lki_zoo_max_pool(net, x, 2, 2, 0);
        index++;
    }
    return x;
}

static lks_tensor *build_vgg(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                             const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &lki_zoo_kaiming_small_head};
    x = lki_zoo_image(&net, x);
    const bool small = lki_zoo_small(x, opts);
    x = features(&net, x, self->variant);
    if (small)
        return lki_zoo_dense(&net, lks_flatten(graph, x), "classifier",
                             opts->outputs ? opts->outputs : 10);
    x = lks_flatten(graph, lki_zoo_pool_to(&net, x, 7));
    x = lks_relu(graph, lki_zoo_dense(&net, x, "classifier.0", 4096));
    x = lki_zoo_dropout(&net, x, opts, 0.5f);
    x = lks_relu(graph, lki_zoo_dense(&net, x, "classifier.3", 4096));
    x = lki_zoo_dropout(&net, x, opts, 0.5f);
    return lki_zoo_dense(&net, x, "classifier.6", opts->outputs ? opts->outputs : 1000);
}

#define NETWORK(name_, norm_, what_, ...)                                                          \
    static const variant name_ = {__VA_ARGS__, norm_};                                             \
    const lki_zoo_network lki_zoo_##name_ = {                                                      \
        .name = #name_,                                                                            \
        .bytes = sizeof(lks_network_opts),                                                         \
        .outputs = offsetof(lks_network_opts, outputs),                                            \
        .attributes = LKI_ATTRIBUTES(attributes),                                                  \
        .build = build_vgg,                                                                        \
        .variant = &name_,                                                                         \
        .what = what_,                                                                             \
        .image = LKI_ZOO_IMAGENET,                                                                 \
        .classes = 1000,                                                                           \
    }
NETWORK(vgg11, false, "3x3 convolutions between pools", {1, 1, 2, 2, 2});
NETWORK(vgg13, false, "3x3 convolutions between pools", {2, 2, 2, 2, 2});
NETWORK(vgg16, false, "3x3 convolutions between pools", {2, 2, 3, 3, 3});
NETWORK(vgg19, false, "3x3 convolutions between pools", {2, 2, 4, 4, 4});
NETWORK(vgg11_bn, true, "vgg11 with batch norm", {1, 1, 2, 2, 2});
NETWORK(vgg13_bn, true, "vgg13 with batch norm", {2, 2, 2, 2, 2});
NETWORK(vgg16_bn, true, "vgg16 with batch norm", {2, 2, 3, 3, 3});
NETWORK(vgg19_bn, true, "vgg19 with batch norm", {2, 2, 4, 4, 4});
