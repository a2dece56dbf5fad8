/*
 * conv2d: y[oy][ox][f] = bias[f] + sum over ky, kx, c of
 *     x[oy*stride + ky*dilation - padding][ox*stride + kx*dilation - padding][c] * weight[f][c][ky][kx]
 * where c runs over the channels of f's group, and pixels outside are zero.
 */
#include "op/common.h"

static lks_status infer_parameters(lki_node *node, const lks_conv2d_opts *opts, int64_t channels)
{
    const int64_t per_group = channels / opts->groups;
    const lks_shape weight = LKS_SHAPE(opts->filters, per_group, opts->kernel[0], opts->kernel[1]);
    const int64_t area = opts->kernel[0] * opts->kernel[1];

    LKI_TRY(lki_check_shape(node, "weight", &weight));
    LKI_TRY(lki_check_init(node, "weight_init", &opts->weight_init));
    LKI_TRY(lki_check_init(node, "bias_init", &opts->bias_init));
    node->param[0] = (lki_param){.suffix = "weight",
                                 .shape = weight,
                                 .init = opts->weight_init,
                                 .fan_in = per_group * area,
                                 .fan_out = opts->filters * area,
                                 .groups = opts->groups};
    node->param[1] = (lki_param){.suffix = "bias",
                                 .shape = LKS_SHAPE(opts->filters),
                                 .init = opts->bias_init,
                                 .fan_in = per_group * area,
                                 .fan_out = opts->filters * area};
    node->param_count = opts->no_bias ? 1 : 2;
    return LKS_OK;
}

static lks_status conv2d_infer(lki_node *node)
{
    lks_conv2d_opts *opts = node->attr;
    int64_t out[2], channels;

    for (int i = 0; i < 2; i++) {
        lki_default(&opts->stride[i], 1);
        lki_default(&opts->dilation[i], 1);
    }
    lki_default(&opts->groups, 1);
    LKI_TRY(lki_check_image(node));
    channels = node->in[0]->shape.dim[2];
    LKI_TRY(lki_check_range(node, "filters", opts->filters, 1, LKI_ATTRIBUTE_MOST));
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

static void conv2d_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_conv2d_opts *opts = node->attr;

    buffer[0] = '\0';
    lki_print(buffer, size, "filters=%lld kernel=%lldx%lld", (long long)opts->filters,
              (long long)opts->kernel[0], (long long)opts->kernel[1]);
    lki_print_pair(buffer, size, "stride", opts->stride, 1);
    lki_print_pair(buffer, size, "padding", opts->padding, 0);
    lki_print_pair(buffer, size, "dilation", opts->dilation, 1);
    if (opts->groups != 1) lki_print(buffer, size, "groups=%lld", (long long)opts->groups);
    if (opts->no_bias) lki_print(buffer, size, "no_bias");
    lki_print_init(buffer, size, "weight_init", &opts->weight_init);
    lki_print_init(buffer, size, "bias_init", &opts->bias_init);
}

const lki_op lki_op_conv2d = {
    .name = "conv2d",
    .attr_size = sizeof(lks_conv2d_opts),
    .infer = conv2d_infer,
    .print = conv2d_print,
};

lks_tensor *lks_conv2d(lks_graph *graph, lks_tensor *x, const lks_conv2d_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_CONV2D, opts, &x, 1);
}
