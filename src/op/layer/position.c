/*
 * position: y = x + weight, of the same shape: what is learned of each position; or + sines and cosines (core/sinusoid.h). With
 * class_token the weight has a row more, which stands in front, y[0] = weight[0] and y[t + 1] = x[t] + weight[t + 1]: a vector for
 * what is said of a whole sample, which nothing is added to.
 */
#include "core/attribute_init.h"
#include "op/common.h"

static lks_status sinusoidal(const lki_node *node)
{
    const lks_position_opts *opts = node->attr;

    if (node->in[0]->shape.ndim != 2)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': input has %d dimension%s, expected 2 (positions, channels), as form "
            "is sinusoidal",
            LKI_NODE(node), node->in[0]->shape.ndim, LKI_S(node->in[0]->shape.ndim));
    if (opts->weight_init.kind != LKS_INIT_DEFAULT)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': weight_init has no meaning, as form is sinusoidal: drop one of "
                        "them",
                        LKI_NODE(node));
    return LKS_OK;
}

/* One position more, in front. */
static lks_status add_class_token(lki_node *node)
{
    const lks_position_opts *opts = node->attr;
    if (opts->form == LKS_POSITION_SINUSOIDAL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': class_token is learned, but form is sinusoidal: drop one of them",
                        LKI_NODE(node));
    if (node->out.shape.ndim != 2)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimension%s, expected 2 (positions, channels), as "
                        "class_token is true",
                        LKI_NODE(node), node->out.shape.ndim, LKI_S(node->out.shape.ndim));
    node->out.shape.dim[0]++;
    return lki_check_shape(node, "the output", &node->out.shape);
}

static lks_status position_infer(lki_node *node)
{
    const lks_position_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    const int64_t channels = in->dim[in->ndim - 1];
    lks_init init = opts->weight_init;

    node->out.shape = *in;
    if (opts->class_token) LKI_TRY(add_class_token(node));
    if (opts->form == LKS_POSITION_SINUSOIDAL) return sinusoidal(node);
    if (init.kind == LKS_INIT_DEFAULT) init = (lks_init){.kind = LKS_INIT_NORMAL, .scale = 1};
    const lks_shape *out = &node->out.shape;
    lki_add_weight(node, out, &init, channels, lks_shape_elements(out) / channels);
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(WORD, lks_position_opts, form, .range = "learned sinusoidal",
                  .fallback = "learned"),
    LKI_WEIGHT_INIT_OF(lks_position_opts, LKI_INIT_WORDS),
    LKI_ATTRIBUTE(BOOL, lks_position_opts, class_token, .fallback = "false",
                  .help = "a learned position more in front, which select: 0 reads"),
};

const lki_op lki_op_position = {
    .name = "position",
    .what = "y = x + weight, of x's shape: what is learned of each position, or sines and cosines",
    .inputs = 1,
    .attr_size = sizeof(lks_position_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_PAST,
    .infer = position_infer,
};

lks_tensor *lks_position(lks_graph *graph, lks_tensor *x, const lks_position_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_POSITION, opts, &x, 1);
}
