/* tanh: y = tanh(x). */
#include "op/common.h"

const lki_op lki_op_tanh = {
    .name = "tanh",
    .what = "hyperbolic tangent",
    .inputs = 1,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_tanh(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_TANH, NULL, &x, 1);
}
