/*
 * conv2d: y[oy][ox][f] = bias[f] + sum over ky, kx, c of
 *     x[oy*stride + ky*dilation - padding][ox*stride + kx*dilation - padding][c] * weight[f][c][ky][kx]
 * where c runs over the channels of f's group, and pixels outside are zero.
 */
#include "core/attribute_init.h"
#include "op/common.h"

static lks_status infer_parameters(lki_node *node, const lks_conv2d_opts *opts, int64_t channels)
{
    const int64_t per_group = channels / opts->groups;
    const lks_shape weight = LKS_SHAPE(opts->filters, per_group, opts->kernel[0], opts->kernel[1]);
    const int64_t area = opts->kernel[0] * opts->kernel[1];

    LKI_TRY(lki_check_shape(node, "weight", &weight));
    lki_add_weight(node, &weight, &opts->weight_init, per_group * area, opts->filters * area);
    node->param[0].groups = opts->groups;
    if (!opts->no_bias) lki_add_bias(node, opts->filters, &opts->bias_init);
    return LKS_OK;
}

static lks_status conv2d_infer(lki_node *node)
{
    const lks_conv2d_opts *opts = node->attr;
    const int64_t channels = node->in[0]->shape.dim[2];
    int64_t out[2];

    LKI_TRY(lki_check_range(node, "groups", opts->groups, 1, channels));
    if (channels % opts->groups != 0 || opts->filters % opts->groups != 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': groups is %lld, which does not divide both the input's %lld "
                        "channels and the %lld filters",
                        LKI_NODE(node), (long long)opts->groups, (long long)channels,
                        (long long)opts->filters);
    LKI_TRY(lki_window_out(
        node, (lki_window){opts->kernel, opts->stride, opts->padding, opts->dilation}, out));
    LKI_TRY(infer_parameters(node, opts, channels));
    node->out.shape = LKS_SHAPE(out[0], out[1], opts->filters);
    LKI_TRY(lki_check_shape(node, "the output", &node->out.shape));
    node->multiply_adds = lks_shape_elements(&node->out.shape) * node->param[0].fan_in;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_conv2d_opts, filters, .range = "[1,)", .required = true),
    LKI_ATTRIBUTE(PAIR, lks_conv2d_opts, kernel, .range = "[1,)", .required = true),
    LKI_ATTRIBUTE(PAIR, lks_conv2d_opts, stride, .range = "[1,)", .fallback = "1"),
    LKI_ATTRIBUTE(PAIR, lks_conv2d_opts, padding, .range = "[0,)", .fallback = "0"),
    LKI_ATTRIBUTE(PAIR, lks_conv2d_opts, dilation, .range = "[1,)", .fallback = "1"),
    LKI_ATTRIBUTE(INT, lks_conv2d_opts, groups, .range = "[1,)", .fallback = "1"),
    LKI_ATTRIBUTE_NOT(lks_conv2d_opts, bias),
    LKI_WEIGHT_INIT(lks_conv2d_opts),
    LKI_BIAS_INIT(lks_conv2d_opts),
};

const lki_op lki_op_conv2d = {
    .name = "conv2d",
    .what = "convolution of an image; pixels outside are zero",
    .inputs = 1,
    .takes = LKI_TAKES_IMAGE,
    .attr_size = sizeof(lks_conv2d_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .infer = conv2d_infer,
};

lks_tensor *lks_conv2d(lks_graph *graph, lks_tensor *x, const lks_conv2d_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_CONV2D, opts, &x, 1);
}
