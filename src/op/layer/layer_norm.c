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

#include <math.h>

static lks_shape shape_of_parameters(const lks_shape *in, int dims)
{
    lks_shape shape = {.ndim = dims};

    if (dims == 3 && in->ndim == 3) return LKS_SHAPE(in->dim[2], in->dim[0], in->dim[1]);
    for (int i = 0; i < dims; i++) shape.dim[i] = in->dim[in->ndim - dims + i];
    return shape;
}

static lks_status layer_norm_infer(lki_node *node)
{
    lks_layer_norm_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    lks_shape shape;

    if (opts->dims == 0) opts->dims = 1;
    if (opts->epsilon == 0.0f) opts->epsilon = 1e-5f;
    LKI_TRY(lki_check_floats(node));
    if (opts->dims < 1 || opts->dims > in->ndim)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': dims is %d, expected 1 to %d, the dimensions of input '%s'",
                        LKI_NODE(node), opts->dims, in->ndim, node->in[0]->node->name);
    if (!(opts->epsilon > 0.0f && isfinite(opts->epsilon)))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': epsilon is %g, expected a positive number",
                        LKI_NODE(node), (double)opts->epsilon);
    node->out.shape = *in;
    if (opts->no_affine) return LKS_OK;
    shape = shape_of_parameters(in, opts->dims);
    node->param[0] = (lki_param){
        .suffix = "weight", .shape = shape, .init.kind = LKS_INIT_ONES, .fan_in = 1, .fan_out = 1};
    node->param[1] = (lki_param){
        .suffix = "bias", .shape = shape, .init.kind = LKS_INIT_ZEROS, .fan_in = 1, .fan_out = 1};
    node->param_count = 2;
    return LKS_OK;
}

static void layer_norm_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_layer_norm_opts *opts = node->attr;

    buffer[0] = '\0';
    if (opts->dims != 1) lki_print(buffer, size, "dims=%d", opts->dims);
    if (opts->epsilon != 1e-5f) lki_print_float(buffer, size, "epsilon", opts->epsilon);
    if (opts->no_affine) lki_print(buffer, size, "no_affine");
}

const lki_op lki_op_layer_norm = {
    .name = "layer_norm",
    .attr_size = sizeof(lks_layer_norm_opts),
    .infer = layer_norm_infer,
    .print = layer_norm_print,
};

lks_tensor *lks_layer_norm(lks_graph *graph, lks_tensor *x, const lks_layer_norm_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_LAYER_NORM, opts, &x, 1);
}
