/* masking (Keras's rule): a position of frames all of whose features equal `value` is padding, and its token is 0; of all others
 * it is 1. NaN equals nothing, and -0 equals 0. No gradient passes: the tokens do not change with what is learned. */
#include "op/common.h"

static lks_status masking_infer(lki_node *node)
{
    node->out.shape = LKS_SHAPE(node->in[0]->shape.dim[0]);
    node->out.dtype = LKS_I32;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_masking_opts, value, .fallback = "0",
                  .help = "which all features of padding have"),
};

/* Padding is what the data has, so it is looked for in front of a normalize. */
static lks_tensor *masking_build(lks_graph *graph, int op, const void *attr, lks_tensor *x)
{
    if (x != NULL && x->node->op == LKI_OP_NORMALIZE && x->node->in[0]->dtype == LKS_F32)
        x = x->node->in[0];
    return lki_graph_add(graph, (lki_op_id)op, attr, &x, 1);
}

const lki_op lki_op_masking = {
    .name = "masking",
    .what = "tokens of frames, for layers that are masked: 0 where a position is padding, else 1",
    .inputs = 1,
    .takes = LKI_TAKES_SEQUENCE,
    .attr_size = sizeof(lks_masking_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .stops_gradient = true,
    .infer = masking_infer,
    .build = masking_build,
};

lks_tensor *lks_masking(lks_graph *graph, lks_tensor *x, const lks_masking_opts *opts)
{
    return masking_build(graph, LKI_OP_MASKING, opts, x);
}
