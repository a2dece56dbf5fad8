/* Text that a model makes: its next token, again and again. */
#ifndef LOCKSTEP_GENERATOR_H
#define LOCKSTEP_GENERATOR_H

#include <lockstep/model.h>
#include <lockstep/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 *     lks_generator *generator;
 *     lks_status status = lks_generator_create(&generator, model, &(lks_generator_opts){.tokenizer = tokenizer, .top_k = 40});
 *     if (status == LKS_OK) status = lks_generator_feed_text(generator, "Once", 4);
 *     for (int i = 0; i < 200 && status == LKS_OK; i++) {
 *         int32_t token;
 *         status = lks_generator_next(generator, &token);
 *         ... lks_tokenizer_token(tokenizer, token, &bytes)
 *     }
 *     lks_generator_destroy(generator);
 *
 * The network's input are tokens (lks_input_opts.vocabulary) at so many positions, its context; its output are numbers
 * for each token of the vocabulary at each of them, logits or logarithms of probabilities, of which those of a position
 * may depend on it and what is before it alone: what looks ahead is refused. What is drawn is a function of these
 * outputs, the options and how many tokens have been drawn before (docs/numerics.md): the same text on every machine.
 *
 * A token is computed behind those before it, of which recurrent layers leave their states and attention its keys and
 * values, in memory of the generator's that is there from the beginning; outputs have the bits that a prediction of all
 * tokens has there. Behind as many tokens as the context has, a network that knows numbers of positions (attention,
 * position) is given the last tokens, as many as the context, from the first position on; recurrent networks have no end, and
 * go on from their states through the whole text. Attention with padding, and layers that mix positions in other ways,
 * predict all positions for every token, of a text beyond the context always the last ones. Where the model's parameters
 * change between two tokens, it goes on from the last tokens, as many as the context has.
 *
 * It belongs to one thread at a time, and lks_generator_next() is a prediction of its model, which outlives it.
 */
typedef struct lks_generator lks_generator;

typedef struct lks_generator_opts {
    const lks_tokenizer *
        tokenizer; /* for lks_generator_feed_text(), of as many tokens as the model's vocabulary; it must
                                       outlive the generator; default: none */
    bool
        most_probable; /* nothing is drawn: the token with the largest output, of equal ones the smallest number */
    double
        temperature; /* outputs are divided by it: below 1 what is probable becomes more so; default 1 */
    int64_t top_k; /* one of so many, the most probable, is drawn; default: of all */
    double
        top_p; /* one of as few, the most probable, as have this share of all (of those of top_k) together; default: 1 */
    uint64_t seed;
    int64_t stream; /* 0 to 2^32 - 1: another draws other tokens with the same seed */
} lks_generator_opts;

LKS_API LKS_MUSTUSE lks_status lks_generator_create(lks_generator **out, lks_model *model,
                                                    const lks_generator_opts *opts);
LKS_API void lks_generator_destroy(lks_generator *generator); /* NULL is fine */

/* What stands before the next token, behind what was there. Behind the context's end a recurrent network computes here. */
LKS_API LKS_MUSTUSE lks_status lks_generator_feed(lks_generator *generator, const int32_t *tokens,
                                                  int64_t count);
LKS_API LKS_MUSTUSE lks_status lks_generator_feed_text(lks_generator *generator, const char *text,
                                                       size_t bytes);

/* The next token, which is fed. A generator that failed can be used again. LKS_E_STATE where nothing stands before it; LKS_E_NUMERIC where an output is not
 * finite. */
LKS_API LKS_MUSTUSE lks_status lks_generator_next(lks_generator *generator, int32_t *token);

#ifdef __cplusplus
}
#endif
#endif
