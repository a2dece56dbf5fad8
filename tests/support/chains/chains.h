/*
 * Random networks of one chain: convolutions with what stands behind them, in the orders that networks have, with
 * sizes that lean to edges (one pixel, odd numbers, windows in the border), and what they are given: random numbers,
 * zeros, such that all is active or nothing is. For tests of whatever a model makes of them.
 */
#ifndef LKT_CHAINS_H
#define LKT_CHAINS_H

#include "support/chains/balls.h"
#include "support/chains/met.h"

typedef enum lkt_content {
    LKT_NUMBERS,
    LKT_ZEROS,
    LKT_ACTIVE,
    LKT_INACTIVE,
    LKT_SPARSE,
    LKT_CONTENTS
} lkt_content;

typedef struct lkt_chain {
    lkt_random random;
    uint64_t seed;
    lkt_content content;
    lks_context *context;
    lks_graph *graph;
    lks_tensor *loss, *output;
    int64_t count; /* samples */
    lks_model_opts opts;
    lkt_balls_of of; /* what it is given: after lkt_chain_fill() */
    char text[2000]; /* for failures */
} lkt_chain;

/* From this number alone. */
void lkt_chain_draw(lkt_chain *chain, uint64_t seed);
void lkt_chain_fill(lkt_chain *chain);
void lkt_chain_free(lkt_chain *chain);

/* A model of it on this device, with the parameters and buffers of `of`. */
lks_model *lkt_chain_compile(lkt_chain *chain, const char *device);
void lkt_chain_write(const lkt_chain *chain, lks_model *model);
/* The number of an entry of a node's state, "<prefix><node>.<suffix>". */
int lkt_chain_state(lks_model *model, const char *prefix, const lki_node *node, const char *suffix);

/* Multiply-adds forward, of all samples. */
int64_t lkt_chain_cost(const lkt_chain *chain);

#endif
