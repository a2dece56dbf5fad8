/* max_pool: the largest of each window; padding never wins, ties go to the first in row order. */
#include "op/layer/pool.h"

const lki_op lki_op_max_pool = {
    .name = "max_pool",
    .attr_size = sizeof(lks_pool_opts),
    .infer = lki_pool_infer,
    .print = lki_pool_print,
};

lks_tensor *lks_max_pool(lks_graph *graph, lks_tensor *x, const lks_pool_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_MAX_POOL, opts, &x, 1);
}
