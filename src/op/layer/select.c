/* select: the channels of one position, as PyTorch's x.select(1, position) or x[:, position]: what a recurrent layer has seen
 * behind the last one, or what an encoder says of a sample at the first. */
#include <inttypes.h>

#include "op/common.h"

static lks_status select_infer(lki_node *node)
{
    const lks_select_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    const int64_t positions = in->dim[0];

    if (opts->position < -positions || opts->position >= positions)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': position is %" PRId64 ", but there %s %" PRId64
                        ", expected %" PRId64 " to %" PRId64,
                        LKI_NODE(node), opts->position, positions == 1 ? "is" : "are", positions,
                        -positions, positions - 1);
    node->out.shape = LKS_SHAPE(in->dim[1]);
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_select_opts, position, .required = true),
};

const lki_op lki_op_select = {
    .name = "select",
    .what = "one position of a sequence: its channels; from 0, and -1 is the last",
    .inputs = 1,
    .takes = LKI_TAKES_SEQUENCE,
    .attr_size = sizeof(lks_select_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .at_zero = LKI_ZERO_AS_INPUT,
    .looks_ahead = lki_looks_ahead,
    .infer = select_infer,
};

lks_tensor *lks_select(lks_graph *graph, lks_tensor *x, const lks_select_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_SELECT, opts, &x, 1);
}
