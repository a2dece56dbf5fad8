/* embedding: y[t] = weight[token t], for each position t of a sample. Masked: the gradient of the padding's row is 0. */
#include "core/attribute_init.h"
#include "op/common.h"

static lks_status embedding_infer(lki_node *node)
{
    const lks_embedding_opts *opts = node->attr;
    const lks_tensor *tokens = node->in[0];
    const int64_t vocabulary = ((const lks_input_opts *)tokens->node->attr)->vocabulary;
    const lks_shape *in = &node->in[0]->shape, weight = LKS_SHAPE(vocabulary, opts->units);
    lks_init init = opts->weight_init;

    if (in->ndim == LKS_MAX_DIMS)
        return LKI_FAIL(LKS_E_SHAPE, "%s '%s': input '%s' has %d dimensions, expected at most %d",
                        LKI_NODE(node), tokens->node->name, in->ndim, LKS_MAX_DIMS - 1);
    LKI_TRY(lki_check_padding(node, tokens, opts->masked, opts->padding));
    LKI_TRY(lki_check_shape(node, "weight", &weight));
    node->out.shape = *in;
    node->out.shape.dim[node->out.shape.ndim++] = opts->units;
    LKI_TRY(lki_check_shape(node, "the output", &node->out.shape));
    if (init.kind == LKS_INIT_DEFAULT) init = (lks_init){.kind = LKS_INIT_NORMAL, .scale = 1};
    lki_add_weight(node, &weight, &init, opts->units, vocabulary);
    if (opts->masked) node->param[0].blank = opts->padding + 1;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_embedding_opts, units, .range = "[1,)", .most = INT32_MAX,
                  .required = true),
    LKI_WEIGHT_INIT_OF(lks_embedding_opts, LKI_INIT_WORDS),
    LKI_ATTRIBUTE(BOOL, lks_embedding_opts, masked, .fallback = "false",
                  .help = "the row of the padding begins with zeros and has no gradient"),
    LKI_PADDING(lks_embedding_opts),
};

const lki_op lki_op_embedding = {
    .name = "embedding",
    .what = "a row of the weight for each token",
    .inputs = 1,
    .takes = LKI_TAKES_TOKENS,
    .attr_size = sizeof(lks_embedding_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = embedding_infer,
};

lks_tensor *lks_embedding(lks_graph *graph, lks_tensor *tokens, const lks_embedding_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_EMBEDDING, opts, &tokens, 1);
}
