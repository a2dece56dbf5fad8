/* dense: y[u] = sum over k of x[k] * weight[u][k], + bias[u], of the last dimension of x. */
#include "core/attribute_init.h"
#include "op/common.h"

/* The weight is an embedding's, too. */
static lks_status tie(lki_node *node)
{
    const lks_dense_opts *opts = node->attr;
    lki_param *own = &node->param[0];
    lki_node *owner = opts->weight_of->node;
    const lki_node *later = owner;
    char wanted[96], found[96];

    while (later != NULL && later != node->in[0]->node) later = later->next;
    if (later == NULL || owner->op != LKI_OP_EMBEDDING)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': weight_of is '%s', expected an embedding of this graph in front "
                        "of its input",
                        LKI_NODE(node), owner->name);
    if (!lki_shape_equal(&owner->param[0].shape, &own->shape))
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': its weight would be %s, but weight_of is '%s', whose weight is %s",
            LKI_NODE(node), lki_shape_print(&own->shape, wanted, sizeof wanted), owner->name,
            lki_shape_print(&owner->param[0].shape, found, sizeof found));
    if (owner->tied != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': weight_of is '%s', whose weight '%s' has already; expected an "
                        "embedding that no other layer is tied to",
                        LKI_NODE(node), owner->name, owner->tied->name);
    if (opts->weight_init.kind != LKS_INIT_DEFAULT)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': weight_init has no meaning, as the weight is that of '%s'; give "
                        "it there",
                        LKI_NODE(node), owner->name);
    own->of = owner;
    owner->tied = node;
    return LKS_OK;
}

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
    return opts->weight_of != NULL ? tie(node) : LKS_OK;
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
    .weight_of = offsetof(lks_dense_opts, weight_of),
    .attr_size = sizeof(lks_dense_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = dense_infer,
};

lks_tensor *lks_dense(lks_graph *graph, lks_tensor *x, const lks_dense_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_DENSE, opts, &x, 1);
}
