/* relu: y = x where x > 0, else 0 (also for a NaN). */
#include "op/common.h"

const lki_op lki_op_relu = {
    .name = "relu",
    .what = "max(x, 0)",
    .inputs = 1,
    .at_zero = LKI_ZERO_STOPS,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_relu(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_RELU, NULL, &x, 1);
}
