#include "recipe/network/layers.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "recipe/network/blocks.h"
#include "recipe/network/layer.h"
#include "recipe/network/line.h"

/* A list being built, of the whole network or of a block. */
typedef struct building {
    lki_layer *layer;
    lki_config *config;
    int64_t room; /* lki_block_fill() */
} building;

static lks_status build_list(building *b, const lki_yaml *list);

/* "net.yaml:7", and for layers of a block "net.yaml:3 (block 'basic' as layer1.0)". */
static const char *where_of(const building *b, const lki_yaml *node)
{
    const lki_layer_scope *scope = b->layer->scope;
    const char *place = lki_config_where(
        b->config, scope != NULL ? LKI_KEY_MODEL_BLOCKS : LKI_KEY_MODEL_LAYERS, node);
    if (scope == NULL) return place;
    const bool named = scope->prefix[0] != '\0';
    return lki_heap_format(&b->config->heap, "%s (block '%.60s'%s%.60s)", place, scope->block,
                           named ? " as " : "", scope->prefix);
}

static lks_status build_block(building *b, const lki_yaml *node)
{
    lki_layer *l = b->layer;
    const char *where = where_of(b, node);
    lki_heap *heap = &b->config->heap;
    lki_block_use use;
    LKI_TRY(lki_block_read(&use, b->config, node, where));
    for (const lki_layer_scope *s = l->scope; s != NULL; s = s->outer)
        if (strcmp(s->block, use.block) == 0)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s: block '%.60s' stands in itself, so that it would have no end",
                            where, use.block);
    for (int64_t i = 0; i < use.repeat; i++) {
        const char *own = use.name != NULL ? lki_block_name(heap, use.name, i) : "";
        const char *outer = l->scope != NULL ? l->scope->prefix : "";
        const bool both = own[0] != '\0' && outer[0] != '\0';
        const lki_layer_scope scope = {
            .outer = l->scope,
            .block = use.block,
            .prefix = both     ? lki_heap_format(heap, "%s.%s", outer, own)
                      : own[0] ? own
                               : outer,
            .input = l->x,
        };
        const lki_yaml *list;
        LKI_TRY(lki_block_fill(&list, b->config, &use, where, &b->room));
        l->scope = &scope;
        const lks_status status = build_list(b, list);
        l->scope = scope.outer;
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

static lks_status build_layer(building *b, const lki_yaml *node)
{
    lki_layer *l = b->layer;
    const lki_yaml *body;
    const char *name = lki_options_name(node, &body);
    const lki_op *op;
    if (lki_is_block(node)) return build_block(b, node);
    l->where = where_of(b, node);
    if (name == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: a layer is written '- relu' or '- dense: {units: 10}', with one name "
                        "for each '-'",
                        l->where);
    lks_tensor *before = l->x;
    LKI_TRY(lki_layer_find(&op, l->where, name, false));
    LKI_TRY(lki_layer_build(l, op, body));
    if (lks_tensor_dtype(l->x) == LKS_I32) l->x = before; /* tokens, for masked layers behind it */
    return LKS_OK;
}

static lks_status build_list(building *b, const lki_yaml *list)
{
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next)
        LKI_TRY(build_layer(b, e->value));
    return LKS_OK;
}

lks_status lki_layers_build(lks_tensor **out, lki_config *config, lks_graph *graph, lks_tensor *x)
{
    const lki_yaml *list = config->value[LKI_KEY_MODEL_LAYERS].tree;
    lki_layer l = {.heap = &config->heap, .graph = graph, .x = x};
    *out = NULL;
    LKI_TRY(lki_layer_add_named(&l, "input", x));
    if (list->count == 0)
        return lki_config_fail(config, LKI_KEY_MODEL_LAYERS,
                               "is empty, expected at least one layer");
    building b = {.layer = &l, .config = config, .room = 2 * LKI_YAML_MAX_NODES};
    LKI_TRY(build_list(&b, list));
    LKI_TRY(lki_blocks_used(config));
    *out = l.x;
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

/* The first input of a line whose second are the graph's tokens. */
static lks_tensor *beside_tokens(lks_graph *graph, const lki_line *line)
{
    const lks_shape *in = &line->input.shape;
    lks_tensor *tokens = lks_input(
        graph,
        &(lks_input_opts){.shape = line->second, .dtype = LKS_I32, .vocabulary = line->words});
    if (line->input.dtype == LKS_F32 && in->ndim == 2 && line->second.ndim == 1 &&
        in->dim[0] == line->second.dim[0])
        return lks_embedding(graph, tokens, &(lks_embedding_opts){.units = in->dim[1]});
    return lks_graph_fail(graph, "the tokens of with have to be one for each position of in, such "
                                 "as in=8x64x96 with=64:1000");
}

lks_status lki_layers_build_line(lks_tensor **out, int64_t *samples, lki_heap *heap,
                                 lks_graph *graph, const char *text)
{
    lki_line line;
    lki_layer l = {.heap = heap, .graph = graph, .where = "op"};
    const lki_op *op;
    *out = NULL;
    LKI_TRY(lki_line_read(&line, heap, l.where, text));
    LKI_TRY(lki_layer_find(&op, l.where, line.name, true));
    if (lki_layer_is_several(op))
        return LKI_FAIL(LKS_E_INVALID,
                        "op: %s is several operations; try them one by one, or the whole network "
                        "(lockstep bench)",
                        line.name);
    LKI_TRY(lki_line_sizes(&line, l.where));
    const bool two = op->inputs == 2 && !op->is_loss;
    const bool tokens = line.words > 0 && op->reads_tokens;
    if (line.second.ndim > 0 && !two && !tokens)
        return LKI_FAIL(LKS_E_INVALID, "op: %s has one input, but with gives a second", line.name);
    if (line.words > 0 && !tokens)
        return LKI_FAIL(LKS_E_INVALID, "op: %s takes numbers, but with gives tokens", line.name);
    l.single = true;
    l.x = tokens ? beside_tokens(graph, &line) : lks_input(graph, &line.input);
    if (two) {
        LKI_TRY(lki_layer_add_named(&l, "second", second_input(graph, l.x, &line.second)));
        lki_line_add(heap, &line, "with", "second");
    }
    LKI_TRY(lki_heap_status(heap, lki_layer_build(&l, op, &line.options)));
    *samples = line.samples;
    *out = l.x;
    return LKS_OK;
}

static lks_status build_line(lks_tensor **out, lki_heap *heap, lks_graph *graph, lks_tensor *x,
                             const char *text)
{
    lki_line line;
    lki_layer l = {.heap = heap, .graph = graph, .x = x};
    const lki_op *op;
    l.where = lki_heap_format(heap, "'%.80s'", text);
    LKI_TRY(lki_line_read(&line, heap, l.where, text));
    LKI_TRY(lki_layer_find(&op, l.where, line.name, true));
    if (line.in != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: in is for lines without a graph; the input is the tensor that is "
                        "passed",
                        l.where);
    for (lki_node *node = graph->first; node != NULL; node = node->next)
        LKI_TRY(lki_layer_add_named(&l, node->name, &node->out));
    if (line.with != NULL) lki_line_add(heap, &line, "with", line.with);
    LKI_TRY(lki_heap_status(heap, lki_layer_build(&l, op, &line.options)));
    *out = l.x;
    return LKS_OK;
}

lks_tensor *lks_graph_line(lks_graph *graph, lks_tensor *x, const char *line)
{
    lki_heap heap = {0};
    lks_tensor *out = NULL;
    if (graph == NULL)
        return lks_graph_fail(NULL, "the graph of a line is NULL; make one with "
                                    "lks_graph_create()");
    if (graph->error.status != LKS_OK) return NULL;
    if (x == NULL || line == NULL)
        return lks_graph_fail(graph, "%s of lks_graph_line() is NULL", x == NULL ? "x" : "line");
    if (build_line(&out, &heap, graph, x, line) != LKS_OK) lki_graph_keep_error(graph);
    lki_heap_clear(&heap);
    return out;
}

bool lki_layers_normalize(const lki_config *config)
{
    const lki_yaml *body, *list = config->value[LKI_KEY_MODEL_LAYERS].tree;
    if (!lki_config_has(config, LKI_KEY_MODEL_LAYERS) || list->first == NULL) return false;
    list = lki_block_first(config, list);
    const char *name = lki_options_name(list->first->value, &body);
    const lki_op_id id = name != NULL ? lki_op_find(name) : LKI_OP_COUNT;
    return id != LKI_OP_COUNT && lki_op_get(id)->takes == LKI_TAKES_ANY;
}
