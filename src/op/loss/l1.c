/* l1: loss = mean over the sample's elements of |x - target|; the slope of 0 is 0, as PyTorch has it. */
#include "op/common.h"

const lki_op lki_op_l1 = {
    .name = "l1",
    .what = "mean absolute error",
    .inputs = 2,
    .is_loss = true,
    .infer = lki_infer_numbers,
};

lks_tensor *lks_l1(lks_graph *graph, lks_tensor *x, lks_tensor *target)
{
    return lki_graph_add(graph, LKI_OP_L1, NULL, (lks_tensor *[]){x, target}, 2);
}
