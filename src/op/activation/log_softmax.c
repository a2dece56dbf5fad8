/* log_softmax: y[k] = x[k] - log(sum over j of exp(x[j])). */
#include "op/common.h"

static lks_status log_softmax_infer(lki_node *node)
{
    node->out.shape = node->in[0]->shape;
    return LKS_OK;
}

const lki_op lki_op_log_softmax = {
    .name = "log_softmax",
    .what = "logarithms of probabilities; the loss is then nll",
    .inputs = 1,
    .takes = LKI_TAKES_VECTOR,
    .gives_logs = true,
    .infer = log_softmax_infer,
};

lks_tensor *lks_log_softmax(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_LOG_SOFTMAX, NULL, &x, 1);
}
