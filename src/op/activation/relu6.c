/* relu6: y = min(max(x, 0), 6), 0 for a NaN (Howard et al., 2017: "MobileNets"). As in PyTorch no gradient passes
 * at 0 or 6, where y is constant on one side. */
#include "op/common.h"

const lki_op lki_op_relu6 = {
    .name = "relu6",
    .what = "min(max(x, 0), 6)",
    .inputs = 1,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_relu6(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_RELU6, NULL, &x, 1);
}
