#include <stdio.h>

#include "models/zoo.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INTS, lks_mlp_opts, hidden, .range = "[1,)",
                  .count = offsetof(lks_mlp_opts, hidden_count)),
    LKI_ATTRIBUTE(FLOAT, lks_mlp_opts, dropout, .range = "[0,1)"),
};

static lks_tensor *build_mlp(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                             const void *opts)
{
    (void)self;
    return lks_mlp(graph, x, opts);
}

const lki_zoo_network lki_zoo_mlp = {
    .name = "mlp",
    .bytes = sizeof(lks_mlp_opts),
    .outputs = offsetof(lks_mlp_opts, outputs),
    .attributes = LKI_ATTRIBUTES(attributes),
    .build = build_mlp,
    .what = "dense layers",
    .image = LKI_ZOO_MNIST,
    .classes = 10,
};

lks_tensor *lks_mlp(lks_graph *graph, lks_tensor *x, const lks_mlp_opts *opts)
{
    const lks_mlp_opts defaults = {0};
    if (!opts) opts = &defaults;
    if (!x) return NULL;
    if (opts->hidden_count < 0 || opts->hidden_count > LKS_MLP_MAX_HIDDEN) {
        return lks_graph_fail(graph, "mlp: hidden_count is %d, expected 0 to %d",
                              opts->hidden_count, LKS_MLP_MAX_HIDDEN);
    }
    if (lks_tensor_shape(x).ndim != 1) x = lks_flatten(graph, x);

    char name[32];
    for (int i = 0; i < opts->hidden_count; ++i) {
        snprintf(name, sizeof(name), "fc%d", i + 1);
        x = lks_dense(graph, x, &(lks_dense_opts){.name = name, .units = opts->hidden[i]});
        x = lks_relu(graph, x);
        if (opts->dropout != 0.0f) {
            snprintf(name, sizeof(name), "dropout%d", i + 1);
            x = lks_dropout(graph, x,
                            &(lks_dropout_opts){.name = name, .probability = opts->dropout});
        }
    }
    snprintf(name, sizeof(name), "fc%d", opts->hidden_count + 1);
    const int64_t outputs = opts->outputs ? opts->outputs : 10;
    return lks_dense(graph, x, &(lks_dense_opts){.name = name, .units = outputs});
}
