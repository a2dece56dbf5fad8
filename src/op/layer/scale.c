/* scale: y = factor * x. */
#include "op/common.h"

#include <math.h>

static lks_status scale_infer(lki_node *node)
{
    const lks_scale_opts *opts = node->attr;

    if (opts->factor == 0.0f || !isfinite(opts->factor))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': factor is %g, expected a finite number but 0",
                        LKI_NODE(node), (double)opts->factor);
    return lki_infer_same(node);
}

static void scale_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_scale_opts *opts = node->attr;

    buffer[0] = '\0';
    lki_print_float(buffer, size, "factor", opts->factor);
}

const lki_op lki_op_scale = {
    .name = "scale",
    .attr_size = sizeof(lks_scale_opts),
    .infer = scale_infer,
    .print = scale_print,
};

lks_tensor *lks_scale(lks_graph *graph, lks_tensor *x, const lks_scale_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_SCALE, opts, &x, 1);
}
