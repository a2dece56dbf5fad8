/* scale: y = factor * x. */
#include "op/common.h"

static lks_status scale_infer(lki_node *node)
{
    const lks_scale_opts *opts = node->attr;

    if (opts->factor == 0.0f)
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': factor is 0, expected a finite number but 0",
                        LKI_NODE(node));
    return lki_infer_same(node);
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_scale_opts, factor, .required = true),
};

const lki_op lki_op_scale = {
    .name = "scale",
    .what = "factor * x, a constant",
    .inputs = 1,
    .attr_size = sizeof(lks_scale_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = scale_infer,
};

lks_tensor *lks_scale(lks_graph *graph, lks_tensor *x, const lks_scale_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_SCALE, opts, &x, 1);
}
