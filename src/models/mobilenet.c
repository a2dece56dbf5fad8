/* MobileNetV2 (Sandler et al., 2018), as torchvision has it; for small images its first convolution and the blocks of
 * 24 channels keep the size, as is usual for CIFAR, so that 32x32 pixels end as 4x4. */
#include "models/layers.h"

static const lki_attribute attributes[] = {
    LKI_ZOO_STEM("auto cifar imagenet"),
    LKI_ZOO_DROPOUT("0.2"),
};

/* An inverted residual: `expand` times as many channels, a depthwise convolution, and `out` channels without an
 * activation; x is added where it fits. */
typedef struct inverted {
    char path[LKI_ZOO_NAME];
    int64_t expand, out, stride;
} inverted;

/* The convolution `at` of a block, with batch norm and relu6. */
static lks_tensor *active(const lki_zoo_net *net, lks_tensor *x, const char *path,
                          lki_zoo_window window)
{
    char name[LKI_ZOO_NAME];
    x = lki_zoo_conv(net, x, lki_zoo_name(name, "%s.0", path), window, false);
    return lks_relu6(net->graph, lki_zoo_norm(net, x, lki_zoo_name(name, "%s.1", path)));
}

static lks_tensor *mobilenet_block(const lki_zoo_net *net, lks_tensor *x, const inverted *b)
{
    char name[LKI_ZOO_NAME];
    int at = 0;
    if (x == NULL) return NULL;
    const int64_t in = lks_tensor_shape(x).dim[2], wide = in * b->expand;
    lks_tensor *y = x;
    if (b->expand != 1)
        y = active(net, y, lki_zoo_name(name, "%s.%d", b->path, at++),
                   (lki_zoo_window){.filters = wide, .kernel = 1});
    y = active(net, y, lki_zoo_name(name, "%s.%d", b->path, at++),
               (lki_zoo_window){wide, 3, b->stride, 1, wide});
    y = lki_zoo_conv(net, y, lki_zoo_name(name, "%s.%d", b->path, at++),
                     (lki_zoo_window){.filters = b->out, .kernel = 1}, false);
    y = lki_zoo_norm(net, y, lki_zoo_name(name, "%s.%d", b->path, at));
    return b->stride == 1 && in == b->out ? lks_add(net->graph, x, y) : y;
}

static lks_tensor *build_mobilenet(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                   const void *opts_)
{
    static const struct {
        int64_t expand, out, blocks, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &lki_zoo_kaiming_small_head};
    int index = 1; /* in torchvision's list */
    x = lki_zoo_image(&net, x);
    const bool small = lki_zoo_small(x, opts);
    x = active(&net, x, "features.0", (lki_zoo_window){32, 3, small ? 1 : 2, 1, 1});
    for (size_t stage = 0; stage < sizeof stages / sizeof stages[0]; stage++) {
        for (int64_t i = 0; i < stages[stage].blocks; i++) {
            inverted b = {.expand = stages[stage].expand,
                          .out = stages[stage].out,
                          .stride = i > 0 || (small && stage == 1) ? 1 : stages[stage].stride};
            lki_zoo_name(b.path, "features.%d.conv", index++);
            x = mobilenet_block(&net, x, &b);
        }
    }
    x = active(&net, x, "features.18", (lki_zoo_window){.filters = 1280, .kernel = 1});
    x = lki_zoo_dropout(&net, lks_global_avg_pool(graph, x), opts, 0.2f);
    return lki_zoo_dense(&net, x, "classifier.1",
                         opts->outputs ? opts->outputs
                         : small       ? 10
                                       : 1000);
}

const lki_zoo_network lki_zoo_mobilenet_v2 = {
    .name = "mobilenet_v2",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .attributes = LKI_ATTRIBUTES(attributes),
    .build = build_mobilenet,
    .what = "inverted residuals with depthwise convolutions and relu6",
    .image = LKI_ZOO_IMAGENET,
    .classes = 1000,
};
