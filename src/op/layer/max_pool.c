/* max_pool: the largest of each window; padding never wins, ties go to the first in row order. */
#include "op/layer/pool.h"

static const lki_attribute attributes[] = {
    LKI_POOL_WINDOW,
};

const lki_op lki_op_max_pool = {
    .name = "max_pool",
    .what = "largest value of each window; ties go to the first in row order",
    .inputs = 1,
    .takes = LKI_TAKES_IMAGE,
    .attr_size = sizeof(lks_pool_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .at_zero = LKI_ZERO_AS_INPUT,
    .infer = lki_pool_infer,
};

lks_tensor *lks_max_pool(lks_graph *graph, lks_tensor *x, const lks_pool_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_MAX_POOL, opts, &x, 1);
}
