/*
 * dropout: in training, y = 0 with the given probability, else x * scale, with scale the float
 * nearest to 1/(1 - p), p being the probability that is realised (base/random.h: lki_bernoulli).
 * Elements are numbered in NHWC order of the output; outside training y = x.
 */
#include "numeric/random.h"
#include "op/common.h"

static lks_status dropout_infer(lki_node *node)
{
    const lks_dropout_opts *opts = node->attr;

    LKI_TRY(lki_check_floats(node));
    if (!(opts->probability >= 0.0f && opts->probability < 1.0f))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': probability is %g, expected at least 0, less than 1",
                        LKI_NODE(node), (double)opts->probability);
    if (lki_bernoulli_make(opts->probability).probability >= 1.0)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': probability is %.9g, which is 1 in the 16 bits drawn; use at most "
            "0.99998",
            LKI_NODE(node), (double)opts->probability);
    node->out.shape = node->in[0]->shape;
    return LKS_OK;
}

static void dropout_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_dropout_opts *opts = node->attr;

    buffer[0] = '\0';
    lki_print_float(buffer, size, "probability", opts->probability);
}

const lki_op lki_op_dropout = {
    .name = "dropout",
    .attr_size = sizeof(lks_dropout_opts),
    .infer = dropout_infer,
    .print = dropout_print,
};

lks_tensor *lks_dropout(lks_graph *graph, lks_tensor *x, const lks_dropout_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_DROPOUT, opts, &x, 1);
}
