/* Wide ResNet for CIFAR (Zagoruyko, Komodakis, 2016): norm and relu stand before each convolution. Names as in
 * the usual PyTorch source (xternalz/WideResNet-pytorch). */
#include "models/layers.h"

enum { STAGES = 3, BLOCKS = 4, WIDEN = 10 }; /* of a stage: (28 - 4) / 6 */

static const lki_attribute attributes[] = {LKI_ZOO_DROP_PATH};

static const lki_zoo_style style = {
    .conv = {.kind = LKS_INIT_KAIMING_NORMAL, .fan_out = true},
    .dense_bias = {.kind = LKS_INIT_ZEROS},
};

static lks_tensor *norm_relu(const lki_zoo_net *net, lks_tensor *x, const char *path, int number)
{
    char name[LKI_ZOO_NAME];
    return lks_relu(net->graph, lki_zoo_norm(net, x, lki_zoo_name(name, "%s.bn%d", path, number)));
}

static lks_tensor *conv(const lki_zoo_net *net, lks_tensor *x, const char *path, const char *which,
                        lki_zoo_window window)
{
    char name[LKI_ZOO_NAME];
    return lki_zoo_conv(net, x, lki_zoo_name(name, "%s.%s", path, which), window, false);
}

/* Of all blocks number `number`, from 1. Where the shape changes, the side is projected behind the first norm. */
static lks_tensor *add_block(const lki_zoo_net *net, lks_tensor *x, const lks_network_opts *opts,
                             int number)
{
    const int stage = (number - 1) / BLOCKS, i = (number - 1) % BLOCKS;
    const int64_t filters = (int64_t)(16 * WIDEN) << stage, stride = stage > 0 && i == 0 ? 2 : 1;
    const bool projects = i == 0;
    char path[LKI_ZOO_NAME];
    lki_zoo_name(path, "block%d.layer.%d", stage + 1, i);
    lks_tensor *y = norm_relu(net, x, path, 1), *side = projects ? y : x;
    y = conv(net, y, path, "conv1", (lki_zoo_window){filters, 3, stride, 1, 1});
    y = conv(net, norm_relu(net, y, path, 2), path, "conv2", (lki_zoo_window){filters, 3, 1, 1, 1});
    if (projects)
        side = conv(net, side, path, "convShortcut", (lki_zoo_window){filters, 1, stride, 0, 1});
    return lks_add(net->graph, side, lki_zoo_drop_path(net, y, opts, number, STAGES * BLOCKS));
}

static lks_tensor *build_wrn(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                             const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &style};
    x = lki_zoo_image(&net, x);
    x = lki_zoo_conv(&net, x, "conv1", (lki_zoo_window){16, 3, 1, 1, 1}, false);
    for (int number = 1; number <= STAGES * BLOCKS; number++) x = add_block(&net, x, opts, number);
    x = lks_relu(graph, lki_zoo_norm(&net, x, "bn1"));
    x = lks_global_avg_pool(graph, x);
    return lki_zoo_dense(&net, x, "fc", opts->outputs ? opts->outputs : 10);
}

const lki_zoo_network lki_zoo_wrn28_10 = {
    .name = "wrn28_10",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .attributes = LKI_ATTRIBUTES(attributes),
    .build = build_wrn,
    .what = "28 layers, ten times as wide, for CIFAR",
    .image = LKI_ZOO_CIFAR,
    .classes = 10,
};
