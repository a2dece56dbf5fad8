/* A graph of one position, node by node: shapes lose their positions, all else stays as it was checked. */
#include "core/one.h"

#include "base/check.h"

/* Graphs are small and shallow enough for recursion. */
static void one_need(bool *needed, const lki_node *node)
{
    if (needed[node->index]) return;
    needed[node->index] = true;
    for (int i = 0; i < node->in_count; i++) one_need(needed, node->in[i]->node);
}

/* Whether a position of it can be computed behind the others. */
static bool one_follows(const lki_node *node, int64_t positions)
{
    const lks_shape *out = &node->out.shape;
    const lki_op *op = lki_op_get(node->op);
    const int ndim = node->op == LKI_OP_INPUT ? 1 : 2;

    if (out->ndim != ndim || out->dim[0] != positions) return false;
    if (op->along == LKI_ALONG_ANY) return false;
    /* Masked: tokens of positions before it would be wanted. */
    return !op->reads_tokens || node->in_count == 1;
}

static lks_status one_copy(lks_graph *graph, lki_node **of, const lki_node *node)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&graph->arena, &memory, sizeof(lki_node), "a node"));
    lki_node *copy = of[node->index] = memory;

    *copy = *node;
    copy->whole = node;
    copy->index = graph->count++;
    copy->next = NULL;
    copy->tied = NULL;
    copy->out.node = copy;
    copy->out.shape.dim[0] = 1;
    copy->multiply_adds /= node->out.shape.dim[0];
    for (int i = 0; i < node->in_count; i++) copy->in[i] = &of[node->in[i]->node->index]->out;
    for (int p = 0; p < node->param_count; p++) {
        const lki_node *owner = node->param[p].of;

        if (owner == NULL) continue;
        copy->param[p].of = of[owner->index];
        of[owner->index]->tied = copy;
    }
    if (graph->last != NULL)
        graph->last->next = copy;
    else
        graph->first = copy;
    graph->last = copy;
    if (node->op == LKI_OP_INPUT) graph->input = &copy->out;
    return LKS_OK;
}

static lks_status one_make(lks_graph *graph, const lks_graph *whole, const lks_tensor *output,
                           const lks_tensor **one)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&graph->arena, &memory, (size_t)whole->count, "needed nodes"));
    bool *needed = memory;
    LKI_TRY(lki_arena_alloc(&graph->arena, &memory, (size_t)whole->count * sizeof(lki_node *),
                            "nodes of a position"));
    lki_node **of = memory;

    one_need(needed, output->node);
    *one = NULL;
    for (const lki_node *node = whole->first; node != NULL; node = node->next)
        if (needed[node->index] && !one_follows(node, output->shape.dim[0])) return LKS_OK;
    for (const lki_node *node = whole->first; node != NULL; node = node->next)
        if (needed[node->index]) LKI_TRY(one_copy(graph, of, node));
    *one = &of[output->node->index]->out;
    return LKS_OK;
}

lks_status lki_graph_one(lks_graph **out, const lks_graph *whole, const lks_tensor *output,
                         const lks_tensor **one)
{
    LKI_TRY(lks_graph_create(out, whole->context));
    const lks_status status = one_make(*out, whole, output, one);
    if (status == LKS_OK && *one != NULL) return LKS_OK;
    lks_graph_destroy(*out);
    *out = NULL;
    return status;
}
