/* nll: loss = -x[t], for log-probabilities x and target class t. */
#include "op/common.h"

const lki_op lki_op_nll = {
    .name = "nll",
    .what = "negative log-likelihood, of log-probabilities",
    .inputs = 2,
    .is_loss = true,
    .of_classes = true,
    .of_logs = true,
    .infer = lki_infer_classes,
};

lks_tensor *lks_nll(lks_graph *graph, lks_tensor *log_probabilities, lks_tensor *target)
{
    return lki_graph_add(graph, LKI_OP_NLL, NULL, (lks_tensor *[]){log_probabilities, target}, 2);
}
