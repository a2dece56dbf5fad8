/*
 * layer_norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and the
 * biased variance of the values of a sample along the last `dims` dimensions (J. Ba, J. Kiros,
 * G. Hinton: "Layer normalization", 2016).
 *
 * Weight and bias have these dimensions' shape and order, [columns][channels] say, as PyTorch has
 * them on a channels-last tensor. A whole image (3 dimensions of 3) is something that PyTorch
 * normalises in its own layout too, LayerNorm([C, H, W]): there they are [channels][rows][columns].
 */
#include "op/common.h"

static lks_shape shape_of_parameters(const lks_shape *in, int dims)
{
    lks_shape shape = {.ndim = dims};

    if (dims == 3 && in->ndim == 3) return LKS_SHAPE(in->dim[2], in->dim[0], in->dim[1]);
    for (int i = 0; i < dims; i++) shape.dim[i] = in->dim[in->ndim - dims + i];
    return shape;
}

static lks_status layer_norm_infer(lki_node *node)
{
    const lks_layer_norm_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;

    if (opts->dims > in->ndim)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': dims is %d, expected 1 to %d, the dimensions of input '%s'",
                        LKI_NODE(node), opts->dims, in->ndim, node->in[0]->node->name);
    node->out.shape = *in;
    if (!opts->no_affine) {
        const lks_shape shape = shape_of_parameters(in, opts->dims);
        (opts->no_bias ? lki_add_scale : lki_add_affine)(node, &shape);
    }
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(SHORT, lks_layer_norm_opts, dims, .range = "[1,5]", .fallback = "1"),
    LKI_ATTRIBUTE(FLOAT, lks_layer_norm_opts, epsilon, .range = "(0,)", .fallback = "1e-5"),
    LKI_ATTRIBUTE_NOT(lks_layer_norm_opts, affine),
    LKI_ATTRIBUTE_NOT(lks_layer_norm_opts, bias),
};

static bool is_of_positions(const lki_node *node)
{
    return ((const lks_layer_norm_opts *)node->attr)->dims > 1;
}

const lki_op lki_op_layer_norm = {
    .name = "layer_norm",
    .what = "normalisation of every sample over its last dims dimensions, times weight plus bias",
    .inputs = 1,
    .attr_size = sizeof(lks_layer_norm_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .looks_ahead = is_of_positions,
    .infer = layer_norm_infer,
};

lks_tensor *lks_layer_norm(lks_graph *graph, lks_tensor *x, const lks_layer_norm_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_LAYER_NORM, opts, &x, 1);
}
