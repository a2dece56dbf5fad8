/*
 * cross_entropy: with p = softmax(logits), K classes, target class t and smoothing s,
 * loss = -(1 - s) * log p[t] - s/K * sum over k of log p[k].
 */
#include "op/common.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_cross_entropy_opts, label_smoothing, .range = "[0,1]",
                  .fallback = "0"),
};

const lki_op lki_op_cross_entropy = {
    .name = "cross_entropy",
    .what = "softmax and cross-entropy, of logits",
    .inputs = 2,
    .attr_size = sizeof(lks_cross_entropy_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .is_loss = true,
    .of_classes = true,
    .infer = lki_infer_classes,
};

lks_tensor *lks_cross_entropy(lks_graph *graph, lks_tensor *logits, lks_tensor *target,
                              const lks_cross_entropy_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_CROSS_ENTROPY, opts, (lks_tensor *[]){logits, target}, 2);
}
