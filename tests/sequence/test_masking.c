/* Padding of frames: which positions are found; and attention that leaves them out has the bits, and so the gradients, of
 * attention that is told by tokens, and these are difference quotients. */
#include <math.h>
#include <string.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/ops.h"

/* Rows of two features, behind each other, and whether they are padding where that is `value`. */
static void tokens(float value, const float (*row)[2], const int32_t *expected, int64_t count)
{
    lkt_random random = lkt_random_make("tokens", 1);

    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_case c;
        lkt_result found;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(count, 2)});
        lks_tensor *y = lks_masking(c.graph, x, &(lks_masking_opts){.value = value});
        lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
        memcpy(c.in[0], row, (size_t)count * sizeof *row);
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
        for (int64_t t = 0; t < count; t++)
            if (((const int32_t *)(const void *)found.out)[t] != expected[t])
                fail_msg("%s, value %g: position %d, expected %d", lkt_backends()[b]->name,
                         (double)value, (int)t, expected[t]);
        lkt_case_free(&c);
    }
}

static void positions_of_one_value_are_padding(void **state)
{
    static const float zeros[][2] = {{0, 0},   {0, 1},        {1, 0},         {-0.0f, 0},
                                     {NAN, 0}, {0, NAN},      {0, 0x1p-140f}, {-0.0f, -0.0f},
                                     {0, 0},   {-1, INFINITY}};
    static const int32_t without_zeros[] = {0, 1, 1, 0, 1, 1, 1, 0, 0, 1};
    static const float halves[][2] = {{-.5f, -.5f}, {.5f, -.5f}, {0, 0}, {NAN, -.5f}, {-.5f, -.5f}};
    static const int32_t without_halves[] = {0, 1, 1, 1, 0};

    (void)state;
    tokens(0, zeros, without_zeros, 10);
    tokens(-0.0f, zeros, without_zeros, 10);
    tokens(-.5f, halves, without_halves, 5);
}

/* ---------------------------------------------------------------- attention that reads them */

enum { POSITIONS = 11, FEATURES = 3, QKV = 2 * 3 * 4, COUNT = 3 };

/* Frames of some positions, the others being padding; the tokens of that are 0. */
static void draw_frames(float *x, int32_t *token, lkt_random *random)
{
    for (int t = 0; t < COUNT * POSITIONS; t++) {
        token[t] = lkt_random_chance(random, 3) ? 0 : 1;
        for (int f = 0; f < FEATURES; f++)
            x[t * FEATURES + f] = token[t] ? (float)lkt_random_from(random, 0, 2) : 0;
        if (token[t]) x[t * FEATURES + t % FEATURES] = 1;
    }
}

static const lks_attention_opts heads = {.heads = 2, .rotary = 100};

/* A masking, and attention of other numbers behind it; in[0] is frames, in[1] queries, keys and values. */
static void open_masking(lkt_case *c, lkt_random *random)
{
    lkt_case_begin(c);
    lks_tensor *x = lks_input(c->graph, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS, FEATURES)});
    lks_tensor *qkv = lks_dense(c->graph, x, &(lks_dense_opts){.units = QKV});
    lks_tensor *mask = lks_masking(c->graph, x, NULL);
    lkt_case_end(c, mask, lks_attention(c->graph, qkv, mask, &heads), COUNT, LKT_RANDOM, random);
    assert_int_equal(c->cluster.count, 2);
}

/* Attention alone, told by tokens. */
static void open_tokens(lkt_case *c, lkt_random *random)
{
    lkt_case_begin(c);
    lks_tensor *x = lks_input(
        c->graph,
        &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = 2});
    lks_tensor *qkv = lks_embedding(c->graph, x, &(lks_embedding_opts){.units = QKV});
    lks_tensor *y = lks_attention(c->graph, qkv, x, &heads);
    lkt_case_end(c, y, y, COUNT, LKT_RANDOM, random);
}

static void the_bits_are_those_of_tokens(void **state)
{
    lkt_random random = lkt_random_make("the_bits_are_those_of_tokens", 3);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 8; k++) {
            lkt_case a, t;
            lkt_result masked, told;

            open_masking(&a, &random);
            open_tokens(&t, &random);
            const size_t bytes = (size_t)lkt_in_elements(&t, 0) * sizeof(float);
            draw_frames(a.in[0], t.in[1], &random);
            memcpy(t.in[0], a.in[1], bytes);
            memcpy(t.d_out, a.d_out, (size_t)lkt_out_elements(&t) * sizeof(float));
            lkt_run(&a, lkt_backends()[b], NULL, NULL, &masked);
            lkt_run(&t, lkt_backends()[b], NULL, NULL, &told);
            assert_memory_equal(masked.out, told.out, (size_t)lkt_out_elements(&t) * sizeof(float));
            assert_memory_equal(masked.d_in[1], told.d_in[0], bytes);
            assert_null(masked.d_in[0]);
            lkt_case_free(&a);
            lkt_case_free(&t);
        }
}

/* Sum of out times d_out, and how far it may be off as each element of out was rounded to f32. */
typedef struct sum {
    double value, noise;
} sum;

static sum sum_of(lkt_case *c)
{
    lkt_result result;
    sum s = {0};

    lkt_run(c, lkt_ref(), NULL, &(lkt_how){.no_backward = true}, &result);
    for (int64_t i = 0; i < lkt_out_elements(c); i++) {
        const double term = (double)c->d_out[i] * (double)result.out[i];
        s.value += term;
        s.noise += 0x1p-24 * fabs(term);
    }
    return s;
}

static sum quotient(lkt_case *c, float *x, float h)
{
    const float middle = *x, above = middle + h, below = middle - h;

    *x = above;
    const sum a = sum_of(c);
    *x = below;
    const sum b = sum_of(c);
    *x = middle;
    const double distance = (double)above - (double)below;
    return (sum){(a.value - b.value) / distance, (a.noise + b.noise) / distance};
}

/* As in op/gradients: D(2h) - D(h) is three times the error of D(h), and the gradient is rounded once, to f32. */
static void gradients_are_difference_quotients(void **state)
{
    lkt_random random = lkt_random_make("gradients_are_difference_quotients", 4);
    static int32_t token[COUNT * POSITIONS];
    const float h = 0x1p-7f;
    lkt_result result;
    lkt_case c;
    int zeros = 0, told = 0;

    (void)state;
    open_masking(&c, &random);
    draw_frames(c.in[0], token, &random);
    lkt_run(&c, lkt_ref(), NULL, NULL, &result);
    const float *g = result.d_in[1];
    for (int64_t i = 0; i < lkt_in_elements(&c, 1); i++) {
        const bool query = i % QKV < QKV / 3;
        float *x = (float *)c.in[1] + i;
        if (!query && token[i / QKV] == 0) { /* key or value of padding */
            assert_true(g[i] == 0.0f);
            zeros++;
            continue;
        }
        const sum far = quotient(&c, x, 2 * h), near = quotient(&c, x, h);
        const double room = far.noise + near.noise + fabs(far.value - near.value) +
                            0x1p-24 * fabs((double)g[i]) + 1e-12;
        if (!(fabs(near.value - (double)g[i]) <= room))
            fail_msg("%d is %.9g, the quotient %.9g, within %.3g", (int)i, (double)g[i], near.value,
                     room);
        told += room < 0.01 * fabs((double)g[i]);
    }
    assert_true(zeros > 50 && told > 100);
    lkt_case_free(&c);
}

/* The graph's input or what its last masking gives, never a target's classes. */
static void masked_layers_find_tokens(void **state)
{
    lkt_case c;
    (void)state;
    lkt_case_begin(&c);
    lks_target(c.graph, &(lks_target_opts){.classes = 3});
    lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(5, 3)});
    assert_null(lki_graph_tokens(c.graph));
    lks_tensor *first = lks_masking(c.graph, x, NULL);
    assert_ptr_equal(lki_graph_tokens(c.graph), first);
    lks_tensor *last = lks_masking(c.graph, x, &(lks_masking_opts){.value = 7});
    assert_ptr_equal(lki_graph_tokens(c.graph), last);
    lkt_case_free(&c);
    lkt_case_begin(&c);
    x = lks_input(c.graph,
                  &(lks_input_opts){.shape = LKS_SHAPE(5), .dtype = LKS_I32, .vocabulary = 9});
    lks_target(c.graph, &(lks_target_opts){.classes = 3});
    assert_ptr_equal(lki_graph_tokens(c.graph), x);
    lkt_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_of_one_value_are_padding),
        cmocka_unit_test(the_bits_are_those_of_tokens),
        cmocka_unit_test(gradients_are_difference_quotients),
        cmocka_unit_test(masked_layers_find_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
