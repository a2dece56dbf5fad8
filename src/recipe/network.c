#include "recipe/network.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/graph.h"
#include "recipe/layers.h"
#include "recipe/options.h"
#include "recipe/zoo/zoo.h"

/* Mean and std, each one number or one for each channel; not set: 0 and 1. */
static lks_status add_normalize(lks_tensor **x, lki_config *config, lks_graph *graph,
                                const lki_setting *mean, const lki_setting *std)
{
    static const double one = 1;
    const lki_setting ones = {.set = true, .count = 1, .floats = &one};
    const lki_attributes *table = &lki_op_get(LKI_OP_NORMALIZE)->attributes;
    lki_options options;
    LKI_TRY(lki_options_begin(&options, &config->heap, table, sizeof(lks_normalize_opts)));
    lki_options_take(&options, lki_attribute_find(table, "mean"), mean);
    lki_options_take(&options, lki_attribute_find(table, "std"), std->set ? std : &ones);
    if (lki_options_end(&options, "") != LKS_OK)
        return lki_config_fail(config, LKI_KEY_DATA_STD, "does not fit: %s",
                               lks_last_error()->message);
    lks_normalize_opts *opts = options.values;
    const lks_shape shape = lks_tensor_shape(*x);
    const int64_t channels = shape.ndim > 0 ? shape.dim[shape.ndim - 1] : 1;
    if (opts->count != 1 && opts->count != channels)
        return lki_config_fail(config,
                               mean->count == opts->count ? LKI_KEY_DATA_MEAN : LKI_KEY_DATA_STD,
                               "has %d numbers, expected one, or as many as channels: %lld",
                               opts->count, (long long)channels);
    opts->name = "normalize";
    *x = lks_normalize(graph, *x, opts);
    return LKS_OK;
}

/* Bytes are always normalised, if only to 0..1; floats when asked for. */
static lks_status normalize(lks_tensor **x, lki_config *config, lks_graph *graph)
{
    const lki_setting *mean = &config->value[LKI_KEY_DATA_MEAN],
                      *std = &config->value[LKI_KEY_DATA_STD];
    const bool own = lki_layers_normalize(config);
    if (own && (mean->set || std->set))
        return lki_config_fail(config, mean->set ? LKI_KEY_DATA_MEAN : LKI_KEY_DATA_STD,
                               "is set, but model.layers begins with normalize; drop one of them");
    if (own || (!mean->set && !std->set && lks_tensor_dtype(*x) != LKS_U8)) return LKS_OK;
    return add_normalize(x, config, graph, mean, std);
}

static bool gives_logs(const lks_tensor *x)
{
    return x != NULL && lki_op_get(x->node->op)->gives_logs;
}

static lks_tensor *build_loss(const lki_config *config, lks_graph *graph, lks_tensor *output,
                              lks_tensor *target)
{
    const char *name = lki_config_text(config, LKI_KEY_LOSS_NAME);
    if (name == NULL) name = gives_logs(output) ? "nll" : "cross_entropy";
    if (strcmp(name, "nll") == 0) return lks_nll(graph, output, target);
    if (strcmp(name, "mse") == 0) return lks_mse(graph, output, target);
    const lks_cross_entropy_opts opts = {
        .label_smoothing = (float)lki_config_float(config, LKI_KEY_LOSS_LABEL_SMOOTHING)};
    return lks_cross_entropy(graph, output, target, &opts);
}

/* Whether the loss is one for the data's targets. */
static lks_status check_loss(const lki_config *config, const lks_dataset_info *info)
{
    const char *name = lki_config_text(config, LKI_KEY_LOSS_NAME),
               *data = lki_config_text(config, LKI_KEY_DATA_NAME);
    const bool is_mse = name != NULL && strcmp(name, "mse") == 0;
    if (is_mse && info->classes > 0)
        return lki_config_fail(
            config, LKI_KEY_LOSS_NAME,
            "is mse, but the data set '%.60s' has classes; expected cross_entropy or "
            "nll",
            data);
    if (!is_mse && info->classes == 0)
        return lki_config_fail(config, LKI_KEY_LOSS_NAME,
                               "is %s, but the data set '%.60s' has no classes; expected mse",
                               name != NULL ? name : "not set", data);
    return LKS_OK;
}

/* What the loss says of the output that the layers have. */
static lks_status network_check_graph(const lki_config *config, const lks_graph *graph)
{
    char message[sizeof lks_last_error()->message];
    const lks_status status = lks_graph_status(graph);
    if (status == LKS_OK || !lki_config_has(config, LKI_KEY_MODEL_LAYERS)) return status;
    snprintf(message, sizeof message, "%s", lks_last_error()->message);
    return LKI_FAIL(status, "%s: the last of model.layers: %.450s",
                    config->value[LKI_KEY_MODEL_LAYERS].where, message);
}

lks_status lki_network_build(lki_network *out, lki_config *config, lks_graph *graph,
                             const lks_dataset_info *info)
{
    const lks_input_opts input = {.name = "input", .shape = info->shape, .dtype = info->dtype};
    const lks_target_opts wanted = {
        .name = "target", .classes = info->classes, .shape = info->target_shape};
    const int64_t outputs = info->classes > 0 ? info->classes
                                              : lks_shape_elements(&info->target_shape);
    *out = (lki_network){0};
    lks_tensor *x = lks_input(graph, &input);
    lks_status status = check_loss(config, info);
    if (status == LKS_OK) status = normalize(&x, config, graph);
    if (status != LKS_OK) return status;
    if (lki_config_has(config, LKI_KEY_MODEL_LAYERS)) {
        status = lki_layers_build(&x, config, graph, x);
    } else {
        status = lki_zoo_find(lki_config_text(config, LKI_KEY_MODEL_NAME))
                     ->build(&x, config, graph, outputs);
    }
    if (status != LKS_OK) return status;
    out->output = x;
    out->loss = build_loss(config, graph, x, lks_target(graph, &wanted));
    return lki_heap_status(&config->heap, network_check_graph(config, graph));
}
