#include "recipe/network.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "recipe/layers.h"

lks_status lki_network_constants(lks_normalize_opts *opts, lki_heap *heap, const lki_setting *mean,
                                 const lki_setting *std)
{
    const int means = mean->set ? mean->count : 1, stds = std->set ? std->count : 1;
    if (means != stds && means != 1 && stds != 1)
        return LKI_FAIL(LKS_E_INVALID, "mean has %d numbers and std has %d; expected as many",
                        means, stds);
    opts->count = means > stds ? means : stds;
    float *values = lki_heap_alloc(heap, 2 * (size_t)opts->count * sizeof *values);
    if (values == NULL) return lki_heap_status(heap, LKS_OK);
    opts->mean = values;
    opts->std = values + opts->count;
    for (int i = 0; i < opts->count; i++) {
        values[i] = mean->set ? (float)mean->f[means == 1 ? 0 : i] : 0.0f;
        values[opts->count + i] = std->set ? (float)std->f[stds == 1 ? 0 : i] : 1.0f;
    }
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
    lks_normalize_opts opts = {.name = "normalize"};
    const lks_status status = lki_network_constants(&opts, &config->heap, mean, std);
    if (status != LKS_OK)
        return lki_config_fail(config, LKI_KEY_DATA_STD, "does not fit: %s",
                               lks_last_error()->message);
    const lks_shape shape = lks_tensor_shape(*x);
    const int64_t channels = shape.ndim > 0 ? shape.dim[shape.ndim - 1] : 1;
    if (opts.count != 1 && opts.count != channels)
        return lki_config_fail(config,
                               mean->count == opts.count ? LKI_KEY_DATA_MEAN : LKI_KEY_DATA_STD,
                               "has %d numbers, expected one, or as many as channels: %lld",
                               opts.count, (long long)channels);
    *x = lks_normalize(graph, *x, &opts);
    return LKS_OK;
}

static lks_status build_mlp(lks_tensor **x, const lki_config *config, lks_graph *graph,
                            int64_t outputs)
{
    const lki_setting *hidden = &config->value[LKI_KEY_MODEL_HIDDEN];
    const lki_setting *dropout = &config->value[LKI_KEY_MODEL_DROPOUT];
    if (hidden->count > LKS_MLP_MAX_HIDDEN)
        return lki_config_fail(config, LKI_KEY_MODEL_HIDDEN, "has %d layers, expected at most %d",
                               hidden->count, LKS_MLP_MAX_HIDDEN);
    lks_mlp_opts opts = {.hidden_count = hidden->set ? hidden->count : 0,
                         .outputs = outputs,
                         .dropout = dropout->set ? (float)dropout->f[0] : 0.0f};
    memcpy(opts.hidden, hidden->i, sizeof opts.hidden);
    *x = lks_mlp(graph, *x, &opts);
    return LKS_OK;
}

static lks_tensor *build_loss(const lki_config *config, lks_graph *graph, lks_tensor *output,
                              lks_tensor *target, bool is_log)
{
    const char *name = lki_config_text(config, LKI_KEY_LOSS_NAME);
    if (name == NULL) name = is_log ? "nll" : "cross_entropy";
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
    const char *name = lki_config_text(config, LKI_KEY_MODEL_NAME);
    bool is_log = false;
    *out = (lki_network){0};
    lks_tensor *x = lks_input(graph, &input);
    lks_status status = check_loss(config, info);
    if (status == LKS_OK) status = normalize(&x, config, graph);
    if (status != LKS_OK) return status;
    if (lki_config_has(config, LKI_KEY_MODEL_LAYERS)) {
        status = lki_layers_build(&x, &is_log, config, graph, x);
    } else if (strcmp(name, "mlp") == 0) {
        status = build_mlp(&x, config, graph, outputs);
    } else {
        const lks_mnist_cnn_opts opts = {
            .classes = outputs, .no_dropout = lki_config_has(config, LKI_KEY_MODEL_DROPOUT)};
        x = lks_mnist_cnn(graph, x, &opts);
        is_log = true;
    }
    if (status != LKS_OK) return status;
    out->output = x;
    out->loss = build_loss(config, graph, x, lks_target(graph, &wanted), is_log);
    return lki_heap_status(&config->heap, network_check_graph(config, graph));
}
