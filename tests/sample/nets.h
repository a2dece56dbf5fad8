/* Small networks of tokens, as a test of generators wants them. */
#ifndef LKT_SAMPLE_NETS_H
#define LKT_SAMPLE_NETS_H

#include <lockstep/lockstep.h>

#include "support/runs.h"
#include "support/test.h"

enum { POSITIONS = 6, WORDS = 11 };

static inline lks_tensor *tokens_of(lks_graph *g)
{
    return lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
}

/* An LSTM whose outputs differ enough for draws to be no coin. */
static inline lks_tensor *lstm_net(lks_graph *g)
{
    const lks_init wide = {.kind = LKS_INIT_NORMAL, .scale = 1.5f};
    lks_tensor *x = lks_embedding(g, tokens_of(g),
                                  &(lks_embedding_opts){.name = "words", .units = 5});
    x = lks_lstm(g, x, &(lks_recurrent_opts){.name = "lstm", .hidden = 7, .weight_init = wide});
    return lks_dense(g, x, &(lks_dense_opts){.name = "head", .units = WORDS, .weight_init = wide});
}

/* To predict with alone. */
static inline lkt_model open_net_on(const char *device, lks_tensor *(*net)(lks_graph *g),
                                    int workers)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 5});
    lks_tensor *output = net(m.graph);
    lkt_compile(&m, &(lks_model_opts){
                        .output = output, .global_batch = 3, .replicas = 3, .workers = workers});
    return m;
}

static inline lkt_model open_net(lks_tensor *(*net)(lks_graph *g), int workers)
{
    return open_net_on(NULL, net, workers);
}

#endif
