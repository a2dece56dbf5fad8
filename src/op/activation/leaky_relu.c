/* leaky_relu: y = x where x > 0, else slope * x. */
#include "op/common.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_leaky_relu_opts, slope, .range = "(0,)", .fallback = "0.01"),
};

const lki_op lki_op_leaky_relu = {
    .name = "leaky_relu",
    .what = "x where x > 0, else slope * x",
    .inputs = 1,
    .attr_size = sizeof(lks_leaky_relu_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_leaky_relu(lks_graph *graph, lks_tensor *x, const lks_leaky_relu_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_LEAKY_RELU, opts, &x, 1);
}
