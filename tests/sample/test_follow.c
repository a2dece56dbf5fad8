/* One position behind the other: every output has the bits that the whole window has there, of every network that makes
 * text, on every device and instruction set; and what becomes of texts that are longer than the window. */
#include <stdlib.h>
#include <string.h>

#include "cpu/vectors.h"
#include "model/infer/follow.h"
#include "support/runs.h"
#include "support/test.h"

enum {
    LONG = 70,
    SHORT = 19,
    WORDS = 23
}; /* more than a block of keys; more than a vector of them */

static int64_t positions = SHORT;

static lks_tensor *input(lks_graph *g)
{
    return lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(positions), .dtype = LKS_I32, .vocabulary = WORDS});
}

static lks_tensor *gpt(lks_graph *g)
{
    return lks_gpt(g, input(g),
                   &(lks_transformer_opts){
                       .outputs = WORDS, .depth = 2, .heads = 2, .width = 24, .dropout = 0.1f});
}

static lks_tensor *llama(lks_graph *g)
{
    return lks_gpt(g, input(g),
                   &(lks_transformer_opts){.outputs = WORDS,
                                           .depth = 2,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .width = 40,
                                           .rotary = 10000,
                                           .norm = LKS_NORM_RMS,
                                           .activation = LKS_MLP_SWIGLU,
                                           .no_bias = true});
}

static lks_tensor *embedded(lks_graph *g, int64_t units)
{
    return lks_embedding(g, input(g), &(lks_embedding_opts){.units = units});
}

static lks_tensor *head(lks_graph *g, lks_tensor *x)
{
    return lks_dense(g, x, &(lks_dense_opts){.units = WORDS});
}

static lks_tensor *waves(lks_graph *g)
{
    lks_tensor *x = lks_position(g, embedded(g, 18),
                                 &(lks_position_opts){.form = LKS_POSITION_SINUSOIDAL});
    x = lks_attention(g, x, NULL, &(lks_attention_opts){.heads = 2, .causal = true});
    x = lks_concat(g, lks_gelu(g, x, NULL), lks_silu(g, x));
    return lks_log_softmax(g, head(g, x));
}

static const lks_recurrent_opts stack = {
    .name = "stack", .hidden = 13, .layers = 2, .dropout = 0.2f};

static lks_tensor *lstm(lks_graph *g)
{
    return head(g, lks_lstm(g, embedded(g, 9), &stack));
}

static lks_tensor *gru(lks_graph *g)
{
    return head(g, lks_gru(g, embedded(g, 9), &stack));
}

static lks_tensor *rnn(lks_graph *g)
{
    return head(g, lks_rnn(g, embedded(g, 9), &stack));
}

static lks_tensor *rectified(lks_graph *g)
{
    lks_tensor *x = embedded(g, 20);
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 20, .nonlinearity = LKS_NONLINEARITY_RELU});
    return head(
        g, lks_layer_norm(g, lks_mul(g, x, lks_dense(g, x, &(lks_dense_opts){.units = 20})), NULL));
}

/* What stands at a position depends on its number, and on none before it. */
static lks_tensor *places(lks_graph *g)
{
    return head(g, lks_position(g, embedded(g, 18), NULL));
}

static lks_tensor *(*const nets[])(lks_graph *g) = {gpt,  llama, waves, places,
                                                    lstm, gru,   rnn,   rectified};
enum { NETS = sizeof nets / sizeof *nets, ENDLESS = 4 }; /* the first that has no end */

static lkt_model open_net(const char *device, lks_tensor *(*net)(lks_graph *g), int workers)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 5});
    lks_tensor *output = net(m.graph);
    lkt_compile(&m, &(lks_model_opts){
                        .output = output, .global_batch = 3, .replicas = 3, .workers = workers});
    return m;
}

static int32_t word(int64_t i)
{
    return (int32_t)((i * i * 5 + i * 3 + 2) % WORDS);
}

/* Whether outputs are the same, position by position of two texts, as what the first has left is of no use to the other;
 * the window is predicted when it has grown by some. Then many positions at once, which begin and end within blocks of
 * keys and with them. */
static void check(lks_model *model, const char *what, int n)
{
    static int32_t x[LONG];
    static float whole[LONG][WORDS], one[LONG][WORDS];
    static const int64_t strides[] = {2, 5, 20, 64, 66, LONG};
    const size_t row = sizeof *one;
    lki_follow follow;
    LKT_OK(lki_follow_make(&follow, model));
    assert_non_null(follow.graph);
    assert_true(follow.program.global_batch >= positions / 2); /* of a pass over a prompt */
    for (int64_t i = 0, checked = 0; i < positions * 2; i++) {
        const int64_t at = i % positions, from = i / positions * 7;
        if (at == 0) checked = 0;
        if (at == 0) memset(x, 0, sizeof x);
        x[at] = word(from + at);
        LKT_OK(lki_follow_predict(&follow, &x[at], 1, at, one[at]));
        if (at % 6 > 0 && at + 1 < positions) continue;
        LKT_OK(lks_model_predict(model, x, 1, &whole[0][0]));
        for (; checked <= at; checked++)
            if (memcmp(one[checked], whole[checked], row) != 0)
                fail_msg("%s, network %d: position %d differs", what, n, (int)checked);
    }
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++)
        for (int64_t at = 0, count; at < positions; at += count) {
            count = at + strides[s] < positions ? strides[s] : positions - at;
            LKT_OK(lki_follow_predict(&follow, &x[at], count, at, one[0]));
            if (memcmp(one[0], whole[at + count - 1], row) != 0)
                fail_msg("%s, network %d: %d positions behind %d differ", what, n, (int)count,
                         (int)at);
        }
    lki_follow_release(&follow);
}

static void outputs_are_those_of_the_window(void **state)
{
    (void)state;
    for (int n = 0; n < NETS; n++) {
        lkt_model m = open_net("ref", nets[n], 1);
        check(m.model, "ref", n);
        lkt_end(&m);
    }
#ifdef LKT_HAVE_CPU
    const lki_vector *usual = lki_cpu_vector();
    LKT_FOR_ISAS(v)
    {
        lki_cpu_vector_use(v);
        for (int k = 0; k < 2 * NETS; k++) {
            positions = k < NETS ? LONG : SHORT;
            lkt_model m = open_net("cpu", nets[k % NETS], 1 + k % 3);
            check(m.model, v->name, k % NETS);
            lkt_end(&m);
        }
    }
    lki_cpu_vector_use(usual);
#endif
    positions = SHORT;
}

static lks_tensor *masked(lks_graph *g)
{
    lks_tensor *tokens = input(g);
    lks_tensor *x = lks_embedding(g, tokens, &(lks_embedding_opts){.units = 12});
    x = lks_attention(g, x, tokens,
                      &(lks_attention_opts){.heads = 2, .causal = true, .masked = true});
    return head(g, x);
}

static lks_tensor *masked_gru(lks_graph *g)
{
    lks_tensor *x = lks_embedding(g, input(g), &(lks_embedding_opts){.units = 12});
    return head(g, lks_gru(g, x, &(lks_recurrent_opts){.hidden = 9, .masked = true, .padding = 3}));
}

static void predicts_whole_windows(lks_tensor *(*net)(lks_graph *g))
{
    lki_follow follow;
    lkt_model m = open_net("ref", net, 1);
    LKT_OK(lki_follow_make(&follow, m.model));
    assert_null(follow.graph);
    lki_follow_release(&follow);
    lks_generator *g;
    int32_t token, expected;
    LKT_OK(lks_generator_create(&g, m.model, &(lks_generator_opts){.most_probable = true}));
    LKT_OK(lks_generator_feed(g, &(int32_t){4}, 1));
    LKT_OK(lks_generator_next(g, &token));
    lks_generator_destroy(g);
    int32_t x[SHORT] = {4};
    static float out[SHORT][WORDS];
    LKT_OK(lks_model_predict(m.model, x, 1, &out[0][0]));
    expected = 0;
    for (int32_t i = 1; i < WORDS; i++) expected = out[0][i] > out[0][expected] ? i : expected;
    assert_int_equal(token, expected);
    lkt_end(&m);
}

static void others_predict_whole_windows(void **state)
{
    (void)state;
    predicts_whole_windows(masked);
    predicts_whole_windows(masked_gru);
}

/* What a network without an end says behind a text is what one of a longer window says. */
static void states_go_on_through_the_text(void **state)
{
    (void)state;
    static int32_t x[LONG];
    static float out[LONG][WORDS];
    for (int r = 0; r < 2 * (NETS - ENDLESS); r++) {
        const int n = ENDLESS + r / 2;
        positions = LONG;
        lkt_model all = open_net(NULL, nets[n], 2);
        positions = r % 2 == 0 ? SHORT : 1;
        lkt_model m = open_net(NULL, nets[n], 1);
        lks_generator *g;
        LKT_OK(lks_generator_create(&g, m.model, &(lks_generator_opts){.most_probable = true}));
        for (int i = 0; i < SHORT + 5; i++) x[i] = word(i);
        LKT_OK(lks_generator_feed(g, x, SHORT + 5));
        for (int i = SHORT + 5; i < LONG; i++) {
            int32_t best = 0;
            LKT_OK(lks_generator_next(g, &x[i]));
            LKT_OK(lks_model_predict(all.model, x, 1, &out[0][0]));
            for (int32_t k = 1; k < WORDS; k++) best = out[i - 1][k] > out[i - 1][best] ? k : best;
            assert_int_equal(x[i], best);
        }
        lks_generator_destroy(g);
        lkt_end(&m);
        lkt_end(&all);
    }
    positions = SHORT;
}

/* A window that has slid is predicted as a whole, from its first token on. */
static void attention_takes_the_last_tokens(void **state)
{
    (void)state;
    static float out[SHORT][WORDS], shared[SHORT][WORDS];
    for (int n = 0; n < ENDLESS; n++) {
        lkt_model m = open_net(NULL, nets[n], 1), all = open_net(NULL, nets[n], 3);
        lks_generator *g;
        int32_t text[3 * SHORT];
        const int prompts[] = {1, SHORT, 2 * SHORT - 3, SHORT + 1}, prompt = prompts[n];
        for (int i = 0; i < prompt; i++) text[i] = word(i);
        LKT_OK(lks_generator_create(&g, m.model, &(lks_generator_opts){.most_probable = true}));
        LKT_OK(lks_generator_feed(g, text, prompt));
        for (int i = prompt; i < 3 * SHORT; i++) {
            int32_t x[SHORT] = {0}, best = 0;
            const int first = i > SHORT ? i - SHORT : 0;
            LKT_OK(lks_generator_next(g, &text[i]));
            memcpy(x, text + first, (size_t)(i - first) * sizeof *x);
            LKT_OK(lks_model_predict(m.model, x, 1, &out[0][0]));
            LKT_OK(lks_model_predict(all.model, x, 1, &shared[0][0]));
            assert_memory_equal(out, shared, sizeof out);
            const float *last = out[i - first - 1];
            for (int32_t k = 1; k < WORDS; k++) best = last[k] > last[best] ? k : best;
            assert_int_equal(text[i], best);
        }
        lks_generator_destroy(g);
        lkt_end(&all);
        lkt_end(&m);
    }
}

/* Parameters that change between two tokens: what was left of the old ones is forgotten. */
static void new_parameters_are_taken(void **state)
{
    (void)state;
    static float out[SHORT][WORDS];
    for (int n = 0; n < NETS; n++) {
        lkt_model m = open_net(NULL, nets[n], 1);
        lks_generator *g;
        int32_t x[SHORT] = {1, 4, 2}, best = 0;
        LKT_OK(lks_generator_create(&g, m.model, &(lks_generator_opts){.most_probable = true}));
        LKT_OK(lks_generator_feed(g, x, 3));
        LKT_OK(lks_generator_next(g, &x[3]));
        for (int s = 0; s < lks_model_state_count(m.model); s++) {
            static float values[100000];
            const lks_state_info info = lks_model_state_info(m.model, s);
            const int64_t count = lks_shape_elements(&info.shape);
            if (info.kind != LKS_PARAMETER) continue;
            LKT_OK(lks_model_state_read(m.model, s, values, (size_t)count * sizeof *values));
            for (int64_t i = 0; i < count; i++) values[i] = -2.5f * values[i];
            LKT_OK(lks_model_state_write(m.model, s, values, (size_t)count * sizeof *values));
        }
        LKT_OK(lks_generator_next(g, &x[4]));
        LKT_OK(lks_model_predict(m.model, x, 1, &out[0][0]));
        for (int32_t k = 1; k < WORDS; k++) best = out[3][k] > out[3][best] ? k : best;
        assert_int_equal(x[4], best);
        lks_generator_destroy(g);
        lkt_end(&m);
    }
}

/* Averages are what the generator goes by from the moment that the model predicts with them, and no longer. */
static void averages_are_taken(void **state)
{
    (void)state;
    static float out[SHORT][WORDS];
    static int32_t y[3 * SHORT];
    for (int n = 0; n < NETS; n++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.seed = 5});
        lks_tensor *output = nets[n](m.graph);
        lks_tensor *target = lks_target(
            m.graph, &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(SHORT)});
        lks_tensor *loss = nets[n] == waves ? lks_nll(m.graph, output, target)
                                            : lks_cross_entropy(m.graph, output, target, NULL);
        lks_generator *g;
        int32_t x[3 * SHORT];
        int different = 0;
        lkt_compile(&m, &(lks_model_opts){.loss = loss,
                                          .output = output,
                                          .optim = lks_adam(),
                                          .global_batch = 3,
                                          .replicas = 3,
                                          .workers = 1,
                                          .ema_decay = 0.99});
        for (int i = 0; i < 3 * SHORT; i++) {
            x[i] = word(i);
            y[i] = word(i + 1);
        }
        for (int s = 0; s < 20; s++)
            LKT_OK(lks_model_step(m.model, &(lks_batch){.x = x, .y = y, .count = 3}, 0.1, NULL));
        LKT_OK(lks_generator_create(&g, m.model, &(lks_generator_opts){.most_probable = true}));
        LKT_OK(lks_generator_feed(g, x, 3));
        for (int i = 3; i < SHORT; i++) {
            int32_t best[2] = {0, 0};
            memset(x + i, 0, sizeof *x * (size_t)(SHORT - i));
            for (int averages = 0; averages < 2; averages++) {
                LKT_OK(lks_model_use_averages(m.model, averages == 1));
                LKT_OK(lks_model_predict(m.model, x, 1, &out[0][0]));
                for (int32_t k = 1; k < WORDS; k++)
                    best[averages] = out[i - 1][k] > out[i - 1][best[averages]] ? k
                                                                                : best[averages];
            }
            LKT_OK(lks_model_use_averages(m.model, i % 2 == 1));
            LKT_OK(lks_generator_next(g, &x[i]));
            assert_int_equal(x[i], best[i % 2]);
            different += best[0] != best[1];
        }
        assert_true(different > 0);
        lks_generator_destroy(g);
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_those_of_the_window),
        cmocka_unit_test(others_predict_whole_windows),
        cmocka_unit_test(states_go_on_through_the_text),
        cmocka_unit_test(attention_takes_the_last_tokens),
        cmocka_unit_test(new_parameters_are_taken),
        cmocka_unit_test(averages_are_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
