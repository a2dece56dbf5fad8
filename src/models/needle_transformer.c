/*
 * Needle's transformer (dlsyscourse.org, hw4_extra) as its example trains it: a causal layer of 8 heads of 32 on 20 channels, queries, keys
 * and values each behind a norm of their own, and logits of the next word. Dense layers of attention have no bias.
 */
#include "models/layers.h"

enum { WIDTH = 20, HEADS = 8, HEAD_WIDTH = 32, INNER = 32, WORDS = 10000, POSITIONS = 20 };

/* Layers under way; dropout: 0 is none. */
typedef struct needle_net {
    lks_graph *graph;
    float dropout;
} needle_net;

static lks_tensor *drop(const needle_net *n, lks_tensor *x, const char *name)
{
    if (n->dropout == 0) return x;
    return lks_dropout(n->graph, x, &(lks_dropout_opts){.name = name, .probability = n->dropout});
}

/* A dense layer behind a norm. */
static lks_tensor *project(const needle_net *n, lks_tensor *x, const char *norm, const char *name)
{
    x = lks_layer_norm(n->graph, x, &(lks_layer_norm_opts){.name = norm});
    return lks_dense(
        n->graph, x,
        &(lks_dense_opts){.name = name, .units = (int64_t)HEADS * HEAD_WIDTH, .no_bias = true});
}

static lks_tensor *needle_attention(const needle_net *n, lks_tensor *x)
{
    lks_tensor *q = project(n, x, "norm_q", "q"), *k = project(n, x, "norm_k", "k");
    lks_tensor *qk = lks_concat(n->graph, q, k), *v = project(n, x, "norm_v", "v");
    lks_tensor *y = lks_attention(
        n->graph, lks_concat(n->graph, qk, v), NULL,
        &(lks_attention_opts){.heads = HEADS, .causal = true, .dropout = n->dropout});
    y = lks_dense(n->graph, y, &(lks_dense_opts){.name = "out", .units = WIDTH, .no_bias = true});
    return lks_add(n->graph, drop(n, y, NULL), x);
}

static lks_tensor *needle_mlp(const needle_net *n, lks_tensor *x)
{
    lks_tensor *y = lks_layer_norm(n->graph, x, &(lks_layer_norm_opts){.name = "norm"});
    y = lks_dense(n->graph, y, &(lks_dense_opts){.name = "linear1", .units = INNER});
    y = drop(n, lks_relu(n->graph, y), NULL);
    y = lks_dense(n->graph, y, &(lks_dense_opts){.name = "linear2", .units = WIDTH});
    return lks_add(n->graph, drop(n, y, NULL), x);
}

static lks_tensor *build_needle_transformer(const lki_zoo_network *self, lks_graph *graph,
                                            lks_tensor *x, const void *opts_)
{
    const lks_network_opts *opts = opts_;
    const needle_net n = {.graph = graph, .dropout = opts->no_dropout ? 0 : .1f};
    if (x == NULL) return NULL;
    if (lks_tensor_dtype(x) != LKS_I32)
        return lks_graph_fail(graph,
                              "%s: its input is no text, expected tokens; give data.text, or take "
                              "a network for images",
                              self->name);
    x = lks_embedding(graph, x, &(lks_embedding_opts){.name = "embedding", .units = WIDTH});
    x = lks_position(graph, x, &(lks_position_opts){.name = "position"});
    x = needle_mlp(&n, needle_attention(&n, drop(&n, x, "input_")));
    return lks_dense(
        graph, x,
        &(lks_dense_opts){.name = "linear", .units = opts->outputs > 0 ? opts->outputs : WORDS});
}

static const lki_attribute attributes[] = {LKI_ZOO_DROPOUT("0: none, 0.1 else")};

const lki_zoo_network lki_zoo_needle_transformer = {
    .name = "needle_transformer",
    .bytes = sizeof(lks_network_opts),
    .outputs = offsetof(lks_network_opts, outputs),
    .attributes = LKI_ATTRIBUTES(attributes),
    .build = build_needle_transformer,
    .what = "Needle's small transformer of words",
    .image = {.ndim = 1, .dim = {POSITIONS}},
    .vocabulary = WORDS,
    .classes = WORDS,
    .by_position = true,
};
