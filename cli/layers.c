#include "layers.h"

#include <stdio.h>
#include <string.h>

/* Every option of any layer. X(id, name, type, range) */
#define OPTION_LIST(X)                                                                             \
    X(NAME, "name", STRING, NULL)                                                                  \
    X(FILTERS, "filters", INT, "[1,)")                                                             \
    X(UNITS, "units", INT, "[1,)")                                                                 \
    X(KERNEL, "kernel", PAIR, "[1,)")                                                              \
    X(STRIDE, "stride", PAIR, "[1,)")                                                              \
    X(PADDING, "padding", PAIR, "[0,)")                                                            \
    X(DILATION, "dilation", PAIR, "[1,)")                                                          \
    X(GROUPS, "groups", INT, "[1,)")                                                               \
    X(BIAS, "bias", BOOL, NULL)                                                                    \
    X(WEIGHT_INIT, "weight_init", CHOICE, WEIGHT_INITS)                                            \
    X(WEIGHT_SCALE, "weight_scale", FLOAT, "(0,)")                                                 \
    X(WEIGHT_VALUE, "weight_value", FLOAT, NULL)                                                   \
    X(WEIGHT_GAIN, "weight_gain", FLOAT, "(0,)")                                                   \
    X(WEIGHT_SLOPE, "weight_slope", FLOAT, NULL)                                                   \
    X(WEIGHT_FAN_OUT, "weight_fan_out", BOOL, NULL)                                                \
    X(BIAS_INIT, "bias_init", CHOICE, INITS)                                                       \
    X(BIAS_SCALE, "bias_scale", FLOAT, "(0,)")                                                     \
    X(BIAS_VALUE, "bias_value", FLOAT, NULL)                                                       \
    X(DIMS, "dims", INT, "[1,5]")                                                                  \
    X(AFFINE, "affine", BOOL, NULL)                                                                \
    X(EXCLUDE_PADDING, "exclude_padding", BOOL, NULL)                                              \
    X(MOMENTUM, "momentum", FLOAT, "(0,1]")                                                        \
    X(EPSILON, "epsilon", FLOAT, "(0,)")                                                           \
    X(PROBABILITY, "probability", FLOAT, "[0,1)")                                                  \
    X(MEAN, "mean", FLOATS, NULL)                                                                  \
    X(STD, "std", FLOATS, "(0,)")                                                                  \
    X(WITH, "with", STRING, NULL)                                                                  \
    X(SLOPE, "slope", FLOAT, "(0,)")                                                               \
    X(FORM, "form", CHOICE, "erf tanh")                                                            \
    X(FACTOR, "factor", FLOAT, NULL)                                                               \
    X(FROM, "from", STRING, NULL)
#define INITS                                                                                      \
    "default zeros ones constant uniform normal kaiming_uniform kaiming_normal xavier_uniform "    \
    "xavier_normal"
#define WEIGHT_INITS INITS " identity"

typedef enum option_id {
#define X(id, name, type, range) OPTION_##id,
    OPTION_LIST(X)
#undef X
        OPTION_COUNT
} option_id;

static const cli_spec options[OPTION_COUNT] = {
#define X(id, name, type, range) [OPTION_##id] = {name, VALUE_##type, range},
    OPTION_LIST(X)
#undef X
};

/* A layer being built. */
typedef struct layer {
    cli_config *config;
    lks_graph *graph;
    lks_tensor *x;
    const char *where;
    const char *op;
    cli_value value[OPTION_COUNT];
    const struct named *named;
} layer;

/* Layers with a name, for `from: name` and `add: {with: name}`; the first is the list's input. */
typedef struct named {
    const struct named *next;
    const char *name;
    lks_tensor *tensor;
} named;

static const char *name_of(const layer *l)
{
    return l->value[OPTION_NAME].s;
}

static lks_tensor *find_named(const layer *l, const char *name)
{
    const named *n = l->named;
    while (n != NULL && strcmp(n->name, name) != 0) n = n->next;
    return n != NULL ? n->tensor : NULL;
}

/* The layer before this one that has the name; NULL after a sentence in the graph. */
static lks_tensor *earlier(const layer *l, const char *name)
{
    lks_tensor *tensor = find_named(l, name);
    if (tensor != NULL) return tensor;
    cli_nearest near = {.word = name};
    for (const named *n = l->named; n != NULL; n = n->next) nearest_offer(&near, n->name);
    if (near.best == NULL)
        return lks_graph_fail(l->graph, "%s: no layer before it has the name '%.60s'", l->op, name);
    return lks_graph_fail(l->graph,
                          "%s: no layer before it has the name '%.60s'; the nearest is '%.60s'",
                          l->op, name, near.best);
}

/* The second operand: a NULL ends as the builder's NULL. */
static lks_tensor *other(const layer *l)
{
    return earlier(l, l->value[OPTION_WITH].s);
}

static void pair(int64_t out[2], const cli_value *value)
{
    if (value->set) memcpy(out, value->i, 2 * sizeof *out);
}

static lks_init_kind init_kind(const cli_value *kind)
{
    static const struct word {
        const char *name;
        lks_init_kind kind;
    } words[] = {
        {"default", LKS_INIT_DEFAULT},
        {"zeros", LKS_INIT_ZEROS},
        {"ones", LKS_INIT_ONES},
        {"uniform", LKS_INIT_UNIFORM},
        {"normal", LKS_INIT_NORMAL},
        {"kaiming_uniform", LKS_INIT_KAIMING_UNIFORM},
        {"kaiming_normal", LKS_INIT_KAIMING_NORMAL},
        {"xavier_uniform", LKS_INIT_XAVIER_UNIFORM},
        {"xavier_normal", LKS_INIT_XAVIER_NORMAL},
        {"constant", LKS_INIT_CONSTANT},
        {"identity", LKS_INIT_IDENTITY},
    };
    for (size_t i = 0; kind->set && i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].name, kind->s) == 0) return words[i].kind;
    return LKS_INIT_DEFAULT;
}

static lks_init weight_init(const layer *l)
{
    return (lks_init){.kind = init_kind(&l->value[OPTION_WEIGHT_INIT]),
                      .scale = (float)l->value[OPTION_WEIGHT_SCALE].f[0],
                      .value = (float)l->value[OPTION_WEIGHT_VALUE].f[0],
                      .gain = (float)l->value[OPTION_WEIGHT_GAIN].f[0],
                      .slope = (float)l->value[OPTION_WEIGHT_SLOPE].f[0],
                      .fan_out = l->value[OPTION_WEIGHT_FAN_OUT].b};
}

static lks_init bias_init(const layer *l)
{
    return (lks_init){.kind = init_kind(&l->value[OPTION_BIAS_INIT]),
                      .scale = (float)l->value[OPTION_BIAS_SCALE].f[0],
                      .value = (float)l->value[OPTION_BIAS_VALUE].f[0]};
}

static bool no_bias(const layer *l)
{
    return l->value[OPTION_BIAS].set && !l->value[OPTION_BIAS].b;
}

static lks_tensor *build_normalize(const layer *l)
{
    lks_normalize_opts opts = {.name = name_of(l)};
    const lks_status status = network_constants(&opts, &l->value[OPTION_MEAN],
                                                &l->value[OPTION_STD]);
    return status == LKS_OK ? lks_normalize(l->graph, l->x, &opts) : NULL;
}

static lks_tensor *build_conv2d(const layer *l)
{
    lks_conv2d_opts opts = {.name = name_of(l),
                            .filters = l->value[OPTION_FILTERS].i[0],
                            .groups = l->value[OPTION_GROUPS].i[0],
                            .no_bias = no_bias(l),
                            .weight_init = weight_init(l),
                            .bias_init = bias_init(l)};
    pair(opts.kernel, &l->value[OPTION_KERNEL]);
    pair(opts.stride, &l->value[OPTION_STRIDE]);
    pair(opts.padding, &l->value[OPTION_PADDING]);
    pair(opts.dilation, &l->value[OPTION_DILATION]);
    return lks_conv2d(l->graph, l->x, &opts);
}

static lks_tensor *build_dense(const layer *l)
{
    const lks_dense_opts opts = {.name = name_of(l),
                                 .units = l->value[OPTION_UNITS].i[0],
                                 .no_bias = no_bias(l),
                                 .weight_init = weight_init(l),
                                 .bias_init = bias_init(l)};
    return lks_dense(l->graph, l->x, &opts);
}

static lks_tensor *build_batch_norm(const layer *l)
{
    const lks_batch_norm_opts opts = {.name = name_of(l),
                                      .momentum = (float)l->value[OPTION_MOMENTUM].f[0],
                                      .epsilon = (float)l->value[OPTION_EPSILON].f[0]};
    return lks_batch_norm(l->graph, l->x, &opts);
}

static lks_tensor *build_layer_norm(const layer *l)
{
    const cli_value *affine = &l->value[OPTION_AFFINE];
    const lks_layer_norm_opts opts = {.name = name_of(l),
                                      .dims = (int)l->value[OPTION_DIMS].i[0],
                                      .epsilon = (float)l->value[OPTION_EPSILON].f[0],
                                      .no_affine = affine->set && !affine->b};
    return lks_layer_norm(l->graph, l->x, &opts);
}

static lks_pool_opts pool_opts(const layer *l)
{
    lks_pool_opts opts = {.name = name_of(l)};
    pair(opts.kernel, &l->value[OPTION_KERNEL]);
    pair(opts.stride, &l->value[OPTION_STRIDE]);
    pair(opts.padding, &l->value[OPTION_PADDING]);
    return opts;
}

static lks_tensor *build_max_pool(const layer *l)
{
    const lks_pool_opts opts = pool_opts(l);
    return lks_max_pool(l->graph, l->x, &opts);
}

static lks_tensor *build_avg_pool(const layer *l)
{
    lks_pool_opts opts = pool_opts(l);
    opts.exclude_padding = l->value[OPTION_EXCLUDE_PADDING].b;
    return lks_avg_pool(l->graph, l->x, &opts);
}

static lks_tensor *build_global_avg_pool(const layer *l)
{
    return lks_global_avg_pool(l->graph, l->x);
}

static lks_tensor *build_relu(const layer *l)
{
    return lks_relu(l->graph, l->x);
}

static lks_tensor *build_leaky_relu(const layer *l)
{
    const lks_leaky_relu_opts opts = {.name = name_of(l),
                                      .slope = (float)l->value[OPTION_SLOPE].f[0]};
    return lks_leaky_relu(l->graph, l->x, &opts);
}

static lks_tensor *build_gelu(const layer *l)
{
    const cli_value *form = &l->value[OPTION_FORM];
    const bool tanh_form = form->set && strcmp(form->s, "tanh") == 0;
    const lks_gelu_opts opts = {.name = name_of(l),
                                .form = tanh_form ? LKS_GELU_TANH : LKS_GELU_ERF};
    return lks_gelu(l->graph, l->x, &opts);
}

static lks_tensor *build_silu(const layer *l)
{
    return lks_silu(l->graph, l->x);
}

static lks_tensor *build_tanh(const layer *l)
{
    return lks_tanh(l->graph, l->x);
}

static lks_tensor *build_sigmoid(const layer *l)
{
    return lks_sigmoid(l->graph, l->x);
}

static lks_tensor *build_scale(const layer *l)
{
    const lks_scale_opts opts = {.name = name_of(l), .factor = (float)l->value[OPTION_FACTOR].f[0]};
    return lks_scale(l->graph, l->x, &opts);
}

static lks_tensor *build_flatten(const layer *l)
{
    return lks_flatten(l->graph, l->x);
}

static lks_tensor *build_log_softmax(const layer *l)
{
    return lks_log_softmax(l->graph, l->x);
}

static lks_tensor *build_dropout(const layer *l)
{
    const lks_dropout_opts opts = {.name = name_of(l),
                                   .probability = (float)l->value[OPTION_PROBABILITY].f[0]};
    return lks_dropout(l->graph, l->x, &opts);
}

static lks_tensor *build_add(const layer *l)
{
    return lks_add(l->graph, l->x, other(l));
}

static lks_tensor *build_mul(const layer *l)
{
    return lks_mul(l->graph, l->x, other(l));
}

static lks_tensor *build_concat(const layer *l)
{
    return lks_concat(l->graph, l->x, other(l));
}

#define WEIGHTS                                                                                    \
    "bias weight_init weight_scale weight_value weight_gain weight_slope weight_fan_out "          \
    "bias_init bias_scale bias_value "
#define ANY "name from" /* options of any layer */
/* Options in order; the first may be given alone (`dropout: 0.5`); "!" marks the required ones. */
static const struct layer_op {
    const char *name;
    const char *options;
    lks_tensor *(*build)(const layer *);
} ops[] = {
    {"conv2d", "filters! kernel! stride padding dilation groups " WEIGHTS ANY, build_conv2d},
    {"dense", "units! " WEIGHTS ANY, build_dense},
    {"batch_norm", "momentum epsilon " ANY, build_batch_norm},
    {"layer_norm", "dims epsilon affine " ANY, build_layer_norm},
    {"max_pool", "kernel! stride padding " ANY, build_max_pool},
    {"avg_pool", "kernel! stride padding exclude_padding " ANY, build_avg_pool},
    {"global_avg_pool", ANY, build_global_avg_pool},
    {"relu", ANY, build_relu},
    {"leaky_relu", "slope " ANY, build_leaky_relu},
    {"gelu", "form " ANY, build_gelu},
    {"silu", ANY, build_silu},
    {"tanh", ANY, build_tanh},
    {"sigmoid", ANY, build_sigmoid},
    {"scale", "factor! " ANY, build_scale},
    {"add", "with! " ANY, build_add},
    {"mul", "with! " ANY, build_mul},
    {"concat", "with! " ANY, build_concat},
    {"flatten", ANY, build_flatten},
    {"dropout", "probability! " ANY, build_dropout},
    {"normalize", "mean! std! " ANY, build_normalize},
    {"log_softmax", ANY, build_log_softmax},
};
enum { OPS = sizeof ops / sizeof *ops };

static const struct layer_op *find_op(const char *name)
{
    for (int i = 0; i < OPS; i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    return NULL;
}

/* Steps through "filters! kernel! stride": the next option, or OPTION_COUNT at the end. */
static option_id next_option(const char **at, bool *required)
{
    *at += strspn(*at, " ");
    const size_t length = strcspn(*at, "! ");
    int id = 0;
    while (id < OPTION_COUNT && (strncmp(options[id].name, *at, length) != 0 ||
                                 options[id].name[length] != '\0' || length == 0))
        id++;
    *at += length;
    *required = **at == '!';
    *at += *required;
    return (option_id)id;
}

static option_id option_by_name(const struct layer_op *op, const char *name)
{
    const char *at = op->options;
    bool required;
    for (;;) {
        const option_id id = next_option(&at, &required);
        if (id == OPTION_COUNT || strcmp(options[id].name, name) == 0) return id;
    }
}

static lks_status set_option(layer *l, option_id id, const cli_node *node)
{
    cli_spec spec = options[id];
    spec.name = pool_format(&l->config->pool, "%s %s", l->op, spec.name);
    return value_parse(&l->value[id], &spec, node, l->where);
}

static lks_status unknown_option(const layer *l, const struct layer_op *op, const char *name)
{
    cli_nearest near = {.word = name};
    const char *at = op->options;
    bool required;
    for (option_id id; (id = next_option(&at, &required)) != OPTION_COUNT;)
        nearest_offer(&near, options[id].name);
    if (near.best != NULL)
        return lks_fail(LKS_E_INVALID, "%s: %s has no option '%.60s'; the nearest is '%s'",
                        l->where, l->op, name, near.best);
    return lks_fail(LKS_E_INVALID,
                    "%s: %s has no option '%.60s'; lockstep --help-layers lists them", l->where,
                    l->op, name);
}

static lks_status read_options(layer *l, const struct layer_op *op, const cli_node *node)
{
    bool required;
    lks_status status = LKS_OK;
    const char *at = op->options;
    if (node == NULL || node_is_null(node)) {
    } else if (node->kind != NODE_MAP) {
        status = set_option(l, next_option(&at, &required), node);
    } else {
        for (const cli_entry *e = node->first; e != NULL && status == LKS_OK; e = e->next) {
            const option_id id = option_by_name(op, e->key->text);
            status = id == OPTION_COUNT ? unknown_option(l, op, e->key->text)
                                        : set_option(l, id, e->value);
        }
    }
    at = op->options;
    while (status == LKS_OK) {
        const option_id id = next_option(&at, &required);
        if (id == OPTION_COUNT) break;
        if (required && !l->value[id].set)
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
    for (int i = 0; i < OPS; i++) nearest_offer(&near, ops[i].name);
    if (near.best != NULL)
        return lks_fail(LKS_E_INVALID, "%s: unknown layer '%.60s'; the nearest is '%s'", where,
                        name, near.best);
    return lks_fail(LKS_E_INVALID, "%s: unknown layer '%.60s'; lockstep --help-layers lists them",
                    where, name);
}

static lks_status build_layer(layer *l, const cli_node *node)
{
    const cli_node *body;
    const char *name = layer_name(node, &body);
    const struct layer_op *op = name != NULL ? find_op(name) : NULL;
    l->where = config_where(l->config, KEY_MODEL_LAYERS, node);
    if (op == NULL) return unknown_layer(l->where, name);
    l->op = op->name;
    memset(l->value, 0, sizeof l->value);
    lks_status status = read_options(l, op, body);
    if (status != LKS_OK) return status;
    const char *from = l->value[OPTION_FROM].s;
    if (name_of(l) != NULL && find_named(l, name_of(l)) != NULL)
        return lks_fail(LKS_E_INVALID,
                        "%s: the name '%.60s' is taken already; names are unique, and 'input' is "
                        "what the list begins with",
                        l->where, name_of(l));
    if (from != NULL) l->x = earlier(l, from);
    if (l->x != NULL) l->x = op->build(l);
    if (l->x == NULL) {
        status = lks_graph_status(l->graph);
        if (status == LKS_OK) status = lks_last_error()->status; /* before it reached the graph */
        char sentence[sizeof lks_last_error()->message];
        snprintf(sentence, sizeof sentence, "%s", lks_last_error()->message);
        return lks_fail(status, "%s: %.500s", l->where, sentence);
    }
    if (name_of(l) == NULL) return LKS_OK;
    named *n = pool_alloc(&l->config->pool, sizeof *n);
    *n = (named){l->named, name_of(l), l->x};
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
    named *input = pool_alloc(&config->pool, sizeof *input);
    *input = (named){.name = "input", .tensor = x};
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

bool layers_normalize(const cli_config *config)
{
    const cli_node *body, *list = config->value[KEY_MODEL_LAYERS].tree;
    if (!config_has(config, KEY_MODEL_LAYERS) || list->first == NULL) return false;
    const char *name = layer_name(list->first->value, &body);
    return name != NULL && strcmp(name, "normalize") == 0;
}

void network_layers_print(FILE *out)
{
    fputs(
        "model:\n  layers:\n    - conv2d: {filters: 32, kernel: 3}\n    - relu\n"
        "    - max_pool: 2\n    - flatten\n    - dense: 10\n\n"
        "Layers and their options; ! marks what is required, and the first may be given alone.\n"
        "Any layer may have a name: of its parameters in files, and for layers after it, which\n"
        "begin there (from) or take it as second operand (with), as a skip connection does:\n"
        "    - conv2d: {name: conv1, filters: 8, kernel: 3, padding: 1}\n"
        "    - relu\n    - add: {with: conv1}\n"
        "`input` is the name of what the list begins with.\n"
        "Of the numbers of an init, scale is for uniform and normal, value for constant, gain for\n"
        "xavier, and slope (of a leaky relu) and fan_out for kaiming.\n",
        out);
    for (int i = 0; i < OPS; i++) {
        const char *at = ops[i].options;
        bool required;
        fprintf(out, "\n%s\n", ops[i].name);
        for (option_id id; (id = next_option(&at, &required)) != OPTION_COUNT;) {
            char expected[160];
            spec_describe(&options[id], expected, sizeof expected);
            fprintf(out, "  %s%-*s %s\n", options[id].name, (int)(18 - strlen(options[id].name)),
                    required ? "!" : "", expected);
        }
    }
}
