/*
 * Recurrent layers, as PyTorch's: with p = weight_ih x_t + bias_ih and q = weight_hh h + bias_hh, h being the output of
 * the position before (zeros in front of the first), s(x) = 1 / (1 + exp(-x)), and gates one below the other in p and q:
 *
 *   rnn    h_t = tanh(p + q), or relu
 *   lstm   i, f, o = s(p + q), g = tanh(p + q) in the order i f g o; c_t = f c + i g; h_t = o tanh(c_t)
 *   gru    r, z = s(p + q), n = tanh(p + r q) in the order r z n; h_t = n + z (h - n)
 *
 * Masked: at a position whose token is the padding h and c stay those of the position before, and h is its output.
 *
 * A node is one layer in one direction (`reverse`: from the last position to the first); builders stack them. With
 * carry_state what is in front of the first position is h, of lstm also c behind it, which may be given, and those of the
 * last position are what is left; no gradient passes there.
 */
#include <math.h>
#include <stdio.h>

#include "core/attribute_init.h"
#include "op/common.h"
#include "op/recurrent.h"

enum { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH };

static void add_parameter(lki_node *node, int which, const lks_shape *shape, const lks_init *init)
{
    static const char *const word[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    lki_recurrent *r = node->attr;
    const int64_t fan = shape->dim[shape->ndim - 1];
    lki_param *param = &node->param[node->param_count++];

    snprintf(r->suffix[which], sizeof r->suffix[which], "%s_l%d%s", word[which], r->level,
             r->opts.reverse ? "_reverse" : "");
    *param = (lki_param){.suffix = r->suffix[which],
                         .shape = *shape,
                         .init = *init,
                         .fan_in = fan,
                         .fan_out = shape->dim[0],
                         .is_weight = which < BIAS_IH};
    if (init->kind == LKS_INIT_DEFAULT)
        param->init = (lks_init){.kind = LKS_INIT_UNIFORM,
                                 .scale = (float)(1.0 / sqrt((double)r->opts.hidden))};
}

/* A node is one layer; more is for builders. */
static lks_status check_stack(const lki_node *node, const lki_recurrent *r)
{
    const lks_recurrent_opts *opts = &r->opts;

    if (opts->reverse && opts->bidirectional)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': reverse and bidirectional are both true; bidirectional has both "
                        "directions, so drop one of them",
                        LKI_NODE(node));
    if (opts->carry_state && (opts->reverse || opts->bidirectional))
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': carry_state goes on where the window before it ended, and with %s "
            "a layer begins at the end of its window; leave one of the two out",
            LKI_NODE(node), opts->reverse ? "reverse" : "bidirectional");
    if (opts->dropout > 0.0f && opts->layers == 1)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': dropout is %g, but there is one layer, and dropout stands between "
            "layers; put a dropout behind it, or use more layers",
            LKI_NODE(node), (double)opts->dropout);
    if (!r->part && (opts->layers > 1 || opts->bidirectional))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': it has several layers or directions, but a node is one of them",
                        LKI_NODE(node));
    return LKS_OK;
}

static lks_status recurrent_infer(lki_node *node, int64_t gates)
{
    const lki_recurrent *r = node->attr;
    const lks_recurrent_opts *opts = &r->opts;
    const lks_shape *in = &node->in[0]->shape;
    const lks_shape ih = LKS_SHAPE(gates * opts->hidden, in->dim[1]);
    const lks_shape hh = LKS_SHAPE(gates * opts->hidden, opts->hidden);
    const lks_shape bias = LKS_SHAPE(gates * opts->hidden);

    LKI_TRY(check_stack(node, r));
    LKI_TRY(lki_check_masked(node, opts->masked, opts->padding));
    LKI_TRY(lki_check_shape(node, "weight_ih", &ih));
    LKI_TRY(lki_check_shape(node, "weight_hh", &hh));
    node->out.shape = LKS_SHAPE(in->dim[0], opts->hidden);
    LKI_TRY(lki_check_shape(node, "the output", &node->out.shape));
    const lks_shape all = LKS_SHAPE(in->dim[0], gates * opts->hidden);
    LKI_TRY(lki_check_shape(node, "what comes of the input", &all));
    node->stem = r->stem;
    add_parameter(node, WEIGHT_IH, &ih, &opts->weight_init);
    add_parameter(node, WEIGHT_HH, &hh, &opts->weight_init);
    add_parameter(node, BIAS_IH, &bias, &opts->bias_init);
    add_parameter(node, BIAS_HH, &bias, &opts->bias_init);
    node->multiply_adds = in->dim[0] * gates * opts->hidden * (in->dim[1] + opts->hidden);
    if (opts->carry_state) node->carries = (node->op == LKI_OP_LSTM ? 2 : 1) * opts->hidden;
    return LKS_OK;
}

static lks_status rnn_infer(lki_node *node)
{
    return recurrent_infer(node, 1);
}

static lks_status lstm_infer(lki_node *node)
{
    return recurrent_infer(node, 4);
}

static lks_status gru_infer(lki_node *node)
{
    return recurrent_infer(node, 3);
}

/* A node of the stack `of`: layer `level` in one direction. */
static lks_tensor *add_recurrent(lks_graph *graph, lki_op_id id, lks_tensor *x,
                                 const lki_recurrent *of, int level, bool reverse)
{
    lki_recurrent r = *of;
    lks_tensor *tokens = r.opts.masked ? lki_graph_tokens(graph) : NULL;
    char name[2 * LKI_NAME_SIZE];

    r.level = level;
    r.opts.reverse = reverse;
    if (of->stem != NULL) {
        snprintf(name, sizeof name, "%s.l%d%s", of->stem, level, reverse ? "_reverse" : "");
        r.opts.name = name;
    }
    return lki_graph_add(graph, id, &r, (lks_tensor *[]){x, tokens}, tokens != NULL ? 2 : 1);
}

static lks_tensor *add_dropout(lks_graph *graph, lks_tensor *x, const char *stem, int level,
                               float probability)
{
    char name[2 * LKI_NAME_SIZE];

    snprintf(name, sizeof name, "%s.dropout_l%d", stem, level);
    return lks_dropout(graph, x, &(lks_dropout_opts){.name = name, .probability = probability});
}

/* The first node is made from all options, so that they are checked; then it is one layer as all others. */
lks_tensor *lki_recurrent_build(lks_graph *graph, int op, const void *attr, lks_tensor *x)
{
    const lki_op_id id = (lki_op_id)op;
    lki_recurrent r = {.part = true};

    if (attr != NULL) r.opts = *(const lks_recurrent_opts *)attr;
    const lks_recurrent_opts all = r.opts;
    const int64_t layers = all.layers > 0 ? all.layers : 1;
    lks_tensor *y = add_recurrent(graph, id, x, &r, 0, all.reverse);

    if (y == NULL) return NULL;
    lki_recurrent *first = y->node->attr;
    first->opts.layers = 1;
    first->opts.bidirectional = false;
    first->opts.dropout = 0.0f;
    r.opts = first->opts;
    r.stem = y->node->name;
    for (int level = 0; level < layers && y != NULL; level++) {
        if (level > 0) y = add_recurrent(graph, id, x, &r, level, all.reverse);
        if (all.bidirectional)
            y = lks_concat(graph, y, add_recurrent(graph, id, x, &r, level, true));
        if (all.dropout > 0.0f && level < layers - 1)
            y = add_dropout(graph, y, r.stem, level, all.dropout);
        x = y;
    }
    return y;
}

#define OPTIONS                                                                                    \
    LKI_ATTRIBUTE(INT, lks_recurrent_opts, hidden, .range = "[1,)", .required = true),             \
        LKI_ATTRIBUTE(INT, lks_recurrent_opts, layers, .range = "[1,64]", .fallback = "1"),        \
        LKI_ATTRIBUTE(BOOL, lks_recurrent_opts, bidirectional, .fallback = "false",                \
                      .help = "also from the last position to the first"),                         \
        LKI_ATTRIBUTE(BOOL, lks_recurrent_opts, reverse, .fallback = "false",                      \
                      .help = "only from the last position to the first"),                         \
        LKI_ATTRIBUTE(FLOAT, lks_recurrent_opts, dropout, .range = "[0,1)", .fallback = "0",       \
                      .help = "between layers"),                                                   \
        LKI_ATTRIBUTE(BOOL, lks_recurrent_opts, carry_state, .fallback = "false",                  \
                      .help = "from window to window of a column (data.columns)"),                 \
        LKI_ATTRIBUTE(BOOL, lks_recurrent_opts, masked, .fallback = "false",                       \
                      .help = "the state stays as it is where the token is the padding"),          \
        LKI_PADDING(lks_recurrent_opts), LKI_WEIGHT_INIT_OF(lks_recurrent_opts, LKI_INIT_WORDS),   \
        LKI_BIAS_INIT(lks_recurrent_opts)

static const lki_attribute rnn_attributes[] = {
    LKI_ATTRIBUTE(WORD, lks_recurrent_opts, nonlinearity, .range = "tanh relu", .fallback = "tanh"),
    OPTIONS,
};
static const lki_attribute attributes[] = {OPTIONS};

static bool goes_back(const lki_node *node)
{
    return ((const lki_recurrent *)node->attr)->opts.reverse;
}

#define OP(id, its_what, table)                                                                    \
    const lki_op lki_op_##id = {                                                                   \
        .name = #id,                                                                               \
        .what = its_what,                                                                          \
        .inputs = 1,                                                                               \
        .takes = LKI_TAKES_SEQUENCE,                                                               \
        .along = LKI_ALONG_PAST,                                                                   \
        .looks_ahead = goes_back,                                                                  \
        .reads_tokens = true,                                                                      \
        .attr_size = sizeof(lki_recurrent),                                                        \
        .attributes = LKI_ATTRIBUTES(table),                                                       \
        .infer = id##_infer,                                                                       \
        .build = lki_recurrent_build,                                                              \
    }

OP(rnn, "h = tanh or relu of W x + U h + two biases, from position to position", rnn_attributes);
OP(lstm, "long short-term memory from position to position, PyTorch's", attributes);
OP(gru, "gated recurrent units from position to position, PyTorch's", attributes);

lks_tensor *lks_rnn(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts)
{
    return lki_recurrent_build(graph, LKI_OP_RNN, opts, x);
}

lks_tensor *lks_lstm(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts)
{
    return lki_recurrent_build(graph, LKI_OP_LSTM, opts, x);
}

lks_tensor *lks_gru(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts)
{
    return lki_recurrent_build(graph, LKI_OP_GRU, opts, x);
}
