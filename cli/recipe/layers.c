#include "cli/recipe/layers.h"

#include <stdio.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include "cli/recipe/layer.h"
#include "cli/recipe/line.h"

static const cli_spec options[OPTION_COUNT] = {
#define X(id, name, type, range) [OPTION_##id] = {name, VALUE_##type, range},
    OPTION_LIST(X)
#undef X
};

static const layer_op *layers_find(const layer_op *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

static const layer_op *find_op(const char *name)
{
    return layers_find(layer_ops, layer_op_count, name);
}

/* What an option's place in the list of a layer says of it. */
typedef struct option_mark {
    bool required;
    char fallback[32]; /* for people; "": none */
} option_mark;

/* Steps through "filters! stride=1": the next option, or OPTION_COUNT at the end. */
static option_id next_option(const char **at, option_mark *mark)
{
    *mark = (option_mark){.required = false};
    *at += strspn(*at, " ");
    const size_t length = strcspn(*at, "!= ");
    int id = 0;
    while (id < OPTION_COUNT && (strncmp(options[id].name, *at, length) != 0 ||
                                 options[id].name[length] != '\0' || length == 0))
        id++;
    *at += length;
    mark->required = **at == '!';
    *at += mark->required;
    if (**at != '=') return (option_id)id;
    const int bytes = (int)strcspn(++*at, " ");
    snprintf(mark->fallback, sizeof mark->fallback, "%.*s", bytes, *at);
    *at += bytes;
    return (option_id)id;
}

static option_id option_by_name(const layer_op *op, const char *name)
{
    const char *at = op->options;
    option_mark mark;
    for (;;) {
        const option_id id = next_option(&at, &mark);
        if (id == OPTION_COUNT || strcmp(options[id].name, name) == 0) return id;
    }
}

static lks_status set_option(layer *l, option_id id, const cli_node *node)
{
    cli_spec spec = options[id];
    spec.name = pool_format(&l->config->pool, "%s %s", l->op, spec.name);
    return value_parse(&l->value[id], &spec, node, l->where);
}

static lks_status unknown_option(const layer *l, const layer_op *op, const char *name)
{
    cli_nearest near = {.word = name};
    const char *at = op->options;
    option_mark mark;
    for (option_id id; (id = next_option(&at, &mark)) != OPTION_COUNT;)
        nearest_offer(&near, options[id].name);
    if (near.best != NULL)
        return lks_fail(LKS_E_INVALID, "%s: %s has no option '%.60s'; the nearest is '%s'",
                        l->where, l->op, name, near.best);
    return lks_fail(LKS_E_INVALID,
                    "%s: %s has no option '%.60s'; lockstep --help-layers lists them", l->where,
                    l->op, name);
}

static lks_status layers_read_options(layer *l, const layer_op *op, const cli_node *node)
{
    option_mark mark;
    lks_status status = LKS_OK;
    const char *at = op->options;
    if (node == NULL || node_is_null(node)) {
    } else if (node->kind != NODE_MAP) {
        status = set_option(l, next_option(&at, &mark), node);
    } else {
        for (const cli_entry *e = node->first; e != NULL && status == LKS_OK; e = e->next) {
            const option_id id = option_by_name(op, e->key->text);
            status = id == OPTION_COUNT ? unknown_option(l, op, e->key->text)
                                        : set_option(l, id, e->value);
        }
    }
    at = op->options;
    while (status == LKS_OK) {
        const option_id id = next_option(&at, &mark);
        if (id == OPTION_COUNT) break;
        if (mark.required && !l->value[id].set)
            return lks_fail(LKS_E_INVALID, "%s: %s needs %s", l->where, l->op, options[id].name);
    }
    return status;
}

/* `- relu` or `- conv2d: {...}`: its name and, in *body, its options. */
static const char *layer_name(const cli_node *node, const cli_node **body)
{
    *body = NULL;
    if (node->kind == NODE_SCALAR) return node->text;
    if (node->kind != NODE_MAP || node->count != 1) return NULL;
    *body = node->first->value;
    return node->first->key->text;
}

static lks_status unknown_layer(const char *where, const char *name)
{
    if (name == NULL)
        return lks_fail(LKS_E_INVALID,
                        "%s: a layer is written '- relu' or '- dense: {units: 10}', with one name "
                        "for each '-'",
                        where);
    cli_nearest near = {.word = name};
    for (int i = 0; i < layer_op_count; i++) nearest_offer(&near, layer_ops[i].name);
    if (near.best != NULL)
        return lks_fail(LKS_E_INVALID, "%s: unknown layer '%.60s'; the nearest is '%s'", where,
                        name, near.best);
    return lks_fail(LKS_E_INVALID, "%s: unknown layer '%.60s'; lockstep --help-layers lists them",
                    where, name);
}

/* Reads the options in `body` and builds. */
static lks_status build_op(layer *l, const layer_op *op, const cli_node *body)
{
    l->op = op->name;
    memset(l->value, 0, sizeof l->value);
    lks_status status = layers_read_options(l, op, body);
    if (status != LKS_OK) return status;
    const char *from = l->value[OPTION_FROM].s;
    if (layer_own_name(l) != NULL && layer_find_named(l, layer_own_name(l)) != NULL)
        return lks_fail(LKS_E_INVALID,
                        "%s: the name '%.60s' is taken already; names are unique, and 'input' is "
                        "what the list begins with",
                        l->where, layer_own_name(l));
    if (from != NULL) l->x = layer_earlier(l, from);
    if (l->x != NULL) l->x = op->build(l);
    if (l->x == NULL) {
        status = lks_graph_status(l->graph);
        if (status == LKS_OK) status = lks_last_error()->status; /* before it reached the graph */
        char sentence[sizeof lks_last_error()->message];
        snprintf(sentence, sizeof sentence, "%s", lks_last_error()->message);
        return lks_fail(status, "%s: %.500s", l->where, sentence);
    }
    return LKS_OK;
}

static lks_status build_layer(layer *l, const cli_node *node)
{
    const cli_node *body;
    const char *name = layer_name(node, &body);
    const layer_op *op = name != NULL ? find_op(name) : NULL;
    l->where = config_where(l->config, KEY_MODEL_LAYERS, node);
    if (op == NULL) return unknown_layer(l->where, name);
    const lks_status status = build_op(l, op, body);
    if (status != LKS_OK || layer_own_name(l) == NULL) return status;
    layer_named *n = pool_alloc(&l->config->pool, sizeof *n);
    *n = (layer_named){l->named, layer_own_name(l), l->x};
    l->named = n;
    return LKS_OK;
}

lks_status layers_build(lks_tensor **out, bool *is_log, cli_config *config, lks_graph *graph,
                        lks_tensor *x)
{
    const cli_node *list = config->value[KEY_MODEL_LAYERS].tree;
    layer *l = pool_alloc(&config->pool, sizeof *l);
    *out = NULL;
    l->config = config;
    l->graph = graph;
    l->x = x;
    layer_named *input = pool_alloc(&config->pool, sizeof *input);
    *input = (layer_named){.name = "input", .tensor = x};
    l->named = input;
    if (list->count == 0)
        return config_fail(config, KEY_MODEL_LAYERS, "is empty, expected at least one layer");
    for (const cli_entry *e = list->first; e != NULL; e = e->next) {
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

lks_status layers_build_line(lks_tensor **out, int64_t *samples, cli_config *config,
                             lks_graph *graph, const char *text)
{
    cli_pool *pool = &config->pool;
    cli_line line;
    layer *l = pool_alloc(pool, sizeof *l);
    *out = NULL;
    lks_status status = line_read(&line, pool, "op", text);
    if (status != LKS_OK) return status;
    const layer_op *op = find_op(line.name);
    if (op == NULL) op = layers_find(layer_losses, layer_loss_count, line.name);
    if (op == NULL) return unknown_layer("op", line.name);
    *l = (layer){
        .config = config, .graph = graph, .where = "op", .x = lks_input(graph, &line.input)};
    const bool two = option_by_name(op, "with") != OPTION_COUNT;
    if (line.second.ndim > 0 && !two)
        return lks_fail(LKS_E_INVALID, "op: %s has one input, but with gives a second", line.name);
    if (two) {
        layer_named *second = pool_alloc(pool, sizeof *second);
        *second = (layer_named){.name = "second",
                                .tensor = second_input(graph, l->x, &line.second)};
        l->named = second;
        line_add(pool, &line, "with", "second");
    }
    status = build_op(l, op, &line.options);
    *samples = line.samples;
    *out = l->x;
    return status;
}

bool layers_normalize(const cli_config *config)
{
    const cli_node *body, *list = config->value[KEY_MODEL_LAYERS].tree;
    if (!config_has(config, KEY_MODEL_LAYERS) || list->first == NULL) return false;
    const char *name = layer_name(list->first->value, &body);
    return name != NULL && strcmp(name, "normalize") == 0;
}

/* A layer and its options, for the help or (`markdown`) for docs/ops.md. */
static void print_layer(FILE *out, const layer_op *op, bool markdown)
{
    const char *at = op->options;
    option_mark mark;
    if (markdown) {
        fprintf(out, "\n### %s\n\n%s\n", op->name, op->what);
        if (*at != '\0') fputs("\n| option | value | default |\n|---|---|---|\n", out);
    } else {
        const int used = fprintf(out, "\n%s: ", op->name) - 1;
        text_print_wrapped(out, op->what, used, 4, HELP_WIDTH);
    }
    for (option_id id; (id = next_option(&at, &mark)) != OPTION_COUNT;) {
        char expected[160], text[256];
        spec_describe(&options[id], expected, sizeof expected);
        if (markdown) {
            fprintf(out, "| `%s`%s | %s | %s |\n", options[id].name,
                    mark.required ? ", required" : "", expected, mark.fallback);
            continue;
        }
        const int used = fprintf(out, "  %s%-*s ", options[id].name,
                                 (int)(18 - strlen(options[id].name)), mark.required ? "!" : "");
        snprintf(text, sizeof text, "%s%s%s", expected, *mark.fallback != '\0' ? "; default " : "",
                 mark.fallback);
        text_print_wrapped(out, text, used, used, HELP_WIDTH);
    }
}

static void print_layers(FILE *out, bool markdown)
{
    for (int i = 0; i < layer_op_count; i++) print_layer(out, &layer_ops[i], markdown);
    fputs(markdown ? "\n## Losses\n\nA configuration has them as `loss.name`; lines of `lockstep "
                     "op` by these names.\n"
                   : "\nLosses, for lines of `lockstep op` (a configuration has loss.name):\n",
          out);
    for (int i = 0; i < layer_loss_count; i++) print_layer(out, &layer_losses[i], markdown);
}

static const char inits[] =
    "Of the numbers of an init, scale is for uniform and normal, value for constant,\n"
    "gain for xavier, and slope (of a leaky relu) and fan_out for kaiming.\n";

void network_layers_print(FILE *out)
{
    fputs("model:\n  layers:\n    - conv2d: {filters: 32, kernel: 3}\n    - relu\n"
          "    - max_pool: 2\n    - flatten\n    - dense: 10\n\n"
          "Layers and their options; ! marks what is required, and the first may be given\n"
          "alone. Any layer may have a name: of its parameters in files, and for layers\n"
          "after it, which begin there (from) or take it as second operand (with), as a\n"
          "skip connection does:\n"
          "    - conv2d: {name: conv1, filters: 8, kernel: 3, padding: 1}\n"
          "    - relu\n    - add: {with: conv1}\n"
          "`input` is the name of what the list begins with.\n",
          out);
    fputs(inits, out);
    print_layers(out, false);
}

void network_layers_markdown(FILE *out)
{
    fputs(
        "# Operations\n\nMade from the tables of the program, by `tools/make_docs`. These are the "
        "layers of `model.layers`\n([program.md](program.md)) and the operations of `lockstep op`; "
        "formulas, shapes and PyTorch's names\nare in `include/lockstep/graph.h`. The first option "
        "may be given alone: `dense: 10`.\n\n",
        out);
    fputs(inits, out);
    fputs("\n## Layers\n", out);
    print_layers(out, true);
}
