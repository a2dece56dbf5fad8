/* add: y = a + b, of equal shapes; or b a vector, of which each channel (the last dimension) of
 * the sample's a takes its value. The vector's gradient is a sum over the sample's pixels in row
 * order, one accumulator from +0. */
#include "op/common.h"

const lki_op lki_op_add = {
    .name = "add",
    .what = "sum with an earlier layer of the same shape, or with a vector of its channels",
    .inputs = 2,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_pair,
};

lks_tensor *lks_add(lks_graph *graph, lks_tensor *a, lks_tensor *b)
{
    return lki_graph_add(graph, LKI_OP_ADD, NULL, (lks_tensor *[]){a, b}, 2);
}
