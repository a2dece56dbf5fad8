/*
 * gelu (D. Hendrycks, K. Gimpel: "Gaussian Error Linear Units", 2016), in one of two forms:
 *
 *     ERF    y = x (1 + erf(x / sqrt(2))) / 2
 *     TANH   y = x (1 + tanh(a(x) / 2)) / 2 = x sigmoid(a(x)),
 *            a(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3), an approximation
 */
#include "op/common.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(WORD, lks_gelu_opts, form, .range = "erf tanh", .fallback = "erf"),
};

const lki_op lki_op_gelu = {
    .name = "gelu",
    .what = "x times the normal distribution function of x; form tanh approximates it",
    .inputs = 1,
    .attr_size = sizeof(lks_gelu_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_gelu(lks_graph *graph, lks_tensor *x, const lks_gelu_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_GELU, opts, &x, 1);
}
