/* log_softmax: y[k] = x[k] - log(sum over j of exp(x[j])), of the last dimension. */
#include "op/common.h"

const lki_op lki_op_log_softmax = {
    .name = "log_softmax",
    .what = "logarithms of probabilities; the loss is then nll",
    .inputs = 1,
    .takes = LKI_TAKES_ROWS,
    .gives_logs = true,
    .along = LKI_ALONG_EACH,
    .infer = lki_infer_same,
};

lks_tensor *lks_log_softmax(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_LOG_SOFTMAX, NULL, &x, 1);
}
