#include <string.h>

#include <lockstep/models.h>

#include "recipe/zoo/zoo.h"

static lks_status mlp_build(lks_tensor **x, const lki_config *config, lks_graph *graph,
                            int64_t outputs)
{
    const lki_setting *hidden = &config->value[LKI_KEY_MODEL_HIDDEN];
    const lki_setting *dropout = &config->value[LKI_KEY_MODEL_DROPOUT];
    if (hidden->count > LKS_MLP_MAX_HIDDEN)
        return lki_config_fail(config, LKI_KEY_MODEL_HIDDEN, "has %d layers, expected at most %d",
                               hidden->count, LKS_MLP_MAX_HIDDEN);
    lks_mlp_opts opts = {.hidden_count = hidden->set ? hidden->count : 0,
                         .outputs = outputs,
                         .dropout = dropout->set ? (float)dropout->f : 0.0f};
    if (hidden->set) memcpy(opts.hidden, hidden->ints, (size_t)hidden->count * sizeof *opts.hidden);
    *x = lks_mlp(graph, *x, &opts);
    return LKS_OK;
}

const lki_zoo_network lki_zoo_mlp = {.name = "mlp", .keys = "hidden dropout", .build = mlp_build};
