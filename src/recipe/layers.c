#include "recipe/layers.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "recipe/layer.h"
#include "recipe/line.h"

const lki_spec lki_layer_options[LKI_OPTION_COUNT] = {
#define X(id, name, type, range) [LKI_OPTION_##id] = {name, LKI_TYPE_##type, range},
    LKI_OPTION_LIST(X)
#undef X
};

static const lki_layer_op *layers_find(const lki_layer_op *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

static const lki_layer_op *find_op(const char *name)
{
    return layers_find(lki_layer_ops, lki_layer_op_count, name);
}

lki_option_id lki_option_next(const char **at, lki_option_mark *mark)
{
    *mark = (lki_option_mark){.required = false};
    *at += strspn(*at, " ");
    const size_t length = strcspn(*at, "!= ");
    int id = 0;
    while (id < LKI_OPTION_COUNT && (strncmp(lki_layer_options[id].name, *at, length) != 0 ||
                                     lki_layer_options[id].name[length] != '\0' || length == 0))
        id++;
    *at += length;
    mark->required = **at == '!';
    *at += mark->required;
    if (**at != '=') return (lki_option_id)id;
    const int bytes = (int)strcspn(++*at, " ");
    snprintf(mark->fallback, sizeof mark->fallback, "%.*s", bytes, *at);
    *at += bytes;
    return (lki_option_id)id;
}

static lki_option_id option_by_name(const lki_layer_op *op, const char *name)
{
    const char *at = op->options;
    lki_option_mark mark;
    for (;;) {
        const lki_option_id id = lki_option_next(&at, &mark);
        if (id == LKI_OPTION_COUNT || strcmp(lki_layer_options[id].name, name) == 0) return id;
    }
}

static lks_status set_option(lki_layer *l, lki_option_id id, const lki_yaml *node)
{
    lki_spec spec = lki_layer_options[id];
    spec.name = lki_heap_format(&l->config->heap, "%s %s", l->op, spec.name);
    return lki_setting_parse(&l->value[id], &spec, node, l->where);
}

static lks_status unknown_option(const lki_layer *l, const lki_layer_op *op, const char *name)
{
    lki_nearest near = {.word = name};
    const char *at = op->options;
    lki_option_mark mark;
    for (lki_option_id id; (id = lki_option_next(&at, &mark)) != LKI_OPTION_COUNT;)
        lki_nearest_offer(&near, lki_layer_options[id].name);
    if (near.best != NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s has no option '%.60s'; the nearest is '%s'",
                        l->where, l->op, name, near.best);
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: %s has no option '%.60s'; lockstep --help-layers lists them", l->where,
                    l->op, name);
}

static lks_status layers_read_options(lki_layer *l, const lki_layer_op *op, const lki_yaml *node)
{
    lki_option_mark mark;
    lks_status status = LKS_OK;
    const char *at = op->options;
    if (node == NULL || lki_yaml_is_null(node)) {
    } else if (node->kind != LKI_YAML_MAP) {
        status = set_option(l, lki_option_next(&at, &mark), node);
    } else {
        for (const lki_yaml_entry *e = node->first; e != NULL && status == LKS_OK; e = e->next) {
            const lki_option_id id = option_by_name(op, e->key->text);
            status = id == LKI_OPTION_COUNT ? unknown_option(l, op, e->key->text)
                                            : set_option(l, id, e->value);
        }
    }
    at = op->options;
    while (status == LKS_OK) {
        const lki_option_id id = lki_option_next(&at, &mark);
        if (id == LKI_OPTION_COUNT) break;
        if (mark.required && !l->value[id].set)
            return LKI_FAIL(LKS_E_INVALID, "%s: %s needs %s", l->where, l->op,
                            lki_layer_options[id].name);
    }
    return status;
}

/* `- relu` or `- conv2d: {...}`: its name and, in *body, its options. */
static const char *layer_name(const lki_yaml *node, const lki_yaml **body)
{
    *body = NULL;
    if (node->kind == LKI_YAML_SCALAR) return node->text;
    if (node->kind != LKI_YAML_MAP || node->count != 1) return NULL;
    *body = node->first->value;
    return node->first->key->text;
}

static lks_status unknown_layer(const char *where, const char *name)
{
    if (name == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: a layer is written '- relu' or '- dense: {units: 10}', with one name "
                        "for each '-'",
                        where);
    if (strcmp(name, "softmax") == 0) /* softplus, the nearest, would be taken for it */
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s: there is no softmax: the loss cross_entropy begins with one; drop it, or "
            "use log_softmax, as the last layer",
            where);
    lki_nearest near = {.word = name};
    for (int i = 0; i < lki_layer_op_count; i++) lki_nearest_offer(&near, lki_layer_ops[i].name);
    if (near.best != NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: unknown layer '%.60s'; the nearest is '%s'", where,
                        name, near.best);
    return LKI_FAIL(LKS_E_INVALID, "%s: unknown layer '%.60s'; lockstep --help-layers lists them",
                    where, name);
}

/* Reads the options in `body` and builds. */
static lks_status build_op(lki_layer *l, const lki_layer_op *op, const lki_yaml *body)
{
    l->op = op->name;
    memset(l->value, 0, sizeof l->value);
    lks_status status = layers_read_options(l, op, body);
    if (status != LKS_OK) return status;
    const char *from = l->value[LKI_OPTION_FROM].s;
    if (lki_layer_own_name(l) != NULL && lki_layer_find_named(l, lki_layer_own_name(l)) != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the name '%.60s' is taken already; names are unique, and 'input' is "
                        "what the list begins with",
                        l->where, lki_layer_own_name(l));
    if (from != NULL) l->x = lki_layer_earlier(l, from);
    if (l->x != NULL) l->x = op->build(l);
    if (l->x == NULL) {
        status = lks_graph_status(l->graph);
        if (status == LKS_OK) status = lks_last_error()->status; /* before it reached the graph */
        char sentence[sizeof lks_last_error()->message];
        snprintf(sentence, sizeof sentence, "%s", lks_last_error()->message);
        return LKI_FAIL(status, "%s: %.500s", l->where, sentence);
    }
    return LKS_OK;
}

static lks_status build_layer(lki_layer *l, const lki_yaml *node)
{
    const lki_yaml *body;
    const char *name = layer_name(node, &body);
    const lki_layer_op *op = name != NULL ? find_op(name) : NULL;
    l->where = lki_config_where(l->config, LKI_KEY_MODEL_LAYERS, node);
    if (op == NULL) return unknown_layer(l->where, name);
    const lks_status status = build_op(l, op, body);
    if (status != LKS_OK || lki_layer_own_name(l) == NULL) return status;
    lki_layer_named *n = lki_heap_alloc(&l->config->heap, sizeof *n);
    if (n == NULL) return lki_heap_status(&l->config->heap, LKS_OK);
    *n = (lki_layer_named){l->named, lki_layer_own_name(l), l->x};
    l->named = n;
    return LKS_OK;
}

lks_status lki_layers_build(lks_tensor **out, bool *is_log, lki_config *config, lks_graph *graph,
                            lks_tensor *x)
{
    const lki_yaml *list = config->value[LKI_KEY_MODEL_LAYERS].tree;
    lki_layer *l = lki_heap_alloc(&config->heap, sizeof *l);
    lki_layer_named *input = lki_heap_alloc(&config->heap, sizeof *input);
    *out = NULL;
    if (l == NULL || input == NULL) return lki_heap_status(&config->heap, LKS_OK);
    l->config = config;
    l->graph = graph;
    l->x = x;
    *input = (lki_layer_named){.name = "input", .tensor = x};
    l->named = input;
    if (list->count == 0)
        return lki_config_fail(config, LKI_KEY_MODEL_LAYERS,
                               "is empty, expected at least one layer");
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next) {
        const lks_status status = build_layer(l, e->value);
        if (status != LKS_OK) return status;
        *is_log = strcmp(l->op, "log_softmax") == 0;
    }
    *out = l->x;
    return LKS_OK;
}

/* A tensor of the shape that a line gives its second input; what computes it does not matter. */
static lks_tensor *second_input(lks_graph *graph, lks_tensor *x, const lks_shape *wanted)
{
    const lks_shape in = lks_tensor_shape(x);
    const size_t but_last = sizeof(int64_t) * (size_t)(in.ndim - 1);
    const int64_t channels = wanted->dim[wanted->ndim > 0 ? wanted->ndim - 1 : 0];
    if (wanted->ndim == 0) return lks_relu(graph, x);
    if (wanted->ndim == 1)
        return lks_dense(graph, lks_flatten(graph, x), &(lks_dense_opts){.units = channels});
    if (wanted->ndim == in.ndim && memcmp(wanted->dim, in.dim, but_last) == 0) {
        if (channels == in.dim[in.ndim - 1]) return lks_relu(graph, x);
        if (in.ndim == 3)
            return lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = channels, .kernel = {1, 1}});
    }
    return lks_graph_fail(graph, "the second input may be a vector, or be like the first but for "
                                 "the last dimension of an image");
}

lks_status lki_layers_build_line(lks_tensor **out, int64_t *samples, lki_config *config,
                                 lks_graph *graph, const char *text)
{
    lki_heap *heap = &config->heap;
    lki_line line;
    lki_layer *l = lki_heap_alloc(heap, sizeof *l);
    lki_layer_named *second = lki_heap_alloc(heap, sizeof *second);
    *out = NULL;
    if (l == NULL || second == NULL) return lki_heap_status(heap, LKS_OK);
    lks_status status = lki_line_read(&line, heap, "op", text);
    if (status != LKS_OK) return status;
    const lki_layer_op *op = find_op(line.name);
    if (op == NULL) op = layers_find(lki_layer_losses, lki_layer_loss_count, line.name);
    if (op == NULL) return unknown_layer("op", line.name);
    *l = (lki_layer){
        .config = config, .graph = graph, .where = "op", .x = lks_input(graph, &line.input)};
    const bool two = option_by_name(op, "with") != LKI_OPTION_COUNT;
    if (line.second.ndim > 0 && !two)
        return LKI_FAIL(LKS_E_INVALID, "op: %s has one input, but with gives a second", line.name);
    if (two) {
        *second = (lki_layer_named){.name = "second",
                                    .tensor = second_input(graph, l->x, &line.second)};
        l->named = second;
        lki_line_add(heap, &line, "with", "second");
    }
    status = lki_heap_status(heap, build_op(l, op, &line.options));
    *samples = line.samples;
    *out = l->x;
    return status;
}

bool lki_layers_normalize(const lki_config *config)
{
    const lki_yaml *body, *list = config->value[LKI_KEY_MODEL_LAYERS].tree;
    if (!lki_config_has(config, LKI_KEY_MODEL_LAYERS) || list->first == NULL) return false;
    const char *name = layer_name(list->first->value, &body);
    return name != NULL && strcmp(name, "normalize") == 0;
}
