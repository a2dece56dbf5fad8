#include "core/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

lks_status lks_graph_create(lks_graph **out, lks_context *context)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    void *memory = NULL;

    *out = NULL;
    if (context == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "graph: the context is NULL; make one with lks_context_create()");
    LKI_TRY(lki_alloc(context, &memory, sizeof **out, "a graph"));
    *out = memory;
    (*out)->context = context;
    (*out)->arena.context = context;
    return LKS_OK;
}

void lks_graph_destroy(lks_graph *graph)
{
    if (graph == NULL) return;
    lki_arena_release(&graph->arena);
    lki_free(graph->context, graph, sizeof *graph);
}

lks_status lks_graph_status(const lks_graph *graph)
{
    if (graph == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "graph: the graph is NULL; make one with lks_graph_create()");
    if (graph->error.status != LKS_OK) lki_error_restore(&graph->error);
    return graph->error.status;
}

void lki_graph_keep_error(lks_graph *graph)
{
    if (graph->error.status == LKS_OK) graph->error = *lks_last_error();
}

lks_tensor *lks_graph_fail(lks_graph *graph, const char *format, ...)
{
    char message[sizeof(((lks_error *)0)->message)];
    va_list arguments;

    va_start(arguments, format);
    lki_text_list(message, sizeof message, format != NULL ? format : "a builder failed", arguments);
    va_end(arguments);
    (void)LKI_FAIL(LKS_E_INVALID, "%s", message);
    if (graph != NULL) lki_graph_keep_error(graph);
    return NULL;
}

static const lki_node *graph_find(const lks_graph *graph, const char *name)
{
    const lki_node *node = graph->first;

    while (node != NULL && strcmp(node->name, name) != 0) node = node->next;
    return node;
}

/* The beginning of a name that belongs to other entries of a model's state; NULL: none. */
static const char *reserved_beginning(const char *name)
{
    static const char *const reserved[] = {LKI_NAMES_OPTIMIZER, LKI_NAMES_GRADIENT,
                                           LKI_NAMES_AVERAGE};

    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strncmp(name, reserved[i], strlen(reserved[i])) == 0) return reserved[i];
    return NULL;
}

/* Names become names of parameters in files and messages: "<name>.weight". */
static lks_status set_name(lks_graph *graph, lki_node *node, const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *op = lki_op_get(node->op)->name;

    if (name == NULL) {
        do {
            graph->named[node->op]++;
            snprintf(node->name, sizeof node->name, "%s_%d", op, graph->named[node->op]);
        } while (graph_find(graph, node->name) != NULL);
        return LKS_OK;
    }
    if (name[0] == '\0' || name[strspn(name, allowed)] != '\0')
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the name '%.80s' is not valid; use letters, digits, '_', '-' and '.'",
                        op, name);
    if (strlen(name) >= sizeof node->name)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the name '%.80s' has %zu characters, expected at most %d", op, name,
                        strlen(name), LKI_NAME_SIZE - 1);
    if (reserved_beginning(name) != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the name '%s' begins with '%s', as names of the optimizer's state, of "
                        "gradients and of averages do; choose another beginning",
                        op, name, reserved_beginning(name));
    if (graph_find(graph, name) != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the name '%s' is taken by another %s of this graph; names are unique",
                        op, name, lki_op_get(graph_find(graph, name)->op)->name);
    strcpy(node->name, name);
    return LKS_OK;
}

static lks_status set_inputs(const lks_graph *graph, lki_node *node, lks_tensor *const in[],
                             int in_count)
{
    const lki_op *op = lki_op_get(node->op);

    node->in_count = in_count;
    for (int i = 0; i < in_count; i++) {
        const lki_node *other = graph->first;

        if (in[i] == NULL)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s '%s': input %d is NULL; pass a tensor that a builder returned",
                            op->name, node->name, i);
        while (other != NULL && &other->out != in[i]) other = other->next;
        if (other == NULL)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s '%s': input %d belongs to another graph; build both in one graph",
                            op->name, node->name, i);
        if (lki_op_get(other->op)->is_loss)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s '%s': input %d is the loss '%s', and nothing can follow a loss",
                            op->name, node->name, i, other->name);
        if ((other->op == LKI_OP_TARGET) != (op->is_loss && i == 1))
            return LKI_FAIL(
                LKS_E_INVALID, "%s '%s': input %d is '%s', %s; %s", op->name, node->name, i,
                other->name, other->op == LKI_OP_TARGET ? "a target" : "not a target",
                other->op == LKI_OP_TARGET ? "only a loss takes a target, as its second input"
                                           : "the second input of a loss is an lks_target()");
        node->in[i] = in[i];
        node->needs_gradient |= other->needs_gradient;
    }
    return LKS_OK;
}

static lks_status set_attributes(lks_graph *graph, lki_node *node, const void *attr)
{
    const lki_op *op = lki_op_get(node->op);

    if (op->attr_size == 0) return LKS_OK;
    LKI_TRY(lki_arena_alloc(&graph->arena, &node->attr, op->attr_size, "attributes of a node"));
    if (attr != NULL) memcpy(node->attr, attr, op->attr_size);
    *(const char **)node->attr = node->name; /* the caller's string may not live as long */
    lki_attributes_fill(&op->attributes, node->attr);
    return LKS_OK;
}

/* Lists of numbers, once their count has been checked: the caller's may not live as long. */
static lks_status copy_lists(lks_graph *graph, lki_node *node)
{
    const lki_attributes *table = &lki_op_get(node->op)->attributes;

    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        char *attr = node->attr;

        if (a->type != LKI_FLOATS) continue;
        const size_t bytes = sizeof(float) * (size_t) * (const int *)(void *)(attr + a->count);
        const float **list = (const float **)(void *)(attr + a->offset);
        void *copy;
        LKI_TRY(lki_arena_alloc(&graph->arena, &copy, bytes, a->name));
        if (*list != NULL) memcpy(copy, *list, bytes);
        *list = copy;
    }
    return LKS_OK;
}

/* For messages: what a tensor that is no F32 has, and what helps where F32 is expected. */
static const char *kind_of(const lks_tensor *x)
{
    return x->node->op == LKI_OP_MASKING ? "tokens of a masking" : lks_dtype_name(x->dtype);
}

static const char *what_helps(const lks_tensor *x)
{
    if (x->node->op == LKI_OP_MASKING) return "only layers that are masked read these";
    return x->dtype == LKS_I32 ? "put an embedding before it" : "put a normalize before it";
}

/* What the table of the operation says of the first input. */
static lks_status check_input(const lki_node *node)
{
    const lki_op *op = lki_op_get(node->op);
    const lks_tensor *x = node->in_count > 0 ? node->in[0] : NULL;
    const int ndim = x != NULL ? x->shape.ndim : 0;
    const int floats = op->is_loss || op->reads_tokens ? 1 : node->in_count;

    if (op->takes == LKI_TAKES_ANY && x->dtype != LKS_I32) return LKS_OK;
    if (op->takes == LKI_TAKES_TOKENS && (x->dtype != LKS_I32 || x->node->op != LKI_OP_INPUT))
        return LKI_FAIL(LKS_E_SHAPE, "%s '%s': input '%s' is %s, expected tokens, an input of I32",
                        op->name, node->name, x->node->name, kind_of(x));
    if (op->takes == LKI_TAKES_TOKENS) return LKS_OK;
    if (op->takes == LKI_TAKES_IMAGE && ndim != 3)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimension%s, expected 3 (height, width, channels)",
                        op->name, node->name, ndim, LKI_S(ndim));
    if (op->takes == LKI_TAKES_PLACES && ndim != 2 && ndim != 3)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': input has %d dimension%s, expected 3 (height, width, channels) or "
            "2 (positions, channels)",
            op->name, node->name, ndim, LKI_S(ndim));
    if (op->takes == LKI_TAKES_ROWS && ndim != 1 && ndim != 2)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimensions, expected 1, or 2 (positions, channels); "
                        "put a flatten before it",
                        op->name, node->name, ndim);
    if (op->takes == LKI_TAKES_SEQUENCE && ndim != 2)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimension%s, expected 2 (positions, channels)",
                        op->name, node->name, ndim, LKI_S(ndim));
    if (op->takes == LKI_TAKES_VECTOR && ndim != 1)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimensions, expected 1; put a flatten before it",
                        op->name, node->name, ndim);
    if (op->takes == LKI_TAKES_PIXELS && ndim != 1 && ndim != 3)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': input has %d dimensions, expected 3 (height, width, channels) or 1", op->name,
            node->name, ndim);
    for (int i = 0; i < floats; i++) {
        if (node->in[i]->dtype != LKS_F32)
            return LKI_FAIL(LKS_E_SHAPE, "%s '%s': input '%s' is %s, expected F32; %s", op->name,
                            node->name, node->in[i]->node->name, kind_of(node->in[i]),
                            what_helps(node->in[i]));
    }
    if (op->reads_tokens && node->in_count > 1 && node->in[1]->dtype != LKS_I32)
        return LKI_FAIL(LKS_E_SHAPE, "%s '%s': input '%s' is %s, expected tokens, an input of I32",
                        op->name, node->name, node->in[1]->node->name,
                        lks_dtype_name(node->in[1]->dtype));
    return LKS_OK;
}

static lks_status stops_gradient(const lki_node *node)
{
    const lki_op *op = lki_op_get(node->op);

    if (!op->stops_gradient || !node->needs_gradient) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s '%s': input '%s' has parameters before it, but no gradient passes "
                    "%s; put it right after the input",
                    op->name, node->name, node->in[0]->node->name, op->name);
}

static lks_status infer(lks_graph *graph, lki_node *node)
{
    const lki_op *op = lki_op_get(node->op);
    char who[2 * LKI_NAME_SIZE];

    snprintf(who, sizeof who, "%s '%s'", op->name, node->name);
    LKI_TRY(check_input(node));
    LKI_TRY(stops_gradient(node));
    LKI_TRY(lki_attributes_check(&op->attributes, node->attr, who));
    LKI_TRY(op->infer(node));
    LKI_TRY(lki_attributes_check_lists(&op->attributes, node->attr, who));
    return copy_lists(graph, node);
}

/* There is one input and one target, so that a batch has one meaning. */
static lks_status check_single(const lks_graph *graph, const lki_node *node)
{
    const lks_tensor *other = NULL;

    if (node->op == LKI_OP_INPUT) other = graph->input;
    if (node->op == LKI_OP_TARGET) other = graph->target;
    if (other == NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "%s '%s': the graph has one already, '%s'; a graph has only one",
                    lki_op_get(node->op)->name, node->name, other->node->name);
}

static lks_status graph_add(lks_graph *graph, lki_op_id id, const void *attr,
                            lks_tensor *const in[], int in_count, lks_tensor **out)
{
    void *memory = NULL;
    lki_node *node;

    LKI_TRY(lki_arena_alloc(&graph->arena, &memory, sizeof *node, "a node"));
    node = memory;
    node->op = id;
    node->index = graph->count;
    node->out.node = node;
    LKI_TRY(set_name(graph, node, attr != NULL ? *(const char *const *)attr : NULL));
    LKI_TRY(set_inputs(graph, node, in, in_count));
    LKI_TRY(check_single(graph, node));
    LKI_TRY(set_attributes(graph, node, attr));
    LKI_TRY(infer(graph, node));
    node->needs_gradient |= node->param_count > 0;

    if (graph->last != NULL)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->count++;
    if (id == LKI_OP_INPUT) graph->input = &node->out;
    if (id == LKI_OP_TARGET) graph->target = &node->out;
    *out = &node->out;
    return LKS_OK;
}

lks_tensor *lki_graph_add(lks_graph *graph, lki_op_id op, const void *attr, lks_tensor *const in[],
                          int in_count)
{
    lks_tensor *out = NULL;

    if (graph == NULL) {
        (void)LKI_FAIL(LKS_E_INVALID, "%s: the graph is NULL; make one with lks_graph_create()",
                       lki_op_get(op)->name);
        return NULL;
    }
    if (graph->error.status != LKS_OK) return NULL;
    if (graph_add(graph, op, attr, in, in_count, &out) != LKS_OK) lki_graph_keep_error(graph);
    return out;
}

lks_tensor *lki_graph_tokens(lks_graph *graph)
{
    lks_tensor *tokens = NULL;

    for (lki_node *node = graph->first; node != NULL; node = node->next)
        if (node->out.dtype == LKS_I32 && node->op != LKI_OP_TARGET) tokens = &node->out;
    return tokens;
}

const lki_node *lki_graph_looks_ahead(const lks_graph *graph)
{
    const lki_node *node = graph->first;
    for (; node != NULL; node = node->next) {
        const lki_op *op = lki_op_get(node->op);
        if (op->looks_ahead != NULL && op->looks_ahead(node)) break;
    }
    return node;
}

lks_shape lks_tensor_shape(const lks_tensor *tensor)
{
    return tensor != NULL ? tensor->shape : (lks_shape){0};
}

lks_dtype lks_tensor_dtype(const lks_tensor *tensor)
{
    return tensor != NULL ? tensor->dtype : LKS_F32;
}

const char *lks_tensor_name(const lks_tensor *tensor)
{
    return tensor != NULL ? tensor->node->name : "";
}
