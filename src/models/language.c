/*
 * Language models: tokens, their vectors, recurrent layers, and at each position an output for every word. Names of
 * parameters are those of PyTorch's example (word_language_model): encoder, rnn, decoder. Where dropout is asked for it
 * stands on vectors, between layers, and on what the last one gives, as W. Zaremba, I. Sutskever and O. Vinyals have it
 * ("Recurrent neural network regularization", 2014).
 */
#include <string.h>

#include "models/layers.h"

enum {
    WORDS = 10000,
    SIZE = 200,
    LAYERS = 2,
    POSITIONS = 20
}; /* their small one, on the Penn Treebank */

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_language_model_opts, embedding_size, .range = "[1,)", .fallback = "200"),
    LKI_ATTRIBUTE(INT, lks_language_model_opts, hidden_size, .range = "[1,)", .fallback = "200"),
    LKI_ATTRIBUTE(INT, lks_language_model_opts, num_layers, .range = "[1,64]", .fallback = "2"),
    LKI_ATTRIBUTE(FLOAT, lks_language_model_opts, dropout, .range = "[0,1)"),
    LKI_ATTRIBUTE(FLOAT, lks_language_model_opts, init_scale, .range = "[0,)", .fallback = "0"),
    LKI_ATTRIBUTE(BOOL, lks_language_model_opts, carry_state, .fallback = "false"),
};

typedef lks_tensor *(*layers)(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts);

/* A function pointer is not a pointer to what is: a family's variants are these. */
typedef struct variant {
    layers add;
} variant;
static const variant lstm = {lks_lstm}, gru = {lks_gru}, rnn = {lks_rnn};

static lks_tensor *dropout(lks_graph *graph, lks_tensor *x, const char *name, float probability)
{
    if (!(probability > 0.0f)) return x;
    return lks_dropout(graph, x, &(lks_dropout_opts){.name = name, .probability = probability});
}

static lks_tensor *build_language_model(const lki_zoo_network *self, lks_graph *graph,
                                        lks_tensor *x, const void *opts_)
{
    const lks_language_model_opts *opts = opts_;
    const int64_t count = opts->num_layers > 0 ? opts->num_layers : LAYERS;
    const lks_init init = {.kind = opts->init_scale > 0.0f ? LKS_INIT_UNIFORM : LKS_INIT_DEFAULT,
                           .scale = opts->init_scale};
    if (x == NULL) return NULL;
    if (lks_tensor_dtype(x) != LKS_I32)
        return lks_graph_fail(graph,
                              "%s: its input is no text, expected tokens; give data.text, or take "
                              "a network for images",
                              self->name);
    x = lks_embedding(
        graph, x,
        &(lks_embedding_opts){.name = "encoder",
                              .units = opts->embedding_size > 0 ? opts->embedding_size : SIZE,
                              .weight_init = init});
    x = dropout(graph, x, "encoder.dropout", opts->dropout);
    x = ((const variant *)self->variant)
            ->add(graph, x,
                  &(lks_recurrent_opts){.name = "rnn",
                                        .hidden = opts->hidden_size > 0 ? opts->hidden_size : SIZE,
                                        .layers = count,
                                        .dropout = count > 1 ? opts->dropout : 0.0f,
                                        .carry_state = opts->carry_state,
                                        .weight_init = init,
                                        .bias_init = init});
    x = dropout(graph, x, "decoder.dropout", opts->dropout);
    return lks_dense(graph, x,
                     &(lks_dense_opts){.name = "decoder",
                                       .units = opts->outputs > 0 ? opts->outputs : WORDS,
                                       .weight_init = init,
                                       .bias_init = init});
}

lks_tensor *lks_language_model(lks_graph *graph, lks_tensor *x, const char *name,
                               const lks_language_model_opts *opts)
{
    static const lki_zoo_network *const family[] = {&lki_zoo_lstm_lm, &lki_zoo_gru_lm,
                                                    &lki_zoo_rnn_lm};
    const lks_language_model_opts defaults = {0};
    const lki_zoo_network *network = NULL;
    for (int i = 0; i < 3; i++)
        if (name != NULL && strcmp(family[i]->name, name) == 0) network = family[i];
    if (network == NULL)
        return lks_graph_fail(
            graph, "lks_language_model: the name is '%.60s', expected lstm_lm, gru_lm or rnn_lm",
            name != NULL ? name : "NULL");
    return build_language_model(network, graph, x, opts != NULL ? opts : &defaults);
}

#define LANGUAGE_MODEL(kind, its_what)                                                             \
    const lki_zoo_network lki_zoo_##kind##_lm = {                                                  \
        .name = #kind "_lm",                                                                       \
        .bytes = sizeof(lks_language_model_opts),                                                  \
        .outputs = offsetof(lks_language_model_opts, outputs),                                     \
        .attributes = LKI_ATTRIBUTES(attributes),                                                  \
        .build = build_language_model,                                                             \
        .variant = &(kind),                                                                        \
        .what = its_what,                                                                          \
        .image = {.ndim = 1, .dim = {POSITIONS}},                                                  \
        .vocabulary = WORDS,                                                                       \
        .classes = WORDS,                                                                          \
        .by_position = true,                                                                       \
    }

LANGUAGE_MODEL(lstm, "a language model of LSTM layers, Zaremba's small one");
LANGUAGE_MODEL(gru, "the same of GRU layers");
LANGUAGE_MODEL(rnn, "the same of plain recurrent layers");
