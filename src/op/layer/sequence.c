/* sequence: the pixels of an image as positions, row by row: height, width, channels become height * width, channels. In
 * memory nothing changes its place. */
#include "op/common.h"

static lks_status sequence_infer(lki_node *node)
{
    const lks_shape *in = &node->in[0]->shape;

    node->out.shape = LKS_SHAPE(in->dim[0] * in->dim[1], in->dim[2]);
    return LKS_OK;
}

const lki_op lki_op_sequence = {
    .name = "sequence",
    .what = "pixels as positions, row by row: positions, channels",
    .inputs = 1,
    .takes = LKI_TAKES_IMAGE,
    .at_zero = LKI_ZERO_AS_INPUT,
    .infer = sequence_infer,
};

lks_tensor *lks_sequence(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_SEQUENCE, NULL, &x, 1);
}
