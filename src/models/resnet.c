/* ResNet (He et al., 2015) and Wide ResNet-50-2, -101-2 (Zagoruyko, Komodakis, 2016), as torchvision has them:
 * in a bottleneck the 3x3 convolution has the stride. */
#include "models/layers.h"

typedef struct variant {
    int blocks[4];
    bool bottleneck;
    int64_t width; /* of the inner convolutions of a bottleneck, to 64 */
} variant;

static const lki_attribute attributes[] = {LKI_ZOO_STEM("auto cifar imagenet unpooled"),
                                           LKI_ZOO_DROP_PATH};

typedef struct block {
    char path[LKI_ZOO_NAME];
    int64_t planes, stride, width;
    bool bottleneck, projects;
    int number, of; /* of all blocks, from 1 */
} block;

static lks_tensor *resnet_conv(const lki_zoo_net *net, lks_tensor *x, const block *b, int number,
                               lki_zoo_window window)
{
    char name[LKI_ZOO_NAME];
    x = lki_zoo_conv(net, x, lki_zoo_name(name, "%s.conv%d", b->path, number), window, false);
    return lki_zoo_norm(net, x, lki_zoo_name(name, "%s.bn%d", b->path, number));
}

static lks_tensor *add_block(const lki_zoo_net *net, lks_tensor *x, const block *b,
                             const lks_network_opts *opts)
{
    lks_graph *g = net->graph;
    lks_tensor *side = x, *y;
    char name[LKI_ZOO_NAME];
    const int64_t out = b->bottleneck ? 4 * b->planes : b->planes;
    if (b->bottleneck) {
        const int64_t width = b->planes * b->width / 64;
        y = lks_relu(g, resnet_conv(net, x, b, 1, (lki_zoo_window){.filters = width, .kernel = 1}));
        y = lks_relu(g, resnet_conv(net, y, b, 2, (lki_zoo_window){width, 3, b->stride, 1, 1}));
        y = resnet_conv(net, y, b, 3, (lki_zoo_window){.filters = out, .kernel = 1});
    } else {
        y = lks_relu(g, resnet_conv(net, x, b, 1, (lki_zoo_window){out, 3, b->stride, 1, 1}));
        y = resnet_conv(net, y, b, 2, (lki_zoo_window){out, 3, 1, 1, 1});
    }
    if (b->projects) {
        side = lki_zoo_conv(net, x, lki_zoo_name(name, "%s.downsample.0", b->path),
                            (lki_zoo_window){out, 1, b->stride, 0, 1}, false);
        side = lki_zoo_norm(net, side, lki_zoo_name(name, "%s.downsample.1", b->path));
    }
    y = lki_zoo_drop_path(net, y, opts, b->number, b->of);
    return lks_relu(g, lks_add(g, y, side));
}

static lks_tensor *build_resnet(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const variant *v = self->variant;
    const lki_zoo_net net = {graph, self->name, &lki_zoo_kaiming};
    x = lki_zoo_image(&net, x);
    const bool small = lki_zoo_small(x, opts), pools = !small && opts->stem != LKS_STEM_UNPOOLED;
    x = lki_zoo_conv(&net, x, "conv1",
                     small ? (lki_zoo_window){64, 3, 1, 1, 1}
                           : (lki_zoo_window){64, 7, pools ? 2 : 1, 3, 1},
                     false);
    x = lks_relu(graph, lki_zoo_norm(&net, x, "bn1"));
    if (pools) x = lki_zoo_max_pool(&net, x, 3, 2, 1);
    int number = 0, blocks = 0;
    for (int stage = 0; stage < 4; stage++) blocks += v->blocks[stage];
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < v->blocks[stage]; i++) {
            block b = {.planes = (int64_t)64 << stage,
                       .stride = stage > 0 && i == 0 ? 2 : 1,
                       .width = v->width,
                       .bottleneck = v->bottleneck,
                       .projects = i == 0 && (stage > 0 || v->bottleneck),
                       .number = ++number,
                       .of = blocks};
            lki_zoo_name(b.path, "layer%d.%d", stage + 1, i);
            x = add_block(&net, x, &b, opts);
        }
    }
    x = lks_global_avg_pool(graph, x);
    return lki_zoo_dense(&net, x, "fc", opts->outputs ? opts->outputs : small ? 10 : 1000);
}

#define NETWORK(name_, what_, ...)                                                                 \
    static const variant name_ = __VA_ARGS__;                                                      \
    const lki_zoo_network lki_zoo_##name_ = {                                                      \
        .name = #name_,                                                                            \
        .bytes = sizeof(lks_network_opts),                                                         \
        .outputs = offsetof(lks_network_opts, outputs),                                            \
        .attributes = LKI_ATTRIBUTES(attributes),                                                  \
        .build = build_resnet,                                                                     \
        .variant = &name_,                                                                         \
        .what = what_,                                                                             \
        .image = LKI_ZOO_IMAGENET,                                                                 \
        .classes = 1000,                                                                           \
    }
NETWORK(resnet18, "residual blocks of two 3x3 convolutions", {{2, 2, 2, 2}, false, 64});
NETWORK(resnet34, "residual blocks of two 3x3 convolutions", {{3, 4, 6, 3}, false, 64});
NETWORK(resnet50, "residual bottlenecks", {{3, 4, 6, 3}, true, 64});
NETWORK(resnet101, "residual bottlenecks", {{3, 4, 23, 3}, true, 64});
NETWORK(resnet152, "residual bottlenecks", {{3, 8, 36, 3}, true, 64});
NETWORK(wide_resnet50_2, "resnet50 with bottlenecks twice as wide", {{3, 4, 6, 3}, true, 128});
NETWORK(wide_resnet101_2, "resnet101 with bottlenecks twice as wide", {{3, 4, 23, 3}, true, 128});
