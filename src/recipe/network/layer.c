#include "recipe/network/layer.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "recipe/network/blocks.h"
#include "recipe/network/transformer.h"

/* What the tables of operations do not have: it says where a layer stands, not what it computes. */
static const lki_attribute with_option = {.name = "with", .type = LKI_TEXT, .required = true};
static const lki_attribute any_option[] = {
    {.name = "name", .type = LKI_TEXT},
    {.name = "from", .type = LKI_TEXT},
};
static const lki_attribute weight_of_option = {
    .name = "weight_of",
    .type = LKI_TEXT,
    .help = "an embedding before it, whose weight it has too"};

static const lki_attribute repeat_option = {.name = "repeat",
                                            .type = LKI_INT,
                                            .range = "[1,1000]",
                                            .fallback = "1",
                                            .help = "so many, whose names are counted on"};

static bool is_layer(const lki_op *op)
{
    return op->inputs > 0 && !op->is_loss;
}

bool lki_layer_is_several(const lki_op *op)
{
    return op == &lki_layer_transformer;
}

const lki_op *lki_layer_at(int number)
{
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++)
        if (is_layer(lki_op_get(id)) && number-- == 0) return lki_op_get(id);
    return number == 0 ? &lki_layer_transformer : NULL;
}

const lki_attribute *lki_layer_option(const lki_op *op, int number)
{
    if (is_layer(op) && op->inputs == 2 && number-- == 0) return &with_option;
    if (number < op->attributes.count) return &op->attributes.list[number];
    number -= op->attributes.count;
    if (op->weight_of > 0 && number-- == 0) return &weight_of_option;
    if (lki_layer_is_several(op) && number-- == 0) return &repeat_option;
    return is_layer(op) && number < 2 ? &any_option[number] : NULL;
}

static const lki_attribute *option_by_name(const lki_op *op, const char *name)
{
    const lki_attribute *a;
    for (int i = 0; (a = lki_layer_option(op, i)) != NULL; i++)
        if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

lks_status lki_layer_find(const lki_op **out, const char *where, const char *name, bool losses)
{
    lki_nearest near = {.word = name};
    const lki_op_id id = lki_op_find(name);
    for (int i = 0; (*out = lki_layer_at(i)) != NULL; i++)
        if (strcmp((*out)->name, name) == 0) return LKS_OK;
    *out = id != LKI_OP_COUNT ? lki_op_get(id) : NULL;
    if (*out != NULL && losses && (*out)->is_loss) return LKS_OK;
    if (strcmp(name, "softmax") == 0) /* softplus, the nearest, would be taken for it */
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s: there is no softmax: the loss cross_entropy begins with one; drop it, or "
            "use log_softmax, as the last layer",
            where);
    for (int i = 0; lki_layer_at(i) != NULL; i++) lki_nearest_offer(&near, lki_layer_at(i)->name);
    if (near.best != NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: unknown layer '%.60s'; the nearest is '%s'", where,
                        name, near.best);
    return LKI_FAIL(LKS_E_INVALID, "%s: unknown layer '%.60s'; lockstep --help-layers lists them",
                    where, name);
}

static lks_status unknown_option(const lki_layer *l, const char *name)
{
    const lki_op *op = l->op;
    const lki_attribute *a;
    lki_nearest near = {.word = name};
    for (int i = 0; (a = lki_layer_option(op, i)) != NULL; i++) lki_nearest_offer(&near, a->name);
    if (near.best != NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s has no option '%.60s'; the nearest is '%s'",
                        l->where, op->name, name, near.best);
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: %s has no option '%.60s'; lockstep --help-layers lists them", l->where,
                    op->name, name);
}

static lks_status set_option(lki_layer *l, lki_options *options, const lki_attribute *a,
                             const lki_yaml *node)
{
    const char *op = l->op->name;
    if (a != &with_option && a != &any_option[0] && a != &any_option[1] && a != &weight_of_option &&
        a != &repeat_option)
        return lki_options_read(options, a, op, node, l->where);
    const lki_spec spec = {lki_heap_format(l->heap, "%s %s", op, a->name), lki_option_type(a),
                           a->range};
    lki_setting setting;
    LKI_TRY(lki_setting_parse(&setting, l->heap, &spec, node, l->where));
    if (a == &repeat_option) {
        l->repeat = setting.i[0];
        return LKS_OK;
    }
    *(a == &with_option     ? &l->with
      : a == &any_option[0] ? &l->name
      : a == &any_option[1] ? &l->from
                            : &l->weight_of) = setting.s;
    return LKS_OK;
}

static bool is_given(const lki_layer *l, const lki_options *options, const lki_attribute *a)
{
    if (a == &with_option) return l->with != NULL;
    return options->setting[a - options->table->list].set;
}

static lks_status read_options(lki_layer *l, lki_options *options, const lki_yaml *body)
{
    const lki_op *op = l->op;
    const lki_attribute *a;
    if (body == NULL || lki_yaml_is_null(body)) {
    } else if (body->kind != LKI_YAML_MAP) {
        a = lki_layer_option(op, 0);
        if (a == NULL) return LKI_FAIL(LKS_E_INVALID, "%s: %s has no options", l->where, op->name);
        LKI_TRY(set_option(l, options, a, body));
    } else {
        for (const lki_yaml_entry *e = body->first; e != NULL; e = e->next) {
            a = option_by_name(op, e->key->text);
            if (a == NULL) return unknown_option(l, e->key->text);
            LKI_TRY(set_option(l, options, a, e->value));
        }
    }
    for (int i = 0; (a = lki_layer_option(op, i)) != NULL; i++)
        if (a->required && !is_given(l, options, a))
            return LKI_FAIL(LKS_E_INVALID, "%s: %s needs %s", l->where, op->name, a->name);
    return lki_options_end(options, l->where);
}

static lks_tensor *find_named(const lki_layer *l, const char *name)
{
    const lki_layer_named *n = l->named;
    while (n != NULL && strcmp(n->name, name) != 0) n = n->next;
    return n != NULL ? n->tensor : NULL;
}

/* The name that a layer of a scope has outside of it. */
static const char *full_name(const lki_layer *l, const lki_layer_scope *scope, const char *name)
{
    if (scope == NULL || scope->prefix[0] == '\0') return name;
    return lki_heap_format(l->heap, "%s.%s", scope->prefix, name);
}

/* First among those of the block, then of what it stands in. */
static lks_tensor *find_from(const lki_layer *l, const char *name)
{
    for (const lki_layer_scope *s = l->scope; s != NULL; s = s->outer) {
        if (strcmp(name, "input") == 0) return s->input;
        lks_tensor *tensor = find_named(l, full_name(l, s, name));
        if (tensor != NULL) return tensor;
    }
    return find_named(l, name);
}

static void offer_names(const lki_layer *l, lki_nearest *near)
{
    for (const lki_layer_named *n = l->named; n != NULL; n = n->next) {
        const size_t length = l->scope != NULL ? strlen(l->scope->prefix) : 0;
        const bool own = length > 0 && strncmp(n->name, l->scope->prefix, length) == 0 &&
                         n->name[length] == '.';
        lki_nearest_offer(near, own ? n->name + length + 1 : n->name);
    }
}

/* The layer of that name; NULL, with a sentence in the graph, where there is none. */
static lks_tensor *earlier(const lki_layer *l, const char *name)
{
    const char *op = l->op->name;
    lks_tensor *tensor = find_from(l, name);
    if (tensor != NULL) return tensor;
    lki_nearest near = {.word = name};
    offer_names(l, &near);
    if (near.best == NULL)
        return lks_graph_fail(l->graph, "%s: no layer before it has the name '%.60s'", op, name);
    return lks_graph_fail(l->graph,
                          "%s: no layer before it has the name '%.60s'; the nearest is '%.60s'", op,
                          name, near.best);
}

static lks_tensor *target_of(const lki_layer *l)
{
    const lks_shape shape = lks_tensor_shape(l->x);
    if (l->graph->target != NULL || l->x == NULL) return l->graph->target;
    if (l->op->of_classes) {
        lks_target_opts opts = {.classes = shape.dim[shape.ndim - 1], .shape = shape};
        opts.shape.ndim--; /* the positions that x has */
        return lks_target(l->graph, &opts);
    }
    return lks_target(l->graph, &(lks_target_opts){.shape = shape});
}

static lks_tensor *add_node(lki_layer *l, void *values)
{
    const lki_op *op = l->op;
    const lki_op_id id = lki_op_find(op->name);
    lks_tensor *in[LKI_MAX_IN] = {l->x};
    if (l->from != NULL) in[0] = earlier(l, l->from);
    if (in[0] == NULL) return NULL;
    if (op->inputs == 2) in[1] = op->is_loss ? target_of(l) : earlier(l, l->with);
    if (op->attr_size > 0) *(const char **)values = l->name;
    if (l->weight_of != NULL) {
        lks_tensor *tied = earlier(l, l->weight_of);
        if (tied == NULL) return NULL;
        memcpy((char *)values + op->weight_of, &tied, sizeof tied);
    }
    if (op->build != NULL && !l->single) return op->build(l->graph, (int)id, values, in[0]);
    if (op->reads_tokens) /* which its builder finds, too */
        in[1] = lki_graph_tokens(l->graph);
    return lki_graph_add(l->graph, id, op->attr_size > 0 ? values : NULL, in,
                         in[1] != NULL ? 2 : 1);
}

lks_status lki_layer_add_named(lki_layer *l, const char *name, lks_tensor *tensor)
{
    lki_layer_named *n = lki_heap_alloc(l->heap, sizeof *n);
    if (n == NULL) return lki_heap_status(l->heap, LKS_OK);
    *n = (lki_layer_named){l->named, name, tensor};
    l->named = n;
    return LKS_OK;
}

/* The layer whose options are read, with l->name. */
static lks_status place_layer(lki_layer *l, void *values)
{
    const bool reserved = l->scope != NULL && l->name != NULL && strcmp(l->name, "input") == 0;
    if (l->name != NULL) l->name = full_name(l, l->scope, l->name);
    if (reserved || (l->name != NULL && find_named(l, l->name) != NULL))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the name '%.60s' is taken already; names are unique, and 'input' is "
                        "what the list begins with",
                        l->where, l->name);
    l->x = add_node(l, values);
    if (l->x != NULL) return l->name != NULL ? lki_layer_add_named(l, l->name, l->x) : LKS_OK;
    const lks_status status = lks_graph_status(l->graph);
    char sentence[sizeof lks_last_error()->message];
    snprintf(sentence, sizeof sentence, "%s", lks_last_error()->message);
    return LKI_FAIL(status, "%s: %.500s", l->where, sentence);
}

lks_status lki_layer_build(lki_layer *l, const lki_op *op, const lki_yaml *body)
{
    lki_options options;
    l->op = op;
    l->name = l->from = l->with = l->weight_of = NULL;
    l->repeat = 0;
    LKI_TRY(lki_options_begin(&options, l->heap, &op->attributes, op->attr_size));
    LKI_TRY(read_options(l, &options, body));
    const char *first = l->name;
    if (l->repeat > 0 && first != NULL) LKI_TRY(lki_block_check_name(first, l->where));
    LKI_TRY(place_layer(l, options.values));
    for (int64_t i = 1; i < l->repeat; i++) {
        l->name = first != NULL ? lki_block_name(l->heap, first, i) : NULL;
        l->from = NULL;
        LKI_TRY(place_layer(l, options.values));
    }
    return LKS_OK;
}
