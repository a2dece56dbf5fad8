/*
 * rms_norm: y = x / sqrt(mean of x x + epsilon) * weight, along the last dimension (B. Zhang, R. Sennrich: "Root mean square
 * layer normalization", 2019). PyTorch's RMSNorm, whose epsilon is that of float32 where nothing is said.
 */
#include "op/common.h"

static lks_status rms_norm_infer(lki_node *node)
{
    const lks_rms_norm_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape, channels = LKS_SHAPE(in->dim[in->ndim - 1]);

    node->out.shape = *in;
    if (!opts->no_affine) lki_add_scale(node, &channels);
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_rms_norm_opts, epsilon, .range = "(0,)", .fallback = "1.1920929e-7"),
    LKI_ATTRIBUTE_NOT(lks_rms_norm_opts, affine),
};

const lki_op lki_op_rms_norm = {
    .name = "rms_norm",
    .what = "channels over the root of the mean of their squares, times weight",
    .inputs = 1,
    .attr_size = sizeof(lks_rms_norm_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = rms_norm_infer,
};

lks_tensor *lks_rms_norm(lks_graph *graph, lks_tensor *x, const lks_rms_norm_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_RMS_NORM, opts, &x, 1);
}
