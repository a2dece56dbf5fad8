/* Generators: what they say next is what the network predicts, on any number of workers; networks that look ahead. */
#include <string.h>

#include "sample/nets.h"

static lks_generator *create(lks_model *model, const lks_generator_opts *opts)
{
    lks_generator *g;
    LKT_OK(lks_generator_create(&g, model, opts));
    return g;
}

/* The token with the largest output behind the last of these. */
static int32_t predicted(lks_model *model, const int32_t *tokens, int64_t count)
{
    int32_t x[POSITIONS] = {0};
    float out[POSITIONS][WORDS];
    const int64_t first = count > POSITIONS ? count - POSITIONS : 0;
    int32_t best = 0;
    memcpy(x, tokens + first, (size_t)(count - first) * sizeof *x);
    LKT_OK(lks_model_predict(model, x, 1, &out[0][0]));
    const float *last = out[count - first - 1];
    for (int32_t i = 1; i < WORDS; i++) best = last[i] > last[best] ? i : best;
    return best;
}

static void the_most_probable_is_predicted(void **state)
{
    (void)state;
    enum { TOKENS = POSITIONS, FIRST = 3 }; /* test_follow.c goes on */
    lkt_model m = open_net(lstm_net, 1);
    for (int32_t begin = 0; begin < WORDS; begin++) {
        int32_t token[TOKENS] = {begin, (begin * 5 + 2) % WORDS, 7};
        lks_generator *g = create(m.model, &(lks_generator_opts){.most_probable = true});
        LKT_OK(lks_generator_feed(g, token, 1));
        LKT_OK(lks_generator_feed(g, token + 1, FIRST - 1));
        for (int64_t i = FIRST; i < TOKENS; i++) {
            LKT_OK(lks_generator_next(g, &token[i]));
            assert_int_equal(token[i], predicted(m.model, token, i));
        }
        lks_generator_destroy(g);
    }
    lkt_end(&m);
}

/* Of version 4 of the numerics, on every machine; behind the first six tokens by the states that they left. */
static const int32_t text[] = {10, 3, 8, 7, 8, 8, 10, 10, 4, 9, 9, 9, 10, 2, 7, 3,
                               3,  2, 7, 3, 3, 2, 7,  1,  7, 7, 4, 3, 3,  3, 3, 10};

static void the_text_is_the_same_everywhere(void **state)
{
    (void)state;
    enum { TOKENS = sizeof text / sizeof *text };
    const lks_generator_opts opts = {.temperature = 0.8, .top_k = 7, .top_p = 0.9, .seed = 7};
    for (int workers = 1; workers <= 3; workers++) {
        lkt_model m = open_net(lstm_net, workers);
        lks_generator *g = create(m.model, &opts);
        LKT_OK(lks_generator_feed(g, &(int32_t){4}, 1));
        for (int i = 0; i < TOKENS; i++) {
            int32_t token;
            LKT_OK(lks_generator_next(g, &token));
            if (token != text[i]) fail_msg("token %d is %d, expected %d", i, token, text[i]);
        }
        lks_generator_destroy(g);
        lkt_end(&m);
    }
}

static lks_tensor *backward_net(lks_graph *g)
{
    lks_tensor *x = lks_embedding(g, tokens_of(g), &(lks_embedding_opts){.units = 4});
    x = lks_gru(g, x, &(lks_recurrent_opts){.name = "both", .hidden = 3, .bidirectional = true});
    return lks_dense(g, x, &(lks_dense_opts){.units = WORDS});
}

static lks_tensor *attention_net(lks_graph *g, bool causal)
{
    lks_tensor *x = lks_embedding(g, tokens_of(g), &(lks_embedding_opts){.units = 12});
    x = lks_attention(g, x, NULL,
                      &(lks_attention_opts){.name = "look", .heads = 2, .causal = causal});
    return lks_dense(g, x, &(lks_dense_opts){.units = WORDS});
}

static lks_tensor *open_attention(lks_graph *g)
{
    return attention_net(g, false);
}

static lks_tensor *causal_attention(lks_graph *g)
{
    return attention_net(g, true);
}

/* A long beginning is its end; what comes in between is taken as if it had been said. */
static void the_last_tokens_count(void **state)
{
    (void)state;
    lkt_model m = open_net(causal_attention, 1);
    int32_t token[30], a, b;
    for (int i = 0; i < 30; i++) token[i] = (i * i + 3) % WORDS;
    lks_generator *whole = create(m.model, NULL), *part = create(m.model, NULL);
    LKT_OK(lks_generator_feed(whole, token, 30));
    LKT_OK(lks_generator_feed(part, token + 30 - POSITIONS, POSITIONS));
    for (int i = 0; i < 20; i++) {
        LKT_OK(lks_generator_next(whole, &a));
        LKT_OK(lks_generator_next(part, &b));
        assert_int_equal(a, b);
        if (i % 5 == 0) {
            LKT_OK(lks_generator_feed(whole, &token[i], 1));
            LKT_OK(lks_generator_feed(part, &token[i], 1));
        }
    }
    /* Another text of the same seed is another. */
    lks_generator *other = create(m.model, &(lks_generator_opts){.stream = 1});
    int same = 0;
    LKT_OK(lks_generator_feed(other, token, 30));
    lks_generator_destroy(whole);
    whole = create(m.model, NULL);
    LKT_OK(lks_generator_feed(whole, token, 30));
    for (int i = 0; i < 20; i++) {
        LKT_OK(lks_generator_next(whole, &a));
        LKT_OK(lks_generator_next(other, &b));
        same += a == b;
    }
    assert_in_range(same, 0, 19);
    lks_generator_destroy(other);
    lks_generator_destroy(whole);
    lks_generator_destroy(part);
    lkt_end(&m);
}

static lks_tensor *normed_net(lks_graph *g)
{
    lks_tensor *x = lks_embedding(g, tokens_of(g), &(lks_embedding_opts){.units = WORDS});
    return lks_layer_norm(g, x, &(lks_layer_norm_opts){.name = "all", .dims = 2});
}

static lks_tensor *narrow_net(lks_graph *g)
{
    return lks_dense(g, lks_embedding(g, tokens_of(g), &(lks_embedding_opts){.units = 4}),
                     &(lks_dense_opts){.units = WORDS - 1});
}

static lks_tensor *flat_net(lks_graph *g)
{
    lks_tensor *x = lks_embedding(g, tokens_of(g), &(lks_embedding_opts){.units = 4});
    return lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = WORDS});
}

/* Every position gets what is at the last. */
static lks_tensor *selected_net(lks_graph *g)
{
    lks_tensor *x = lks_embedding(g, tokens_of(g), &(lks_embedding_opts){.units = WORDS});
    return lks_add(g, x, lks_select(g, x, &(lks_select_opts){.name = "end", .position = -1}));
}

static lks_tensor *of_floats(lks_graph *g)
{
    return lks_dense(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS, 4)}),
                     &(lks_dense_opts){.units = WORDS});
}

static lks_tensor *of_a_row(lks_graph *g)
{
    return lks_dense(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS)}),
                     &(lks_dense_opts){.units = WORDS});
}

static void other_networks_are_refused(void **state)
{
    (void)state;
    static const struct {
        lks_tensor *(*net)(lks_graph *g);
        const char *expected;
    } cases[] = {
        {backward_net, "a generator: gru 'both.l0_reverse' looks ahead"},
        {open_attention, "a generator: attention 'look' looks ahead"},
        {normed_net, "a generator: layer_norm 'all' looks ahead"},
        {selected_net, "a generator: select 'end' looks ahead"},
        {narrow_net, "a generator: the network's output is 6x10, expected 6x11"},
        {flat_net, "a generator: the network's output is 11, expected 6x11"},
        {of_floats, "a generator: the network's input are no tokens"},
        {of_a_row, "a generator: the network's input are no tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_generator *g = (lks_generator *)&i;
        lkt_model m = open_net_on("ref", cases[i].net, 1); /* it has all layers */
        LKT_FAILS(LKS_E_UNSUPPORTED, cases[i].expected, lks_generator_create(&g, m.model, NULL));
        assert_null(g);
        lkt_end(&m);
    }
    lkt_model m = open_net_on("ref", causal_attention, 1);
    lks_generator_destroy(create(m.model, NULL));
    lkt_end(&m);
}

static void text_needs_its_tokenizer(void **state)
{
    (void)state;
    lkt_model m = open_net(lstm_net, 1);
    lks_tokenizer *fits, *other;
    lks_generator *g;
    const char *texts[] = {"abcdefghijk", "abc"};
    const size_t bytes[] = {11, 3};
    const lks_vocabulary_opts chars = {.level = LKS_LEVEL_CHAR};
    LKT_OK(lks_tokenizer_build(&fits, m.context, &chars, texts, bytes, 1));
    LKT_OK(lks_tokenizer_build(&other, m.context, &chars, texts + 1, bytes + 1, 1));
    LKT_FAILS(LKS_E_MISMATCH, "the tokenizer has 3 tokens, but the network's vocabulary has 11",
              lks_generator_create(&g, m.model, &(lks_generator_opts){.tokenizer = other}));
    g = create(m.model, &(lks_generator_opts){.tokenizer = fits, .most_probable = true});
    int32_t token, expected;
    LKT_FAILS(LKS_E_FORMAT, "the character U+007A at byte 2 is not in the vocabulary",
              lks_generator_feed_text(g, "abz", 3));
    LKT_FAILS(LKS_E_STATE, "no token to go on from", lks_generator_next(g, &token));
    LKT_OK(lks_generator_feed_text(g, "bad", 3));
    LKT_OK(lks_generator_next(g, &token));
    lks_generator_destroy(g);
    g = create(m.model, &(lks_generator_opts){.most_probable = true});
    LKT_FAILS(LKS_E_STATE, "the generator has no tokenizer", lks_generator_feed_text(g, "a", 1));
    LKT_OK(lks_generator_feed(g, (const int32_t[]){1, 0, 3}, 3));
    LKT_OK(lks_generator_next(g, &expected));
    assert_int_equal(token, expected);
    lks_generator_destroy(g);
    lks_tokenizer_destroy(other);
    lks_tokenizer_destroy(fits);
    lkt_end(&m);
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct {
        lks_generator_opts opts;
        const char *expected;
    } cases[] = {
        {{.temperature = -0.5}, "opts.temperature is -0.5"},
        {{.temperature = 1.0 / 0.0}, "opts.temperature is inf"},
        {{.temperature = 0.0 / 0.0}, "opts.temperature is"},
        {{.top_k = -1}, "opts.top_k is -1"},
        {{.top_p = -0.1}, "opts.top_p is -0.1"},
        {{.top_p = 1.5}, "opts.top_p is 1.5"},
        {{.stream = -1}, "opts.stream is -1"},
        {{.stream = INT64_C(1) << 32}, "opts.stream is 4294967296"},
    };
    lkt_model m = open_net(lstm_net, 1);
    lks_generator *g;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        LKT_FAILS(LKS_E_INVALID, cases[i].expected,
                  lks_generator_create(&g, m.model, &cases[i].opts));
    int32_t token;
    g = create(m.model, NULL);
    LKT_FAILS(LKS_E_INVALID, "got token 11, expected 0 to 10",
              lks_generator_feed(g, (const int32_t[]){3, WORDS}, 2));
    LKT_FAILS(LKS_E_INVALID, "got token -1", lks_generator_feed(g, (const int32_t[]){-1}, 1));
    LKT_FAILS(LKS_E_STATE, "no token", lks_generator_next(g, &token)); /* none of them was taken */
    lks_generator_destroy(g);
    lkt_end(&m);
}

#define REFUSES(expression) LKT_FAILS(LKS_E_INVALID, "", expression)

static void nulls_are_refused(void **state)
{
    (void)state;
    lkt_model m = open_net(lstm_net, 1);
    lks_generator *g;
    int32_t token = 0;
    REFUSES(lks_generator_create(NULL, m.model, NULL));
    REFUSES(lks_generator_create(&g, NULL, NULL));
    assert_null(g);
    g = create(m.model, NULL);
    REFUSES(lks_generator_feed(NULL, &token, 1));
    REFUSES(lks_generator_feed(g, NULL, 1));
    REFUSES(lks_generator_feed(g, &token, -1));
    LKT_OK(lks_generator_feed(g, NULL, 0));
    REFUSES(lks_generator_feed_text(NULL, "a", 1));
    REFUSES(lks_generator_feed_text(g, NULL, 1));
    REFUSES(lks_generator_next(NULL, &token));
    REFUSES(lks_generator_next(g, NULL));
    lks_generator_destroy(g);
    lks_generator_destroy(NULL);
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_probable_is_predicted),
        cmocka_unit_test(the_last_tokens_count),
        cmocka_unit_test(the_text_is_the_same_everywhere),
        cmocka_unit_test(other_networks_are_refused),
        cmocka_unit_test(text_needs_its_tokenizer),
        cmocka_unit_test(what_is_out_of_range_is_refused),
        cmocka_unit_test(nulls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
