/* concat: the channels (the last dimension) of a, then those of b; all other dimensions are equal. */
#include "op/common.h"

static bool equal_but_for_channels(const lks_shape *a, const lks_shape *b)
{
    lks_shape other = *b;

    if (a->ndim != b->ndim) return false;
    other.dim[a->ndim - 1] = a->dim[a->ndim - 1];
    return lki_shape_equal(a, &other);
}

static lks_status concat_infer(lki_node *node)
{
    const lks_tensor *a = node->in[0], *b = node->in[1];
    const int last = a->shape.ndim - 1;

    if (!equal_but_for_channels(&a->shape, &b->shape)) {
        char first[128], second[128];

        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': '%s' is %s, but '%s' is %s; shapes must be equal but for the "
                        "last dimension, the channels",
                        LKI_NODE(node), a->node->name,
                        lki_shape_print(&a->shape, first, sizeof first), b->node->name,
                        lki_shape_print(&b->shape, second, sizeof second));
    }
    node->out.shape = a->shape;
    node->out.shape.dim[last] += b->shape.dim[last];
    return lki_check_shape(node, "the output", &node->out.shape);
}

const lki_op lki_op_concat = {
    .name = "concat",
    .what = "this layer's channels, then an earlier layer's; of more layers, one after another",
    .inputs = 2,
    .along = LKI_ALONG_EACH,
    .infer = concat_infer,
};

lks_tensor *lks_concat(lks_graph *graph, lks_tensor *a, lks_tensor *b)
{
    return lki_graph_add(graph, LKI_OP_CONCAT, NULL, (lks_tensor *[]){a, b}, 2);
}
