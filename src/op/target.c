/* target: what the network should answer: one class per sample or position (I32), or floats. */
#include "op/common.h"

static lks_status target_infer(lki_node *node)
{
    const lks_target_opts *opts = node->attr;

    if (opts->classes == 0 && opts->shape.ndim == 0)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': neither classes nor a shape is given; give .classes for labels or "
            ".shape for floats",
            LKI_NODE(node));
    if (opts->classes != 0) node->out.dtype = LKS_I32;
    if (opts->classes != 0 && opts->shape.ndim == 0) return LKS_OK;
    LKI_TRY(lki_check_shape(node, "the shape", &opts->shape));
    if (opts->classes != 0 && opts->shape.ndim == LKS_MAX_DIMS)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': positions have %d dimensions, expected at most %d, as classes "
                        "are one more",
                        LKI_NODE(node), LKS_MAX_DIMS, LKS_MAX_DIMS - 1);
    node->out.shape = opts->shape;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_target_opts, classes, .range = "[0,)", .most = INT32_MAX,
                  .fallback = "0"),
    LKI_ATTRIBUTE(SHAPE, lks_target_opts, shape, .fallback = "()"),
};

const lki_op lki_op_target = {
    .name = "target",
    .what = "what the network should answer: classes, or floats",
    .attr_size = sizeof(lks_target_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .infer = target_infer,
};

lks_tensor *lks_target(lks_graph *graph, const lks_target_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_TARGET, opts, NULL, 0);
}
