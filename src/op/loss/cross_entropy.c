/*
 * cross_entropy: with p = softmax(logits), K classes, target class t and smoothing s,
 * loss = -(1 - s) * log p[t] - s/K * sum over k of log p[k].
 */
#include "op/common.h"

static lks_status cross_entropy_infer(lki_node *node)
{
    const lks_cross_entropy_opts *opts = node->attr;

    LKI_TRY(lki_check_vector(node));
    LKI_TRY(lki_check_classes(node));
    if (!(opts->label_smoothing >= 0.0f && opts->label_smoothing <= 1.0f))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': label_smoothing is %g, expected 0 to 1",
                        LKI_NODE(node), (double)opts->label_smoothing);
    return LKS_OK;
}

static void cross_entropy_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_cross_entropy_opts *opts = node->attr;

    buffer[0] = '\0';
    if (opts->label_smoothing != 0.0f)
        lki_print_float(buffer, size, "label_smoothing", opts->label_smoothing);
}

const lki_op lki_op_cross_entropy = {
    .name = "cross_entropy",
    .attr_size = sizeof(lks_cross_entropy_opts),
    .is_loss = true,
    .infer = cross_entropy_infer,
    .print = cross_entropy_print,
};

lks_tensor *lks_cross_entropy(lks_graph *graph, lks_tensor *logits, lks_tensor *target,
                              const lks_cross_entropy_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_CROSS_ENTROPY, opts, (lks_tensor *[]){logits, target}, 2);
}
