/*
 * huber: loss = mean over the sample's elements of h(x - target), where h(d) = d^2 / 2 if |d| <= delta, else
 * delta (|d| - delta / 2) (P. J. Huber, 1964): squares near 0, a line of slope delta beyond.
 */
#include "op/common.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_huber_opts, delta, .range = "[9.3e-10,1.1e9]", .fallback = "1",
                  .help = "where squares end and the line begins"),
};

const lki_op lki_op_huber = {
    .name = "huber",
    .what = "squared error near 0, absolute error beyond delta, mean",
    .inputs = 2,
    .attr_size = sizeof(lks_huber_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .is_loss = true,
    .infer = lki_infer_numbers,
};

lks_tensor *lks_huber(lks_graph *graph, lks_tensor *x, lks_tensor *target,
                      const lks_huber_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_HUBER, opts, (lks_tensor *[]){x, target}, 2);
}
