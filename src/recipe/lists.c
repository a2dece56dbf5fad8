/* What there is by name, from the tables of whoever has names. */
#include <stddef.h>

#include <lockstep/tools.h>

#include "augment/augment.h"
#include "models/zoo.h"
#include "optim/optimizer.h"
#include "recipe/network/layer.h"

/* Number `number` of the operations that are layers, or losses. */
static const lki_op *list_op(lks_list list, int number)
{
    if (number < 0) return NULL;
    if (list == LKS_LIST_LAYERS) return lki_layer_at(number);
    for (lki_op_id id = 0; list == LKS_LIST_LOSSES && id < LKI_OP_COUNT; id++)
        if (lki_op_get(id)->is_loss && number-- == 0) return lki_op_get(id);
    return NULL;
}

const char *lks_list_name(lks_list list, int number, const char **what)
{
    const lki_optimizer *optimizer = list == LKS_LIST_OPTIMIZERS ? lki_optimizer_at(number) : NULL;
    if (optimizer != NULL && what != NULL) *what = optimizer->what;
    if (optimizer != NULL) return optimizer->name;
    const lki_augmentation_rule *rule = list == LKS_LIST_AUGMENTATIONS ? lki_augmentation_at(number)
                                                                       : NULL;
    if (rule != NULL && what != NULL) *what = rule->what;
    if (rule != NULL) return rule->name;
    const lki_op *op = list_op(list, number);
    if (op != NULL && what != NULL) *what = op->what;
    return op != NULL ? op->name : NULL;
}

bool lks_list_option(lks_list list, int number, int option, lks_option *out)
{
    const lki_op *op = list_op(list, number);
    const lki_optimizer *optimizer = list == LKS_LIST_OPTIMIZERS ? lki_optimizer_at(number) : NULL;
    const lki_attribute *a = op != NULL && option >= 0 ? lki_layer_option(op, option) : NULL;
    if (optimizer != NULL && option >= 0 && option < optimizer->attributes.count)
        a = &optimizer->attributes.list[option];
    const lki_augmentation_rule *rule = list == LKS_LIST_AUGMENTATIONS ? lki_augmentation_at(number)
                                                                       : NULL;
    if (rule != NULL && option >= 0 && option < rule->attributes.count)
        a = &rule->attributes.list[option];
    if (a == NULL || out == NULL) return false;
    *out = (lks_option){.name = a->name,
                        .required = a->required,
                        .standard = a->fallback,
                        .help = a->help != NULL ? a->help : ""};
    lki_attribute_describe(a, out->expected, sizeof out->expected);
    return true;
}

static int64_t list_parameters(const lks_graph *graph)
{
    int64_t count = 0;
    for (const lki_node *node = graph->first; node != NULL; node = node->next)
        for (int i = 0; i < node->param_count; i++)
            if (node->param[i].of == NULL) count += lks_shape_elements(&node->param[i].shape);
    return count;
}

bool lks_network_get(lks_network_info *out, lks_context *context, int number)
{
    const lki_zoo_network *network = lki_zoo_at(number);
    lks_graph *graph;
    if (out == NULL) return false;
    *out = (lks_network_info){0};
    if (network == NULL) return false;
    *out = (lks_network_info){.name = network->name,
                              .what = network->what,
                              .image = network->image,
                              .classes = network->classes,
                              .vocabulary = network->vocabulary,
                              .by_position = network->by_position};
    if (context == NULL || lks_graph_create(&graph, context) != LKS_OK) return true;
    lks_tensor *x = lks_input(
        graph, &(lks_input_opts){.shape = network->image,
                                 .dtype = network->vocabulary > 0 ? LKS_I32 : LKS_F32,
                                 .vocabulary = network->vocabulary});
    const lks_network_opts opts = {.outputs = network->classes};
    if (lks_network(graph, x, network->name, &opts) != NULL)
        out->parameters = list_parameters(graph);
    lks_graph_destroy(graph);
    return true;
}
