/* nll: loss = -x[t], for log-probabilities x and target class t. */
#include "op/common.h"

static lks_status nll_infer(lki_node *node)
{
    LKI_TRY(lki_check_vector(node));
    return lki_check_classes(node);
}

const lki_op lki_op_nll = {
    .name = "nll",
    .is_loss = true,
    .infer = nll_infer,
    .print = lki_print_nothing,
};

lks_tensor *lks_nll(lks_graph *graph, lks_tensor *log_probabilities, lks_tensor *target)
{
    return lki_graph_add(graph, LKI_OP_NLL, NULL, (lks_tensor *[]){log_probabilities, target}, 2);
}
