/* leaky_relu: y = x where x > 0, else slope * x. */
#include "op/common.h"

#include <math.h>

static lks_status leaky_relu_infer(lki_node *node)
{
    lks_leaky_relu_opts *opts = node->attr;

    if (opts->slope == 0.0f) opts->slope = 0.01f;
    if (!(opts->slope > 0.0f && isfinite(opts->slope)))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': slope is %g, expected a positive number",
                        LKI_NODE(node), (double)opts->slope);
    return lki_infer_same(node);
}

static void leaky_relu_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_leaky_relu_opts *opts = node->attr;

    buffer[0] = '\0';
    if (opts->slope != 0.01f) lki_print_float(buffer, size, "slope", opts->slope);
}

const lki_op lki_op_leaky_relu = {
    .name = "leaky_relu",
    .attr_size = sizeof(lks_leaky_relu_opts),
    .infer = leaky_relu_infer,
    .print = leaky_relu_print,
};

lks_tensor *lks_leaky_relu(lks_graph *graph, lks_tensor *x, const lks_leaky_relu_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_LEAKY_RELU, opts, &x, 1);
}
