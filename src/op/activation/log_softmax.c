/* log_softmax: y[k] = x[k] - log(sum over j of exp(x[j])). */
#include "op/common.h"

static lks_status log_softmax_infer(lki_node *node)
{
    LKI_TRY(lki_check_vector(node));
    node->out.shape = node->in[0]->shape;
    return LKS_OK;
}

const lki_op lki_op_log_softmax = {
    .name = "log_softmax",
    .infer = log_softmax_infer,
    .print = lki_print_nothing,
};

lks_tensor *lks_log_softmax(lks_graph *graph, lks_tensor *x)
{
    return lki_graph_add(graph, LKI_OP_LOG_SOFTMAX, NULL, &x, 1);
}
