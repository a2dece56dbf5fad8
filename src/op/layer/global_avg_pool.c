/* global_avg_pool: the mean over rows and columns, or over positions: channels are left. */
#include "op/common.h"

static lks_status global_avg_pool_infer(lki_node *node)
{
    const lks_shape *in = &node->in[0]->shape;

    node->out.shape = LKS_SHAPE(in->dim[in->ndim - 1]);
    return LKS_OK;
}

const lki_op lki_op_global_avg_pool = {
    .name = "global_avg_pool",
    .what = "mean over the image, or over positions, per channel",
    .inputs = 1,
    .takes = LKI_TAKES_PLACES,
    .looks_ahead = lki_looks_ahead,
    .infer = global_avg_pool_infer,
};

lks_tensor *lks_global_avg_pool(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_GLOBAL_AVG_POOL, NULL, &x, 1);
}
