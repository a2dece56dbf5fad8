/*
 * Layer norm's and concat's vector functions against their definition in bits: scalar loops, sums in
 * 16 lanes in double that are added pairwise. So bits depend neither on the instruction set (but for
 * the fused step of forward) nor on alignment, and nothing is written beyond.
 */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

enum { LANES_OF_SUMS = 16 };

static double lanes_total(const double *values, int64_t count)
{
    double lane[LANES_OF_SUMS] = {0};

    for (int64_t i = 0; i < count; i++) lane[i % LANES_OF_SUMS] += values[i];
    for (int step = LANES_OF_SUMS / 2; step > 0; step /= 2)
        for (int j = 0; j < step; j++) lane[j] += lane[j + step];
    return lane[0];
}

/* A row and what is expected of it. */
typedef struct row_case {
    int64_t n;
    lkt_floats x, d, w, b, out;
    float *expected;
    double *terms;
} row_case;

static row_case row_make(lkt_random *random, int64_t n)
{
    return (row_case){.n = n,
                      .x = lkt_floats_make(random, n),
                      .d = lkt_floats_make(random, n),
                      .w = lkt_floats_make(random, n),
                      .b = lkt_floats_make(random, n),
                      .out = lkt_floats_make(random, n),
                      .expected = lkt_scratch(sizeof(float) * (size_t)n),
                      .terms = lkt_scratch(sizeof(double) * (size_t)n)};
}

static void row_free(row_case *r)
{
    lkt_floats_free(&r->x);
    lkt_floats_free(&r->d);
    lkt_floats_free(&r->w);
    lkt_floats_free(&r->b);
    lkt_floats_free(&r->out);
    free(r->expected);
    free(r->terms);
}

static void moments_of(const row_case *r, double epsilon, float moments[2])
{
    for (int64_t i = 0; i < r->n; i++) r->terms[i] = (double)r->x.at[i];
    const double mean = lanes_total(r->terms, r->n) / (double)r->n;
    for (int64_t i = 0; i < r->n; i++)
        r->terms[i] = ((double)r->x.at[i] - mean) * ((double)r->x.at[i] - mean);
    moments[0] = (float)mean;
    moments[1] = (float)(1 / sqrt(lanes_total(r->terms, r->n) / (double)r->n + epsilon));
}

static float z_of(const row_case *r, const float moments[2], int64_t i)
{
    return (r->x.at[i] - moments[0]) * moments[1];
}

static void check_forward(const lki_vector *v, row_case *r, const float *moments, bool affine)
{
    for (int64_t i = 0; i < r->n; i++) {
        const float z = z_of(r, moments, i);

        r->expected[i] = affine ? fmaf(z, r->w.at[i], r->b.at[i]) : z;
    }
    v->layer_norm->forward(r->n, r->x.at, moments, affine ? r->w.at : NULL, affine ? r->b.at : NULL,
                           r->out.at);
    lkt_same(v, "forward", r->out.at, r->expected, r->n);
}

static float g_of(const row_case *r, bool affine, int64_t i)
{
    return affine ? r->d.at[i] * r->w.at[i] : r->d.at[i];
}

/* `out` holds what forward left: both kinds of backward add to it in turn. */
static void check_backward(const lki_vector *v, row_case *r, const float *moments, bool affine)
{
    const lki_layer_norm_row row = {
        .x = r->x.at, .d_out = r->d.at, .weight = affine ? r->w.at : NULL, .moments = moments};
    const double n = (double)r->n;

    for (int64_t i = 0; i < r->n; i++) r->terms[i] = (double)g_of(r, affine, i);
    const float level = (float)(lanes_total(r->terms, r->n) / n);
    for (int64_t i = 0; i < r->n; i++)
        r->terms[i] = (double)g_of(r, affine, i) * (double)z_of(r, moments, i);
    const float slope = (float)(lanes_total(r->terms, r->n) / n);
    for (int add = 1; add >= 0; add--) {
        for (int64_t i = 0; i < r->n; i++) {
            const float z = z_of(r, moments, i);
            const float d = (g_of(r, affine, i) - level - z * slope) * moments[1];

            r->expected[i] = add ? r->out.at[i] + d : d;
        }
        v->layer_norm->backward(r->n, &row, r->out.at, add);
        lkt_same(v, "backward", r->out.at, r->expected, r->n);
    }
    double *sums = lkt_scratch(4 * sizeof(double) * (size_t)r->n), *expected = sums + 2 * r->n;
    for (int64_t i = 0; i < r->n; i++) {
        sums[i] = r->terms[i];
        sums[r->n + i] = 1.0 / 3.0;
        expected[i] = sums[i] + (double)r->d.at[i] * (double)z_of(r, moments, i);
        expected[r->n + i] = 1.0 / 3.0 + (double)r->d.at[i];
    }
    v->layer_norm->products(r->n, &row, sums, sums + r->n);
    assert_memory_equal(sums, expected, 2 * sizeof(double) * (size_t)r->n);
    free(sums);
}

static void rows(void **state)
{
    lkt_random random = lkt_random_make("rows", 90);

    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 1; n < 90; n++) {
        row_case r = row_make(&random, n < 70 ? n : lkt_random_from(&random, 70, 900));
        float found[2], moments[2];

        v->layer_norm->measure(r.n, r.x.at, 1e-5, found);
        moments_of(&r, 1e-5, moments);
        lkt_same(v, "measure", found, moments, 2);
        check_forward(v, &r, moments, n % 2 == 0);
        check_backward(v, &r, moments, n % 2 == 0);
        row_free(&r);
    }
}

/* About 0, with a weight or without, and no bias. */
static void roots(void **state)
{
    lkt_random random = lkt_random_make("roots", 40);

    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 1; n < 40; n++) {
        row_case r = row_make(&random, n < 35 ? n : lkt_random_from(&random, 35, 900));
        const bool affine = n % 2 == 0;
        float found[2], moments[2] = {0};

        for (int64_t i = 0; i < r.n; i++) r.terms[i] = (double)r.x.at[i] * (double)r.x.at[i];
        moments[1] = (float)(1 / sqrt(lanes_total(r.terms, r.n) / (double)r.n + 1e-5));
        v->layer_norm->root(r.n, r.x.at, 1e-5, found);
        lkt_same(v, "root", found, moments, 2);
        for (int64_t i = 0; i < r.n; i++)
            r.expected[i] = affine ? r.x.at[i] * moments[1] * r.w.at[i] : r.x.at[i] * moments[1];
        v->layer_norm->forward(r.n, r.x.at, moments, affine ? r.w.at : NULL, NULL, r.out.at);
        lkt_same(v, "forward", r.out.at, r.expected, r.n);
        for (int64_t i = 0; i < r.n; i++)
            r.terms[i] = (double)g_of(&r, affine, i) * (double)z_of(&r, moments, i);
        const float slope = (float)(lanes_total(r.terms, r.n) / (double)r.n);
        for (int64_t i = 0; i < r.n; i++)
            r.expected[i] = (g_of(&r, affine, i) - z_of(&r, moments, i) * slope) * moments[1];
        v->layer_norm->backward(r.n,
                                &(lki_layer_norm_row){.x = r.x.at,
                                                      .d_out = r.d.at,
                                                      .weight = affine ? r.w.at : NULL,
                                                      .moments = moments,
                                                      .about_zero = true},
                                r.out.at, false);
        lkt_same(v, "backward", r.out.at, r.expected, r.n);
        row_free(&r);
    }
}

/* Rows apart to rows apart; what lies between them stays. */
static void moves(void **state)
{
    lkt_random random = lkt_random_make("moves", 91);

    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 120; k++) {
        const int64_t count = lkt_random_from(&random, 1, 9);
        const int64_t columns = lkt_random_from(&random, 1, 40);
        const int64_t from = columns + lkt_random_below(&random, 5);
        const int64_t to = columns + lkt_random_below(&random, 5);
        lkt_floats in = lkt_floats_make(&random, count * from);
        lkt_floats out = lkt_floats_make(&random, count * to);
        float *expected = lkt_scratch(sizeof(float) * (size_t)(count * to));

        memcpy(expected, out.at, sizeof(float) * (size_t)(count * to));
        for (int64_t i = 0; i < count * columns; i++) {
            float *e = &expected[i / columns * to + i % columns];

            *e = (k % 2 == 0 ? *e : 0) + in.at[i / columns * from + i % columns];
        }
        v->element->move(count, columns, in.at, from, out.at, to, k % 2 == 0);
        lkt_same(v, "move", out.at, expected, count * to);
        lkt_floats_free(&in);
        lkt_floats_free(&out);
        free(expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(roots),
        cmocka_unit_test(moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
