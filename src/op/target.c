/* target: what the network should answer: one class per sample (I32), or floats. */
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
    if (opts->classes != 0 && opts->shape.ndim != 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': both classes and a shape are given; give .classes for labels or "
                        ".shape for floats",
                        LKI_NODE(node));
    if (opts->classes != 0) {
        LKI_TRY(lki_check_range(node, "classes", opts->classes, 1, INT32_MAX));
        node->out.dtype = LKS_I32;
        return LKS_OK;
    }
    LKI_TRY(lki_check_shape(node, "the shape", &opts->shape));
    node->out.shape = opts->shape;
    return LKS_OK;
}

static void target_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_target_opts *opts = node->attr;
    char shape[128];

    buffer[0] = '\0';
    if (opts->classes != 0)
        lki_print(buffer, size, "classes=%lld", (long long)opts->classes);
    else
        lki_print(buffer, size, "shape=%s", lki_shape_print(&opts->shape, shape, sizeof shape));
}

const lki_op lki_op_target = {
    .name = "target",
    .attr_size = sizeof(lks_target_opts),
    .infer = target_infer,
    .print = target_print,
};

lks_tensor *lks_target(lks_graph *graph, const lks_target_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_TARGET, opts, NULL, 0);
}
