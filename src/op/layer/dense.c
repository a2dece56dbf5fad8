/* dense: y[u] = sum over k of x[k] * weight[u][k], + bias[u], of the last dimension of x. */
#include "core/attribute_init.h"
#include "op/common.h"

static lks_status dense_infer(lki_node *node)
{
    const lks_dense_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    const int64_t columns = in->dim[in->ndim - 1];
    const lks_shape weight = LKS_SHAPE(opts->units, columns);

    LKI_TRY(lki_check_shape(node, "weight", &weight));
    node->out.shape = *in;
    node->out.shape.dim[in->ndim - 1] = opts->units;
    LKI_TRY(lki_check_shape(node, "the output", &node->out.shape));
    lki_add_weight(node, &weight, &opts->weight_init, columns, opts->units);
    if (!opts->no_bias) lki_add_bias(node, opts->units, &opts->bias_init);
    node->multiply_adds = opts->units * lks_shape_elements(in);
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_dense_opts, units, .range = "[1,)", .most = INT32_MAX, .required = true),
    LKI_ATTRIBUTE_NOT(lks_dense_opts, bias),
    LKI_WEIGHT_INIT(lks_dense_opts),
    LKI_BIAS_INIT(lks_dense_opts),
};

const lki_op lki_op_dense = {
    .name = "dense",
    .what = "y = W x + b, of each position where x has some",
    .inputs = 1,
    .takes = LKI_TAKES_ROWS,
    .attr_size = sizeof(lks_dense_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .infer = dense_infer,
};

lks_tensor *lks_dense(lks_graph *graph, lks_tensor *x, const lks_dense_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_DENSE, opts, &x, 1);
}
