/* normalize: y = (x * scale - mean[c]) / std[c]; scale is 1/255 for U8 and 1 for F32. */
#include "op/common.h"

static lks_status normalize_infer(lki_node *node)
{
    const lks_normalize_opts *opts = node->attr;
    const lks_shape *shape = &node->in[0]->shape;
    const int64_t channels = shape->dim[shape->ndim - 1];

    if (opts->count != 1 && (opts->count < 1 || opts->count != channels))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': %d constants, expected 1 or the number of channels, %lld",
                        LKI_NODE(node), opts->count, (long long)channels);
    node->out.shape = *shape;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOATS, lks_normalize_opts, mean, .count = offsetof(lks_normalize_opts, count),
                  .required = true),
    LKI_ATTRIBUTE(FLOATS, lks_normalize_opts, std, .count = offsetof(lks_normalize_opts, count),
                  .range = "(0,)", .required = true),
};

const lki_op lki_op_normalize = {
    .name = "normalize",
    .what = "(x - mean) / std, constants for all channels or one for each",
    .inputs = 1,
    .takes = LKI_TAKES_ANY,
    .attr_size = sizeof(lks_normalize_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .stops_gradient = true,
    .infer = normalize_infer,
};

lks_tensor *lks_normalize(lks_graph *graph, lks_tensor *x, const lks_normalize_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_NORMALIZE, opts, &x, 1);
}
