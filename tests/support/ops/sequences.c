/* Random operations of sequences: recurrent layers, attention. */
#include "support/ops.h"

lks_tensor *lkt_random_sequence(lks_graph *graph, lki_op_id op, lkt_random *random)
{
    const bool qkv = op == LKI_OP_ATTENTION;
    const int64_t positions = qkv ? LKT_PICK(random, 1, 2, 5, 17, 64, 70)
                                  : LKT_PICK(random, 1, 2, 3, 7, 20);
    const int64_t width = qkv ? LKT_PICK(random, 3, 12, 24, 48, 60)
                              : LKT_PICK(random, 1, 2, 13, 40);

    if (!lki_op_get(op)->reads_tokens || lkt_random_chance(random, 2))
        return lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(positions, width)});
    lks_tensor *tokens = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(positions),
                                                            .dtype = LKS_I32,
                                                            .vocabulary = LKT_PICK(random, 1, 3)});
    return lks_embedding(graph, tokens, &(lks_embedding_opts){.units = width});
}

/* The tokens of lkt_random_sequence() and a padding among them; NULL: it has none. */
static lks_tensor *tokens_of(const lks_tensor *x, int64_t *padding)
{
    if (x->node->op != LKI_OP_EMBEDDING) return NULL;
    *padding = ((const lks_input_opts *)x->node->in[0]->node->attr)->vocabulary / 2;
    return x->node->in[0];
}

lks_tensor *lkt_random_recurrent(lks_graph *graph, lks_tensor *x, lki_op_id op, lkt_random *random)
{
    lks_recurrent_opts opts = {.hidden = LKT_PICK(random, 1, 2, 5, 16, 33),
                               .reverse = lkt_random_chance(random, 3)};
    opts.carry_state = !opts.reverse && lkt_random_chance(random, 2);
    opts.masked = tokens_of(x, &opts.padding) != NULL;
    if (op == LKI_OP_LSTM) return lks_lstm(graph, x, &opts);
    if (op == LKI_OP_GRU) return lks_gru(graph, x, &opts);
    if (lkt_random_chance(random, 3)) opts.nonlinearity = LKS_NONLINEARITY_RELU;
    return lks_rnn(graph, x, &opts);
}

lks_tensor *lkt_random_attention(lks_graph *graph, lks_tensor *x, lkt_random *random)
{
    const int64_t width = lks_tensor_shape(x).dim[1];
    lks_attention_opts opts = {.causal = lkt_random_chance(random, 2)};
    lks_tensor *tokens = tokens_of(x, &opts.padding);

    do {
        opts.kv_heads = LKT_PICK(random, 1, 1, 2, 3);
        opts.heads = opts.kv_heads * LKT_PICK(random, 1, 1, 2, 3);
    } while (width % (opts.heads + 2 * opts.kv_heads) != 0);
    if (width / (opts.heads + 2 * opts.kv_heads) % 2 == 0 && lkt_random_chance(random, 3))
        opts.rotary = (float)LKT_PICK(random, 1, 100, 10000);
    if (lkt_random_chance(random, 4)) opts.dropout = lkt_random_chance(random, 2) ? 0.5f : 0.1f;
    return lks_attention(graph, x, tokens, &opts);
}
