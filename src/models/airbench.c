/* The network of airbench94 (Jordan, 2024): small, for CIFAR in seconds. Names as in its source, an
 * nn.Sequential. Its first convolution is started there from the data and not trained (model.whiten and
 * model.freeze of a recipe), norms' weights are not trained; here all of them are, unless a configuration says so. Its 3x3 convolutions begin as
 * identities, as far as they have channels for it. */
#include "models/layers.h"

static lks_tensor *conv(lks_graph *graph, lks_tensor *x, int group, int number, int64_t filters)
{
    char name[LKI_ZOO_NAME];
    return lks_conv2d(graph, x,
                      &(lks_conv2d_opts){.name = lki_zoo_name(name, "%d.conv%d", group, number),
                                         .filters = filters,
                                         .kernel = {3, 3},
                                         .padding = {1, 1},
                                         .no_bias = true,
                                         .weight_init.kind = LKS_INIT_PARTIAL_IDENTITY});
}

static lks_tensor *norm_gelu(lks_graph *graph, lks_tensor *x, int group, int number)
{
    char name[LKI_ZOO_NAME];
    x = lks_batch_norm(
        graph, x,
        &(lks_batch_norm_opts){.name = lki_zoo_name(name, "%d.norm%d", group, number),
                               .momentum = 0.4f,
                               .epsilon = 1e-12f});
    return lks_gelu(graph, x, NULL);
}

static lks_tensor *build_airbench(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                  const void *opts_)
{
    static const int64_t widths[] = {64, 256, 256};
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &lki_zoo_plain};
    x = lki_zoo_image(&net, x);
    x = lki_zoo_conv(&net, x, "0", (lki_zoo_window){.filters = 24, .kernel = 2}, true);
    x = lks_gelu(graph, x, NULL);
    for (int i = 0; i < 3; i++) {
        const int group = i + 2;
        x = lki_zoo_max_pool(&net, conv(graph, x, group, 1, widths[i]), 2, 2, 0);
        x = conv(graph, norm_gelu(graph, x, group, 1), group, 2, widths[i]);
        x = norm_gelu(graph, x, group, 2);
    }
    x = lks_flatten(graph, lki_zoo_max_pool(&net, x, 3, 3, 0));
    x = lks_dense(graph, x,
                  &(lks_dense_opts){
                      .name = "7", .units = opts->outputs ? opts->outputs : 10, .no_bias = true});
    return lks_scale(graph, x, &(lks_scale_opts){.factor = 1.0f / 9.0f});
}

const lki_zoo_network lki_zoo_airbench = {
    .name = "airbench",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .build = build_airbench,
    .what = "airbench94's, for CIFAR in seconds",
    .image = LKI_ZOO_CIFAR,
    .classes = 10,
};
