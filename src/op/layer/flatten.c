/* flatten: one dimension; of an image in channel, row, column order. */
#include "op/common.h"

static lks_status flatten_infer(lki_node *node)
{
    node->out.shape = LKS_SHAPE(lks_shape_elements(&node->in[0]->shape));
    return LKS_OK;
}

const lki_op lki_op_flatten = {
    .name = "flatten",
    .what = "one dimension, in PyTorch's order: channel, row, column of an image; position, "
            "channel of a sequence",
    .inputs = 1,
    .at_zero = LKI_ZERO_AS_INPUT,
    .infer = flatten_infer,
};

lks_tensor *lks_flatten(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_FLATTEN, NULL, &x, 1);
}
