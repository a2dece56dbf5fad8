/* Needle's ResNet9 (dlsyscourse.org): eight convolutions with bias, batch norm and relu, no relu behind a sum. */
#include <math.h>

#include "models/layers.h"

/* Kaiming's bounds; a dense layer's bias is drawn as if its outputs were its inputs. */
static const lki_zoo_style needle = {
    .conv = {.kind = LKS_INIT_KAIMING_UNIFORM},
    .dense = {.kind = LKS_INIT_KAIMING_UNIFORM},
};

static lks_tensor *needle_conv(const lki_zoo_net *net, lks_tensor *x, int number,
                               lki_zoo_window window)
{
    char name[LKI_ZOO_NAME];
    window.padding = window.kernel / 2;
    x = lki_zoo_conv(net, x, lki_zoo_name(name, "conv%d", number), window, true);
    return lks_relu(net->graph, lki_zoo_norm(net, x, lki_zoo_name(name, "bn%d", number)));
}

static lks_tensor *residual(const lki_zoo_net *net, lks_tensor *x, int number, int64_t filters)
{
    const lki_zoo_window same = {.filters = filters, .kernel = 3};
    return lks_add(net->graph, x,
                   needle_conv(net, needle_conv(net, x, number, same), number + 1, same));
}

static lks_tensor *head(const lki_zoo_net *net, lks_tensor *x, const char *name, int64_t units)
{
    const float bound = (float)sqrt(6.0 / (double)units);
    return lks_dense(net->graph, x,
                     &(lks_dense_opts){.name = name,
                                       .units = units,
                                       .weight_init = net->style->dense,
                                       .bias_init = {.kind = LKS_INIT_UNIFORM, .scale = bound}});
}

static lks_tensor *build_resnet9(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                 const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &needle};
    x = lki_zoo_image(&net, x);
    x = needle_conv(&net, x, 1, (lki_zoo_window){.filters = 16, .kernel = 7, .stride = 4});
    x = needle_conv(&net, x, 2, (lki_zoo_window){.filters = 32, .kernel = 3, .stride = 2});
    x = residual(&net, x, 3, 32);
    x = needle_conv(&net, x, 5, (lki_zoo_window){.filters = 64, .kernel = 3, .stride = 2});
    x = needle_conv(&net, x, 6, (lki_zoo_window){.filters = 128, .kernel = 3, .stride = 2});
    x = residual(&net, x, 7, 128);
    x = lks_relu(graph, head(&net, lks_flatten(graph, x), "fc1", 128));
    return head(&net, x, "fc2", opts->outputs ? opts->outputs : 10);
}

const lki_zoo_network lki_zoo_resnet9 = {
    .name = "resnet9",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .build = build_resnet9,
    .what = "Needle's small residual network",
    .image = LKI_ZOO_CIFAR,
    .classes = 10,
};
