#include "op/layer/pool.h"

lks_status lki_pool_infer(lki_node *node)
{
    static const int64_t dilation[2] = {1, 1};
    lks_pool_opts *opts = node->attr;
    int64_t out[2];

    LKI_TRY(lki_check_image(node));
    if (opts->exclude_padding && node->op == LKI_OP_MAX_POOL)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': exclude_padding is set, but padding never wins a maximum; drop it",
            LKI_NODE(node));
    for (int i = 0; i < 2; i++) {
        lki_default(&opts->stride[i], opts->kernel[i]);
        /* The kernel's own sentence comes first where both are wrong. */
        LKI_TRY(lki_check_range(node, "kernel", opts->kernel[i], 1, LKI_ATTRIBUTE_MOST));
        LKI_TRY(lki_check_range(node, "padding", opts->padding[i], 0, LKI_ATTRIBUTE_MOST));
        if (2 * opts->padding[i] > opts->kernel[i])
            return LKI_FAIL(
                LKS_E_INVALID, "%s '%s': padding is %lld, expected at most half the kernel of %lld",
                LKI_NODE(node), (long long)opts->padding[i], (long long)opts->kernel[i]);
    }
    LKI_TRY(lki_window_out(node, (lki_window){opts->kernel, opts->stride, opts->padding, dilation},
                           out));
    node->out.shape = LKS_SHAPE(out[0], out[1], node->in[0]->shape.dim[2]);
    return lki_check_shape(node, "the output", &node->out.shape);
}

void lki_pool_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_pool_opts *opts = node->attr;

    buffer[0] = '\0';
    lki_print(buffer, size, "kernel=%lldx%lld", (long long)opts->kernel[0],
              (long long)opts->kernel[1]);
    if (opts->stride[0] != opts->kernel[0] || opts->stride[1] != opts->kernel[1])
        lki_print_pair(buffer, size, "stride", opts->stride, 0);
    lki_print_pair(buffer, size, "padding", opts->padding, 0);
    if (opts->exclude_padding) lki_print(buffer, size, "exclude_padding");
}
