/* mse: loss = mean over the sample's elements of (x - target)^2. */
#include "op/common.h"

const lki_op lki_op_mse = {
    .name = "mse",
    .what = "mean squared error",
    .inputs = 2,
    .is_loss = true,
    .infer = lki_infer_numbers,
};

lks_tensor *lks_mse(lks_graph *graph, lks_tensor *x, lks_tensor *target)
{
    return lki_graph_add(graph, LKI_OP_MSE, NULL, (lks_tensor *[]){x, target}, 2);
}
