/*
 * attention (A. Vaswani et al., "Attention Is All You Need", 2017), of one input that has queries, keys and values. With
 * q_i, k_j, v_j those of a head at positions i, j, c the scale 1 / sqrt(head width), and j running over the keys that i
 * sees (causal: j <= i; masked: those whose token is not the padding):
 *
 *     p_ij = exp(c q_i . k_j) / sum over j of exp(c q_i . k_j)         out_i = sum over j of p_ij v_j
 *
 * and out_i = 0 where there is no such key. With dropout p_ij in the second sum is 0 with the given probability, else
 * p_ij / (1 - probability), as the op dropout has it; element (head, i, j) of a sample is number (head T + i) T + j of
 * T positions. Keys and values may have fewer heads (J. Ainslie et al., "GQA", 2023): head h reads number h / (heads /
 * kv_heads). Rotary: in the place of q and k stand q and k turned by their positions (numeric/rotary.h), element d and d +
 * half the head width by the angle number d.
 */
#include "op/attention.h"

#include <math.h>

#include "numeric/random.h"
#include "op/common.h"

lki_attention lki_attention_of(const lki_node *node)
{
    const lks_attention_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    lki_attention a = {.positions = lki_node_positions(node),
                       .width = in->dim[1],
                       .heads = opts->heads,
                       .kv_heads = opts->kv_heads,
                       .group = opts->heads / opts->kv_heads,
                       .head_width = in->dim[1] / (opts->heads + 2 * opts->kv_heads),
                       .causal = opts->causal,
                       .masked = opts->masked,
                       .padding = (int32_t)opts->padding,
                       .dropout = opts->dropout,
                       .rotary = opts->rotary};

    a.scale = (float)(1.0 / sqrt((double)a.head_width));
    return a;
}

static lks_status check_heads(const lki_node *node)
{
    const lks_attention_opts *opts = node->attr;
    const int64_t width = node->in[0]->shape.dim[1], parts = opts->heads + 2 * opts->kv_heads;

    if (opts->heads % opts->kv_heads != 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': kv_heads is %lld, which does not divide the %lld heads; each has "
                        "keys and values for as many heads",
                        LKI_NODE(node), (long long)opts->kv_heads, (long long)opts->heads);
    if (width % parts != 0)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input '%s' has %lld channels, expected a multiple of %lld: "
                        "queries of %lld heads, keys and values of %lld each",
                        LKI_NODE(node), node->in[0]->node->name, (long long)width, (long long)parts,
                        (long long)opts->heads, (long long)opts->kv_heads);
    if (opts->rotary > 0.0f && opts->rotary < 1.0f)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': rotary is %g, expected 0 (none), or a base of at least 1",
                        LKI_NODE(node), (double)opts->rotary);
    if (opts->rotary > 0.0f && width / parts % 2 != 0)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': a head has %lld channels, but rotary turns pairs of them; use an "
                        "even number",
                        LKI_NODE(node), (long long)(width / parts));
    return LKS_OK;
}

/* Numbers of elements are drawn in blocks, which have 32 bits. */
static lks_status check_dropout(const lki_node *node, const lki_attention *a)
{
    const lki_bernoulli drop = lki_bernoulli_make((double)a->dropout);
    const int64_t most = INT64_C(0x7fffffff) * 128 / (int64_t)drop.bits; /* elements */

    if (drop.probability >= 1.0)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': dropout is %.9g, which is 1 in the 16 bits drawn; use at most "
                        "0.99998",
                        LKI_NODE(node), (double)a->dropout);
    if (a->dropout > 0.0f && a->positions > most / a->positions / a->heads)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': %lld heads of %lld x %lld weights are more than the %lld of a "
                        "sample that dropout can number; use a shorter context, or no dropout",
                        LKI_NODE(node), (long long)a->heads, (long long)a->positions,
                        (long long)a->positions, (long long)most);
    return LKS_OK;
}

static lks_status attention_infer(lki_node *node)
{
    const lks_attention_opts *opts = node->attr;

    LKI_TRY(check_heads(node));
    LKI_TRY(lki_check_masked(node, opts->masked, opts->padding));
    const lki_attention a = lki_attention_of(node);
    const int64_t t = a.positions;

    LKI_TRY(check_dropout(node, &a));
    node->out.shape = LKS_SHAPE(t, a.heads * a.head_width);
    /* Products of q and k, and of p and v, of which masks leave as many as there may be. */
    node->multiply_adds = 2 * a.heads * a.head_width * (a.causal ? t * (t + 1) / 2 : t * t);
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_attention_opts, heads, .range = "[1,)", .required = true),
    LKI_ATTRIBUTE(INT, lks_attention_opts, kv_heads, .range = "[1,)", .fallback = "heads",
                  .help = "of keys and values"),
    LKI_ATTRIBUTE(BOOL, lks_attention_opts, causal, .fallback = "false",
                  .help = "a position sees those up to it"),
    LKI_ATTRIBUTE(FLOAT, lks_attention_opts, dropout, .range = "[0,1)", .fallback = "0",
                  .help = "of the weights behind softmax"),
    LKI_ATTRIBUTE(FLOAT, lks_attention_opts, rotary, .range = "[0,)", .fallback = "0",
                  .help = "base of rotary positions, 10000 say; 0: none"),
    LKI_ATTRIBUTE(BOOL, lks_attention_opts, masked, .fallback = "false",
                  .help = "keys whose token is the padding take no part"),
    LKI_PADDING(lks_attention_opts),
};

lks_tensor *lks_attention(lks_graph *graph, lks_tensor *qkv, lks_tensor *tokens,
                          const lks_attention_opts *opts)
{
    lks_attention_opts own = {0};

    if (opts != NULL) own = *opts;
    own.masked |= tokens != NULL;
    return lki_graph_add(graph, LKI_OP_ATTENTION, &own, (lks_tensor *[]){qkv, tokens},
                         tokens != NULL ? 2 : 1);
}

/* Of a list of layers, which names no tokens. */
static lks_tensor *attention_build(lks_graph *graph, int op, const void *attr, lks_tensor *x)
{
    const lks_attention_opts *opts = attr;

    (void)op;
    return lks_attention(graph, x, opts->masked ? lki_graph_tokens(graph) : NULL, opts);
}

static bool is_not_causal(const lki_node *node)
{
    return !lki_attention_of(node).causal;
}

const lki_op lki_op_attention = {
    .name = "attention",
    .what = "softmax of products of queries and keys, times values, in several heads",
    .inputs = 1,
    .takes = LKI_TAKES_SEQUENCE,
    .attr_size = sizeof(lks_attention_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .draws = true,
    .reads_tokens = true,
    .along = LKI_ALONG_PAST,
    .looks_ahead = is_not_causal,
    .infer = attention_infer,
    .build = attention_build,
};
