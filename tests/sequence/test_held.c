/*
 * Recurrent layers that pass over padding: words have the bits that they have in a sentence without it, padding has the state of
 * the word before it (behind it, of a layer that goes backward), its own values reach nothing, and carried state waits.
 */
#include <string.h>

#include <lockstep/lockstep.h>

#include "support/backends.h"
#include "support/ranks/small.h"
#include "support/test.h"

enum { SAMPLES = 24, POSITIONS = 7, UNITS = 5, HIDDEN = 9, WORDS = 11, PADDING = 4 };
enum { HALF = POSITIONS * 2 * HIDDEN, MOST = 8192 }; /* of a sample's output; of a parameter */

static int32_t token[SAMPLES][POSITIONS];
static float wanted[SAMPLES][POSITIONS][2 * HIDDEN];

/* Of any number of words, none and all among them; padding anywhere. */
static int fill(void **state)
{
    lkt_random random = {.state = 5};
    (void)state;
    for (int n = 0; n < SAMPLES; n++)
        for (int t = 0; t < POSITIONS; t++) {
            const bool word = lkt_random_below(&random, POSITIONS) < n % (POSITIONS + 1);
            const int32_t drawn = (int32_t)lkt_random_below(&random, WORDS - 1);
            token[n][t] = !word ? PADDING : drawn < PADDING ? drawn : drawn + 1;
            for (int j = 0; j < 2 * HIDDEN; j++)
                wanted[n][t][j] = (float)lkt_random_real(&random, -1, 1);
        }
    return 0;
}

typedef lks_tensor *(*layers)(lks_graph *graph, lks_tensor *x, const lks_recurrent_opts *opts);
static const layers kinds[] = {lks_rnn, lks_lstm, lks_gru};

/* Both directions in two layers, of so many positions. */
static lkt_small open_net(const char *device, layers kind, int64_t positions, bool masked)
{
    lkt_small m = {.model = NULL};
    LKT_OK(lks_context_create(&m.context, &(lks_context_opts){.device = device, .seed = 8}));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    lks_tensor *x = lks_input(
        m.graph,
        &(lks_input_opts){.shape = LKS_SHAPE(positions), .dtype = LKS_I32, .vocabulary = WORDS});
    x = lks_embedding(m.graph, x, &(lks_embedding_opts){.name = "words", .units = UNITS});
    const lks_recurrent_opts opts = {.name = "r",
                                     .hidden = HIDDEN,
                                     .layers = 2,
                                     .bidirectional = true,
                                     .masked = masked,
                                     .padding = masked ? PADDING : 0};
    x = kind(m.graph, x, &opts);
    lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.shape = lks_tensor_shape(x)});
    const lks_model_opts how = {.loss = lks_mse(m.graph, x, y),
                                .output = x,
                                .global_batch = SAMPLES,
                                .replicas = 3,
                                .workers = 2};
    LKT_OK(lks_model_compile(&m.model, m.graph, &how));
    return m;
}

/* What the network without padding gives for the words of sample n. */
static void predict_words(const lkt_small *plain, int n, float *out)
{
    int32_t words[POSITIONS];
    int count = 0;
    for (int t = 0; t < POSITIONS; t++)
        if (token[n][t] != PADDING) words[count++] = token[n][t];
    if (count > 0) LKT_OK(lks_model_predict(plain[count].model, words, 1, out));
}

/* The output `out` of sample n, whose words have `words`. */
static void check_sample(int n, const float *out, const float *words)
{
    static const float nothing[HIDDEN];
    const size_t bytes = sizeof nothing;
    int seen = 0, count = 0;
    for (int t = 0; t < POSITIONS; t++) count += token[n][t] != PADDING;
    for (int t = 0; t < POSITIONS; t++) {
        const bool word = token[n][t] != PADDING;
        const float *forward = out + (ptrdiff_t)t * 2 * HIDDEN, *backward = forward + HIDDEN;
        const int before = seen - 1 +
                           word; /* the last word up to here, and the first one from here on */
        assert_memory_equal(forward, before < 0 ? nothing : words + (ptrdiff_t)before * 2 * HIDDEN,
                            bytes);
        assert_memory_equal(backward,
                            seen == count ? nothing : words + (ptrdiff_t)seen * 2 * HIDDEN + HIDDEN,
                            bytes);
        seen += word;
    }
}

static void words_have_the_bits_of_sentences_without_padding(void **state)
{
    static float out[SAMPLES][HALF], words[HALF];
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const char *device = lkt_backends()[d]->name;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            lkt_small plain[POSITIONS + 1] = {{.model = NULL}};
            lkt_small m = open_net(device, kinds[k], POSITIONS, true);
            for (int length = 1; length <= POSITIONS; length++)
                plain[length] = open_net(device, kinds[k], length, false);
            LKT_OK(lks_model_predict(m.model, token, SAMPLES, out[0]));
            for (int n = 0; n < SAMPLES; n++) {
                predict_words(plain, n, words);
                check_sample(n, out[n], words);
            }
            for (int length = 1; length <= POSITIONS; length++) lkt_small_end(&plain[length]);
            lkt_small_end(&m);
        }
    }
}

/* Outputs and gradients, behind each other. */
static void look(const lkt_small *m, float *out)
{
    LKT_OK(lks_model_predict(m->model, token, SAMPLES, out));
    out += SAMPLES * HALF;
    LKT_OK(lks_model_gradient(m->model, &(lks_batch){.x = token, .y = wanted, .count = SAMPLES},
                              NULL));
    for (int i = 0; i < lks_model_state_count(m->model); i++) {
        const lks_state_info info = lks_model_state_info(m->model, i);
        if (info.kind != LKS_GRADIENT) continue;
        LKT_OK(lks_model_state_read(m->model, i, out, info.bytes));
        out += info.bytes / sizeof *out;
    }
}

static void values_of_padding_reach_nothing(void **state)
{
    static float before[SAMPLES * HALF + MOST], after[SAMPLES * HALF + MOST];
    static const float zeros[UNITS];
    float table[WORDS][UNITS];
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            lkt_small m = open_net(lkt_backends()[d]->name, kinds[k], POSITIONS, true);
            const int weight = lks_model_state_find(m.model, "words.weight");
            look(&m, before);
            LKT_OK(lks_model_state_read(m.model, weight, table, sizeof table));
            for (int j = 0; j < UNITS; j++) table[PADDING][j] = (float)(1000 - 700 * j);
            LKT_OK(lks_model_state_write(m.model, weight, table, sizeof table));
            look(&m, after);
            assert_memory_equal(before, after, sizeof after);
            LKT_OK(lks_model_state_read(m.model,
                                        lks_model_state_find(m.model, "gradient.words.weight"),
                                        table, sizeof table));
            assert_memory_equal(table[PADDING], zeros, sizeof zeros);
            for (int w = 0; w < WORDS; w++)
                assert_true(w == PADDING || memcmp(table[w], zeros, sizeof zeros) != 0);
            lkt_small_end(&m);
        }
}

/* A window of nothing but padding leaves what came to it. */
static void carried_state_waits(void **state)
{
    static const char *const names[] = {"r.carried", "r.l1.carried"};
    static float carried[2][SAMPLES * 2 * HIDDEN], now[SAMPLES * 2 * HIDDEN];
    static int32_t padding[SAMPLES][POSITIONS];
    (void)state;
    for (int i = 0; i < SAMPLES * POSITIONS; i++) (&padding[0][0])[i] = PADDING;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        lkt_small m = {.model = NULL};
        LKT_OK(lks_context_create(
            &m.context, &(lks_context_opts){.device = lkt_backends()[d]->name, .seed = 8}));
        LKT_OK(lks_graph_create(&m.graph, m.context));
        lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS),
                                                             .dtype = LKS_I32,
                                                             .vocabulary = WORDS});
        x = lks_embedding(m.graph, x, &(lks_embedding_opts){.units = UNITS});
        x = lks_lstm(m.graph, x,
                     &(lks_recurrent_opts){.name = "r",
                                           .hidden = HIDDEN,
                                           .layers = 2,
                                           .carry_state = true,
                                           .masked = true,
                                           .padding = PADDING});
        x = lks_concat(m.graph, x, x);
        lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.shape = lks_tensor_shape(x)});
        const lks_model_opts how = {
            .loss = lks_mse(m.graph, x, y), .global_batch = SAMPLES, .replicas = 3, .workers = 2};
        LKT_OK(lks_model_compile(&m.model, m.graph, &how));
        for (int s = 0; s < 4; s++) { /* padding, words, padding twice */
            const lks_batch batch = {
                .x = s == 1 ? token : padding, .y = wanted, .count = SAMPLES, .continues = s > 0};
            LKT_OK(lks_model_step(m.model, &batch, .5, NULL));
            for (int i = 0; i < 2; i++) {
                LKT_OK(lks_model_state_read(m.model, lks_model_state_find(m.model, names[i]), now,
                                            sizeof now));
                bool some = false;
                for (int j = 0; j < SAMPLES * 2 * HIDDEN; j++) some |= now[j] != 0;
                assert_true(some == (s > 0));
                if (s > 1) assert_memory_equal(now, carried[i], sizeof now);
                memcpy(carried[i], now, sizeof now);
            }
        }
        lkt_small_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_the_bits_of_sentences_without_padding),
        cmocka_unit_test(values_of_padding_reach_nothing),
        cmocka_unit_test(carried_state_waits),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
