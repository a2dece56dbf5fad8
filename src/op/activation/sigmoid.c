/* sigmoid: y = 1 / (1 + exp(-x)). */
#include "op/common.h"

const lki_op lki_op_sigmoid = {
    .name = "sigmoid",
    .what = "1 / (1 + exp(-x))",
    .inputs = 1,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_sigmoid(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_SIGMOID, NULL, &x, 1);
}
