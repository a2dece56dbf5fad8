/*
 * softplus: y = log(1 + exp(x)); its derivative is sigmoid(x). PyTorch's with beta 1, whose threshold
 * of 20, from which on it is x, makes no difference in f32: there log(1 + exp(x)) rounds to x.
 */
#include "op/common.h"

const lki_op lki_op_softplus = {
    .name = "softplus",
    .what = "log(1 + exp(x))",
    .inputs = 1,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_softplus(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_SOFTPLUS, NULL, &x, 1);
}
