#include <lockstep/models.h>

#include "recipe/zoo/zoo.h"

static lks_status mnist_cnn_check(const lki_config *config)
{
    if (!lki_config_has(config, LKI_KEY_MODEL_DROPOUT) ||
        !(lki_config_float(config, LKI_KEY_MODEL_DROPOUT) > 0))
        return LKS_OK;
    return lki_config_fail(config, LKI_KEY_MODEL_DROPOUT,
                           "is %g, but mnist_cnn has dropout 0.25 and 0.5; expected 0 (none) or "
                           "null",
                           lki_config_float(config, LKI_KEY_MODEL_DROPOUT));
}

static lks_status mnist_cnn_build(lks_tensor **x, const lki_config *config, lks_graph *graph,
                                  int64_t outputs)
{
    const lks_mnist_cnn_opts opts = {.classes = outputs,
                                     .no_dropout = lki_config_has(config, LKI_KEY_MODEL_DROPOUT)};
    *x = lks_mnist_cnn(graph, *x, &opts);
    return LKS_OK;
}

const lki_zoo_network lki_zoo_mnist_cnn = {
    .name = "mnist_cnn",
    .keys = "dropout",
    .check = mnist_cnn_check,
    .build = mnist_cnn_build,
};
