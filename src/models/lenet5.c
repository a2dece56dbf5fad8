/* LeNet-5 (LeCun et al., 1998) with relu and max-pooling. Images of 28x28 are padded to the 32x32 of the paper. */
#include "models/layers.h"

static lks_tensor *build_lenet5(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                                const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const lki_zoo_net net = {graph, self->name, &lki_zoo_plain};
    x = lki_zoo_image(&net, x);
    const int64_t padding = x != NULL && lks_tensor_shape(x).dim[0] < 32 ? 2 : 0;
    x = lki_zoo_conv(&net, x, "conv1", (lki_zoo_window){6, 5, 1, padding, 1}, true);
    x = lki_zoo_max_pool(&net, lks_relu(graph, x), 2, 2, 0);
    x = lki_zoo_conv(&net, x, "conv2", (lki_zoo_window){16, 5, 1, 0, 1}, true);
    x = lki_zoo_max_pool(&net, lks_relu(graph, x), 2, 2, 0);
    x = lks_relu(graph, lki_zoo_dense(&net, lks_flatten(graph, x), "fc1", 120));
    x = lks_relu(graph, lki_zoo_dense(&net, x, "fc2", 84));
    return lki_zoo_dense(&net, x, "fc3", opts->outputs ? opts->outputs : 10);
}

const lki_zoo_network lki_zoo_lenet5 = {
    .name = "lenet5",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .build = build_lenet5,
    .what = "two convolutions, three dense layers",
    .image = LKI_ZOO_MNIST,
    .classes = 10,
};
