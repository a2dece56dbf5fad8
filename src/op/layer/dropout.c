/*
 * dropout: in training, y = 0 with the given probability, else x * scale, with scale the float
 * nearest to 1/(1 - p), p being the probability that is realised (base/random.h: lki_bernoulli).
 * Elements are numbered in NHWC order of the output; by_sample all of a sample have the number 0.
 * Outside training y = x.
 */
#include "numeric/random.h"
#include "op/common.h"

static lks_status dropout_infer(lki_node *node)
{
    const lks_dropout_opts *opts = node->attr;

    if (lki_bernoulli_make(opts->probability).probability >= 1.0)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': probability is %.9g, which is 1 in the 16 bits drawn; use at most "
            "0.99998",
            LKI_NODE(node), (double)opts->probability);
    node->out.shape = node->in[0]->shape;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_dropout_opts, probability, .range = "[0,1)", .required = true),
    LKI_ATTRIBUTE(BOOL, lks_dropout_opts, by_sample, .fallback = "false",
                  .help = "all elements of a sample or none: stochastic depth, before an add"),
};

const lki_op lki_op_dropout = {
    .name = "dropout",
    .what = "zeroes an element with this probability in training, and scales the others up",
    .inputs = 1,
    .attr_size = sizeof(lks_dropout_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .draws = true,
    .at_zero = LKI_ZERO_AS_INPUT,
    .along = LKI_ALONG_EACH,
    .infer = dropout_infer,
};

lks_tensor *lks_dropout(lks_graph *graph, lks_tensor *x, const lks_dropout_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_DROPOUT, opts, &x, 1);
}
