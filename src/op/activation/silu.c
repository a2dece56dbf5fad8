/* silu: y = x / (1 + exp(-x)), which is x * sigmoid(x). */
#include "op/common.h"

const lki_op lki_op_silu = {
    .name = "silu",
    .what = "x * sigmoid(x)",
    .inputs = 1,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_silu(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_SILU, NULL, &x, 1);
}
