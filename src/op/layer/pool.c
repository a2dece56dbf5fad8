#include "op/layer/pool.h"

lks_status lki_pool_infer(lki_node *node)
{
    static const int64_t dilation[2] = {1, 1};
    const lks_pool_opts *opts = node->attr;
    int64_t out[2];

    if (opts->exclude_padding && node->op == LKI_OP_MAX_POOL)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': exclude_padding is set, but padding never wins a maximum; drop it",
            LKI_NODE(node));
    for (int i = 0; i < 2; i++) {
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
