/*
 * Attention over several blocks of positions: PyTorch's numbers (tools/goldens/attention.py); to the bit what a scalar
 * loop gives that follows docs/numerics.md, on every instruction set; which weights dropout leaves; padding; memory that
 * grows as the context does; and the same bits on any number of workers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "cpu/vectors.h"
#include "sequence/attention_written.h"
#include "support/backends.h"
#include "support/op_json.h"
#include "support/ranks/small.h"

/* The formula of tools/goldens, with its salts. */
enum { IN = 0, D_OUT = 3, LABEL = 5 };

static uint32_t hashed(int64_t i, uint32_t salt)
{
    return (uint32_t)i * 2654435761u + salt * (40503u * 65537u);
}

static void formula(float *out, int64_t count, uint32_t salt, float spread)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = ((float)(hashed(i, salt) >> 8) / 8388608.0f - 1.0f) * spread;
}

static void open_case(lkt_case *c, const json_t *test, lkt_random *random)
{
    const json_t *spread = json_object_get(test, "spread");
    const int64_t vocabulary = lkt_json_integer(test, "vocabulary");

    lkt_case_begin(c);
    lks_tensor *y = lkt_json_op(c->graph, test);
    lkt_case_end(c, y, y, lkt_json_integer(test, "count"), LKT_RANDOM, random);
    formula(c->in[0], lkt_in_elements(c, 0), IN,
            spread != NULL ? (float)json_number_value(spread) : 1.0f);
    formula(c->d_out, lkt_out_elements(c), D_OUT, 1.0f);
    for (int64_t i = 0; vocabulary > 0 && i < lkt_in_elements(c, 1); i++)
        ((int32_t *)c->in[1])[i] = (int32_t)(hashed(i, LABEL) % (uint32_t)vocabulary);
}

/* Every stride-th number, within the bounds of check/bounds_attention.c and the ten digits that are kept. */
static void compare(const lkt_case *c, const char *what, const json_t *expected, int64_t stride,
                    const float *found, const double *bound, int64_t count)
{
    assert_int_equal(json_array_size(expected), (count + stride - 1) / stride);
    for (int64_t i = 0; i < count; i += stride) {
        const double golden = json_number_value(json_array_get(expected, (size_t)(i / stride)));

        if (!(fabs((double)found[i] - golden) <= bound[i] + 0x1p-24 * fabs(golden) + 1e-15))
            fail_msg("%s: %s[%lld] is %.9g, PyTorch has %.9g, the bound is %.3g", lkt_describe(c),
                     what, (long long)i, (double)found[i], golden, bound[i]);
    }
}

static void long_contexts_match_pytorch(void **state)
{
    lkt_random random = lkt_random_make("long_contexts_match_pytorch", 1);
    json_t *golden = lkt_json_load("tests/sequence/golden/attention.json"), *test;
    const int64_t stride = lkt_json_integer(golden, "stride");
    size_t index;

    (void)state;
    json_array_foreach(json_object_get(golden, "cases"), index, test)
    {
        for (int b = 0; lkt_backends()[b] != NULL; b++) {
            lkt_result found;
            lkt_bounds bound;
            lkt_case c;

            open_case(&c, test, &random);
            lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
            lkt_bounds_make(&c, NULL, &found, &bound);
            compare(&c, "out", json_object_get(test, "out"), stride, found.out, bound.out,
                    lkt_out_elements(&c));
            compare(&c, "d_in", json_object_get(test, "d_in"), stride, found.d_in[0], bound.d_in[0],
                    lkt_in_elements(&c, 0));
            lkt_case_free(&c);
        }
    }
    json_decref(golden);
}

#ifdef LKT_HAVE_CPU
/* Any context, heads, masks. Scores are spread so that maxima grow from block to block. */
static void random_attention(lkt_case *c, int number, lkt_random *random)
{
    const int64_t positions = LKT_PICK(random, 1, 5, 16, 63, 64, 65, 100, 130, 200);
    const int64_t width = LKT_PICK(random, 1, 4, 8, 16, 20, 31, 32, 64, 70, 130);
    lks_attention_opts opts = {.kv_heads = LKT_PICK(random, 1, 1, 2),
                               .causal = lkt_random_chance(random, 2)};

    opts.heads = opts.kv_heads * LKT_PICK(random, 1, 1, 2, 3);
    if (width % 2 == 0 && lkt_random_chance(random, 3)) opts.rotary = 10000.0f;
    if (lkt_random_chance(random, 3)) opts.dropout = lkt_random_chance(random, 2) ? 0.1f : 0.25f;
    lkt_case_begin(c);
    lks_tensor *tokens = lks_input(
        c->graph,
        &(lks_input_opts){.shape = LKS_SHAPE(positions), .dtype = LKS_I32, .vocabulary = 3});
    lks_tensor *x = lks_embedding(
        c->graph, tokens, &(lks_embedding_opts){.units = width * (opts.heads + 2 * opts.kv_heads)});
    opts.padding = number % 2;
    if (lkt_random_chance(random, 2)) tokens = NULL, opts.padding = 0;
    lks_tensor *y = lks_attention(c->graph, x, tokens, &opts);
    lkt_case_end(c, y, y, LKT_PICK(random, 1, 1, 2), LKT_RANDOM, random);
    const float spread = (float)LKT_PICK(random, 1, 2, 8, 40);
    for (int64_t e = 0; e < lkt_in_elements(c, 0); e++) ((float *)c->in[0])[e] *= spread;
    /* All of a sample's first keys may be padding, or every one. */
    for (int64_t j = 0; tokens != NULL && number % 3 == 0 && j < positions - number % 7; j++)
        ((int32_t *)c->in[1])[j] = (int32_t)opts.padding;
}

static void bits_are_as_written(void **state)
{
    lkt_random random = lkt_random_make("bits_are_as_written", 60);
    const lki_vector *usual = lki_cpu_vector();

    (void)state;
    for (int number = 0; number < 60; number++) {
        lkt_case c;

        random_attention(&c, number, &random);
        const size_t out_bytes = sizeof(float) * (size_t)lkt_out_elements(&c);
        const size_t in_bytes = sizeof(float) * (size_t)lkt_in_elements(&c, 0);
        float *out = lkt_case_memory(&c, out_bytes), *d_in = lkt_case_memory(&c, in_bytes);
        as_written(&c, out, d_in);
        LKT_FOR_ISAS(v)
        {
            lkt_result found;

            lki_cpu_vector_use(v);
            lkt_run(&c, lki_backend_find("cpu"), NULL, NULL, &found);
            if (memcmp(found.out, out, out_bytes) != 0)
                fail_msg("%s, %s: out is not as written", v->name, lkt_describe(&c));
            if (memcmp(found.d_in[0], d_in, in_bytes) != 0)
                fail_msg("%s, %s: d_in is not as written", v->name, lkt_describe(&c));
        }
        lki_cpu_vector_use(usual);
        lkt_case_free(&c);
    }
}

/* Four times the context, not more than four times the memory. */
static void memory_grows_as_the_context(void **state)
{
    size_t bytes[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        lkt_random random = lkt_random_make("memory_grows_as_the_context", 1);
        lkt_case c;
        lkt_stage stage;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph,
                                  &(lks_input_opts){.shape = LKS_SHAPE(i == 0 ? 1024 : 4096, 24)});
        lks_tensor *y = lks_attention(c.graph, x, NULL, &(lks_attention_opts){.heads = 1});
        lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
        lkt_stage_open(&c, lkt_kernel(lki_backend_find("cpu"), LKI_OP_ATTENTION), &c.cluster, 1, 0,
                       &stage);
        bytes[i] = stage.plan->needs.workspace_bytes + stage.plan->needs.saved_bytes;
        lkt_stage_close(&stage);
        lkt_case_free(&c);
    }
    assert_true(bytes[1] <= 4 * bytes[0]);
}
#endif

/* With values that are the unit vectors, out is the weights: those that are dropped are 0, and keys of padding. */
static void dropped_weights_have_their_numbers(void **state)
{
    enum { POSITIONS = 8, HEADS = 2, WIDTH = POSITIONS };
    lkt_random random = lkt_random_make("dropped_weights_have_their_numbers", 1);
    const lki_bernoulli drop = lki_bernoulli_make(0.25);
    const float keep = (float)(1.0 / 0.75);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_case c;
        lkt_result found;
        uint8_t dropped[HEADS][POSITIONS][POSITIONS];

        lkt_case_begin(&c);
        lks_tensor *tokens = lks_input(
            c.graph,
            &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = 9});
        lks_tensor *x = lks_embedding(c.graph, tokens,
                                      &(lks_embedding_opts){.units = 3 * HEADS * WIDTH});
        lks_tensor *y = lks_attention(
            c.graph, x, tokens,
            &(lks_attention_opts){.heads = HEADS, .dropout = 0.25f, .padding = 5});
        lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
        float *in = c.in[0];
        for (int64_t e = 0; e < lkt_in_elements(&c, 0); e++) in[e] = 0.0f;
        for (int h = 0; h < HEADS; h++)
            for (int j = 0; j < POSITIONS; j++)
                in[j * 3 * HEADS * WIDTH + (2 * HEADS + h) * WIDTH + j] = 1.0f;
        for (int j = 0; j < POSITIONS; j++) ((int32_t *)c.in[1])[j] = j;
        lki_bernoulli_draw(&drop, c.key, c.step, (uint32_t)c.position, 0, sizeof dropped,
                           &dropped[0][0][0]);
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < POSITIONS; i++)
                for (int j = 0; j < POSITIONS; j++) {
                    const bool none = j == 5 || dropped[h][i][j];
                    const float wanted = none ? 0.0f : keep / (POSITIONS - 1);
                    const float got = found.out[(i * HEADS + h) * WIDTH + j];

                    if (!(fabsf(got - wanted) <= 0x1p-22f * wanted))
                        fail_msg("%s: weight %d, %d, %d is %.9g, expected %.9g",
                                 lkt_backends()[b]->name, h, i, j, (double)got, (double)wanted);
                }
        lkt_case_free(&c);
    }
}

enum { BATCH = 11, WORDS = 13, LENGTH = 70, CLASSES = 6, STEPS = 4 };

static uint64_t train(const char *device, int workers, int replicas)
{
    static int32_t token[BATCH][LENGTH], wanted[BATCH][LENGTH];
    lkt_small m = {.model = NULL};
    uint64_t hash;

    for (int i = 0; i < BATCH; i++)
        for (int t = 0; t < LENGTH; t++) {
            token[i][t] = (i * 7 + t * t) % WORDS;
            wanted[i][t] = (token[i][t] + i) % CLASSES;
        }
    LKT_OK(lks_context_create(&m.context, &(lks_context_opts){.device = device, .seed = 4}));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    lks_graph *g = m.graph;
    lks_tensor *tokens = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(LENGTH), .dtype = LKS_I32, .vocabulary = WORDS});
    lks_tensor *x = lks_embedding(g, tokens, &(lks_embedding_opts){.units = 18});
    for (int i = 0; i < 2; i++) {
        const lks_attention_opts opts = {.heads = 3,
                                         .kv_heads = i == 0 ? 1 : 3,
                                         .causal = i == 0,
                                         .rotary = i == 0 ? 0.0f : 100.0f,
                                         .dropout = .1f,
                                         .padding = i};
        lks_tensor *y = lks_layer_norm(g, x, NULL);
        y = lks_dense(g, y, &(lks_dense_opts){.units = i == 0 ? 30 : 54});
        y = lks_attention(g, y, i == 0 ? NULL : tokens, &opts);
        x = lks_add(g, x, lks_dense(g, y, &(lks_dense_opts){.units = 18}));
    }
    x = lks_dense(g, x, &(lks_dense_opts){.units = CLASSES});
    lks_tensor *y = lks_target(g,
                               &(lks_target_opts){.classes = CLASSES, .shape = LKS_SHAPE(LENGTH)});
    const lks_model_opts opts = {.loss = lks_cross_entropy(g, x, y, NULL),
                                 .global_batch = BATCH,
                                 .replicas = replicas,
                                 .workers = workers,
                                 .optim = lks_adam()};
    LKT_OK(lks_model_compile(&m.model, g, &opts));
    for (int i = 0; i < STEPS; i++) {
        const lks_batch batch = {.x = token, .y = wanted, .count = BATCH - i % 3};
        LKT_OK(lks_model_step(m.model, &batch, .05, NULL));
    }
    LKT_OK(lks_model_hash(m.model, &hash));
    lkt_small_end(&m);
    return hash;
}

static void any_workers_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const char *device = lkt_backends()[d]->name;
        const uint64_t hash = train(device, 1, 5);
        for (int p = 2; p <= 5; p++) assert_true(train(device, p, 5) == hash);
        assert_true(train(device, 1, 3) != hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_contexts_match_pytorch),
#ifdef LKT_HAVE_CPU
        cmocka_unit_test(bits_are_as_written),
        cmocka_unit_test(memory_grows_as_the_context),
#endif
        cmocka_unit_test(dropped_weights_have_their_numbers),
        cmocka_unit_test(any_workers_have_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
