#include "recipe/network/network.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/graph.h"
#include "core/range.h"
#include "recipe/network/layers.h"
#include "recipe/options.h"

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
    if ((mean->set || std->set) &&
        (lki_config_has(config, LKI_KEY_DATA_TABLE) || lki_config_has(config, LKI_KEY_DATA_SERIES)))
        return lki_config_fail(config, mean->set ? LKI_KEY_DATA_MEAN : LKI_KEY_DATA_STD,
                               "is for pictures and arrays; columns have data.standardize");
    if (own && (mean->set || std->set))
        return lki_config_fail(config, mean->set ? LKI_KEY_DATA_MEAN : LKI_KEY_DATA_STD,
                               "is set, but model.layers begins with normalize; drop one of them");
    if (own || (!mean->set && !std->set && lks_tensor_dtype(*x) != LKS_U8)) return LKS_OK;
    return add_normalize(x, config, graph, mean, std);
}

/* Of classes, with the output as it is; or of numbers. */
static lki_op_id usual_loss(const lks_tensor *output, const lks_dataset_info *info)
{
    if (info->classes == 0) return LKI_OP_MSE;
    const bool logs = output != NULL && lki_op_get(output->node->op)->gives_logs;
    lki_op_id id = 0;
    while (!lki_op_get(id)->of_classes || lki_op_get(id)->of_logs != logs) id++;
    return id;
}

static lks_status build_loss(lks_tensor **loss, lki_config *config, lks_graph *graph,
                             lks_tensor *output, lks_tensor *target, const lks_dataset_info *info)
{
    const char *name = lki_config_text(config, LKI_KEY_LOSS_NAME);
    const lki_op_id id = name != NULL ? lki_op_find(name) : usual_loss(output, info);
    const lki_op *op = lki_op_get(id);
    lki_options options;
    LKI_TRY(lki_options_begin(&options, &config->heap, &op->attributes, op->attr_size));
    for (int i = 0; i < op->attributes.count; i++) {
        const lki_attribute *a = &op->attributes.list[i];
        const lki_key key = lki_key_beside(LKI_KEY_LOSS_NAME, a->name);
        if (key != LKI_KEY_NONE) lki_options_take(&options, a, &config->value[key]);
    }
    *loss = lki_graph_add(graph, id, op->attr_size > 0 ? options.values : NULL,
                          (lks_tensor *[]){output, target}, 2);
    return LKS_OK;
}

/* "cross_entropy or nll": the losses of classes, or those of numbers. */
static const char *losses_of(bool classes, char out[120])
{
    char words[120] = "";
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++) {
        const lki_op *op = lki_op_get(id);
        const size_t used = strlen(words);
        if (op->is_loss && op->of_classes == classes)
            snprintf(words + used, sizeof words - used, "%s%s", used > 0 ? " " : "", op->name);
    }
    lki_words_describe(words, out, 120);
    return out;
}

/* Whether the loss is one for the data's targets. */
static lks_status check_loss(const lki_config *config, const lks_dataset_info *info)
{
    const char *name = lki_config_text(config, LKI_KEY_LOSS_NAME);
    const bool has = info->classes > 0;
    char expected[120];
    if (name == NULL || lki_op_get(lki_op_find(name))->of_classes == has) return LKS_OK;
    return lki_config_fail(config, LKI_KEY_LOSS_NAME,
                           "is %s, but the data set '%.60s' has %s; expected %s", name,
                           lki_config_text(config, LKI_KEY_DATA_NAME),
                           has ? "classes" : "no classes", losses_of(has, expected));
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

/* The network of the zoo that the configuration names. */
static lks_status build_known(lks_tensor **x, lki_config *config, lks_graph *graph, int64_t outputs)
{
    const lki_zoo_network *network = lki_zoo_find(lki_config_text(config, LKI_KEY_MODEL_NAME));
    char *opts = lki_heap_alloc(&config->heap, network->bytes);
    if (opts == NULL) return lki_heap_status(&config->heap, LKS_OK);
    memcpy(opts + network->outputs, &outputs, sizeof outputs);
    lki_options_store(&network->attributes, opts, config, LKI_KEY_MODEL_NAME);
    *x = network->build(network, graph, *x, opts);
    return LKS_OK;
}

static lks_status sync_batch_norm(const lki_config *config, lks_graph *graph)
{
    const lki_key key = LKI_KEY_MODEL_SYNC_BATCH_NORM;
    int count;
    if (!lki_config_bool(config, key)) return LKS_OK;
    LKI_TRY(lks_graph_sync_batch_norm(graph, &count));
    if (count > 0) return LKS_OK;
    return lki_config_fail(config, key, "is true, but the network has no batch_norm; drop it");
}

lks_status lki_network_build(lki_network *out, lki_config *config, lks_graph *graph,
                             const lks_dataset_info *info)
{
    const lks_input_opts input = {.name = "input",
                                  .shape = info->shape,
                                  .dtype = info->dtype,
                                  .vocabulary = info->vocabulary};
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
        status = build_known(&x, config, graph, outputs);
    }
    if (status != LKS_OK) return status;
    out->output = x;
    LKI_TRY(build_loss(&out->loss, config, graph, x, lks_target(graph, &wanted), info));
    LKI_TRY(lki_heap_status(&config->heap, network_check_graph(config, graph)));
    return sync_batch_norm(config, graph);
}
