/* normalize: y = (x * scale - mean[c]) / std[c]; scale is 1/255 for U8 and 1 for F32. */
#include "op/common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static lks_status normalize_infer(lki_node *node)
{
    const lks_normalize_opts *opts = node->attr;
    const lks_tensor *x = node->in[0];
    const int64_t channels = x->shape.dim[x->shape.ndim - 1];

    if (x->node->needs_gradient)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': input '%s' has parameters before it, but no gradient passes "
                        "normalize; put it right after the input",
                        LKI_NODE(node), x->node->name);
    if (channels > LKS_MAX_CHANNEL_CONSTANTS && opts->count > 1)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': input '%s' has %lld channels, but there can be constants for at "
                        "most %d; give one for all channels (and batch_norm behind it), or scale "
                        "the data beforehand",
                        LKI_NODE(node), x->node->name, (long long)channels,
                        LKS_MAX_CHANNEL_CONSTANTS);
    if (opts->count != 1 && (opts->count < 1 || opts->count != channels))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': %d constants, expected 1 or the number of channels, %lld",
                        LKI_NODE(node), opts->count, (long long)channels);
    for (int i = 0; i < opts->count; i++) {
        if (!isfinite(opts->mean[i]))
            return LKI_FAIL(LKS_E_INVALID, "%s '%s': mean[%d] is %g, expected a finite number",
                            LKI_NODE(node), i, (double)opts->mean[i]);
        if (!(opts->std[i] > 0.0f && isfinite(opts->std[i])))
            return LKI_FAIL(LKS_E_INVALID, "%s '%s': std[%d] is %g, expected a positive number",
                            LKI_NODE(node), i, (double)opts->std[i]);
    }
    node->out.shape = x->shape;
    return LKS_OK;
}

static void normalize_print_list(char *buffer, size_t size, const char *name, const float *values,
                                 int count)
{
    lki_print_float(buffer, size, name, values[0]);
    for (int i = 1; i < count; i++) {
        char text[32] = "";
        const size_t used = strlen(buffer);

        lki_print_float(text, sizeof text, "", values[i]);
        snprintf(buffer + used, size - used, ",%s", text + 1); /* without the '=' */
    }
}

static void normalize_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_normalize_opts *opts = node->attr;

    buffer[0] = '\0';
    normalize_print_list(buffer, size, "mean", opts->mean, opts->count);
    normalize_print_list(buffer, size, "std", opts->std, opts->count);
}

const lki_op lki_op_normalize = {
    .name = "normalize",
    .attr_size = sizeof(lks_normalize_opts),
    .infer = normalize_infer,
    .print = normalize_print,
};

lks_tensor *lks_normalize(lks_graph *graph, lks_tensor *x, const lks_normalize_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_NORMALIZE, opts, &x, 1);
}
