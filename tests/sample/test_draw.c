/* Tokens that are drawn: by the formula once more, as often as they are probable, and from as few as is asked for. */
#include <math.h>
#include <stdlib.h>

#include "model/infer/draw.h"
#include "numeric/random.h"
#include "numeric/real.h"
#include "support/test.h"

enum { MOST = 40 };

static lki_candidate candidates[MOST];
static double weights[MOST];

static lki_draw make(int64_t size)
{
    return (lki_draw){.temperature = 1,
                      .top_p = 1,
                      .size = size,
                      .candidate = candidates,
                      .weight = weights,
                      .key = lki_random_key(3, "sample", "")};
}

static int in_order(const void *a, const void *b)
{
    const lki_candidate *x = a, *y = b;
    if (x->output != y->output) return x->output > y->output ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* As docs/numerics.md says it. */
static int32_t expected_token(const lki_draw *d, const float *outputs, int64_t number)
{
    lki_candidate list[MOST];
    uint32_t word[4];
    float largest = outputs[0];
    int64_t kept = d->size;
    for (int64_t i = 0; i < d->size; i++) {
        list[i] = (lki_candidate){outputs[i], (int32_t)i};
        largest = fmaxf(largest, outputs[i]);
    }
    const bool sorted = (d->top_k > 0 && d->top_k < d->size) || d->top_p < 1;
    if (sorted || d->most_probable) qsort(list, (size_t)d->size, sizeof *list, in_order);
    if (d->most_probable) return list[0].token;
    if (d->top_k > 0 && d->top_k < kept) kept = d->top_k;
    double sum = 0, all;
    for (int64_t i = 0; i < kept; i++)
        sum += lki_exp(((double)list[i].output - (double)largest) / d->temperature);
    all = sum;
    if (d->top_p < 1) {
        int64_t count = 0;
        for (sum = 0; count == 0 || (sum < d->top_p * all && count < kept); count++)
            sum += lki_exp(((double)list[count].output - (double)largest) / d->temperature);
        kept = count;
    }
    const uint32_t counter[] = {(uint32_t)number, (uint32_t)(number >> 32), d->stream, 0};
    lki_philox(d->key, counter, word);
    const double u = (double)((uint64_t)word[0] << 21 | word[1] >> 11) / 9007199254740992.0;
    double passed = 0;
    for (int64_t i = 0; i < kept; i++) {
        passed += lki_exp(((double)list[i].output - (double)largest) / d->temperature);
        if (passed > u * sum) return list[i].token;
    }
    return -1;
}

static void the_formula_is_kept_to(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("draw", 1);
    for (int turn = 0; turn < 20000; turn++) {
        float outputs[MOST];
        lki_draw d = make(1 + lkt_random_below(&random, MOST));
        const bool even = lkt_random_chance(&random, 2);
        for (int64_t i = 0; i < d.size; i++)
            outputs[i] = even ? (float)lkt_random_from(&random, -2, 2)
                              : (float)lkt_random_real(&random, -5, 5);
        if (lkt_random_chance(&random, 2)) d.top_k = 1 + lkt_random_below(&random, 45);
        if (lkt_random_chance(&random, 2)) d.top_p = lkt_random_real(&random, 0.01, 1);
        if (lkt_random_chance(&random, 2)) d.temperature = lkt_random_real(&random, 0.05, 3);
        d.most_probable = lkt_random_chance(&random, 8);
        d.stream = (uint32_t)lkt_random_below(&random, 3);
        const int64_t number = lkt_random_chance(&random, 5) ? (INT64_C(1) << 33) + turn : turn;
        int32_t token;
        LKT_OK(lki_draw_token(&token, &d, outputs, number));
        assert_int_equal(token, expected_token(&d, outputs, number));
    }
}

/*
 * Pearson's sum over k + 1 kinds is chi-square of k degrees, nearly, where each is expected often. By Laurent and Massart
 * (2000) it exceeds k + 2 sqrt(k x) + 2 x with a probability of at most e^-x, here 10^-9.
 */
static void is_likely(const int64_t *found, const double *share, int kinds, int64_t draws)
{
    const double x = 9 * log(10), k = kinds - 1;
    double sum = 0;
    for (int i = 0; i < kinds; i++) {
        const double wanted = share[i] * (double)draws;
        assert_true(wanted > 20);
        sum += ((double)found[i] - wanted) * ((double)found[i] - wanted) / wanted;
    }
    if (sum > k + 2 * sqrt(k * x) + 2 * x) fail_msg("Pearson's sum is %g of %d kinds", sum, kinds);
}

static void tokens_come_as_often_as_they_are_probable(void **state)
{
    (void)state;
    enum { KINDS = 6, DRAWS = 400000 };
    static const float outputs[KINDS] = {0.5f, -1, 2, 0.25f, 2, -2.5f};
    static const struct {
        double temperature, top_p;
        int64_t top_k;
        int kept; /* of 2 4 0 3 1 5 */
    } cases[] = {{1, 1, 0, 6}, {0.5, 1, 0, 6},  {2, 1, 0, 6},
                 {1, 1, 3, 3}, {1, 0.85, 0, 3}, {1, 0.8, 4, 2}};
    static const int order[] = {2, 4, 0, 3, 1, 5};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        lki_draw d = make(KINDS);
        int64_t found[KINDS] = {0}, kept[KINDS], pairs[4] = {0};
        double share[KINDS], all = 0;
        int32_t token, last = 0;
        d.temperature = cases[c].temperature;
        d.top_p = cases[c].top_p;
        d.top_k = cases[c].top_k;
        for (int64_t i = 0; i < DRAWS; i++) {
            LKT_OK(lki_draw_token(&token, &d, outputs, i));
            found[token]++;
            pairs[2 * (last == 2) + (token == 2)]++;
            last = token;
        }
        for (int i = 0; i < cases[c].kept; i++)
            all += share[i] = exp((double)outputs[order[i]] / d.temperature);
        for (int i = 0; i < KINDS; i++) {
            if (i < cases[c].kept) share[i] /= all;
            kept[i] = found[order[i]];
            if (i >= cases[c].kept) assert_int_equal(kept[i], 0);
        }
        is_likely(kept, share, cases[c].kept, DRAWS);
        /* One draw says nothing of the next. */
        const double p = share[0], both[] = {(1 - p) * (1 - p), (1 - p) * p, p * (1 - p), p * p};
        is_likely(pairs, both, 4, DRAWS);
    }
}

static void texts_are_told_apart(void **state)
{
    (void)state;
    static const float outputs[4];
    lki_draw d = make(4);
    int same[2] = {0};
    for (int64_t i = 0; i < 1000; i++) {
        int32_t token, other[2];
        LKT_OK(lki_draw_token(&token, &d, outputs, i));
        lki_draw e = d;
        e.stream = 1;
        LKT_OK(lki_draw_token(&other[0], &e, outputs, i));
        e = d;
        e.key = lki_random_key(4, "sample", "");
        LKT_OK(lki_draw_token(&other[1], &e, outputs, i));
        for (int k = 0; k < 2; k++) same[k] += other[k] == token;
    }
    /* Of 1000 fair coins of four sides 250 agree, give or take 13.7: seven of these. */
    for (int k = 0; k < 2; k++) assert_in_range(same[k], 154, 346);
}

static void ends_of_ranges_are_met(void **state)
{
    (void)state;
    static const float far[] = {-3e38f, 3e38f, 0, 3e38f}, flat[] = {1, 1, 1};
    lki_draw d = make(4);
    int32_t token;
    d.temperature = 1e-300;
    for (int64_t i = 0; i < 100; i++) {
        LKT_OK(lki_draw_token(&token, &d, far, i));
        assert_true(token == 1 || token == 3);
    }
    d.most_probable = true;
    LKT_OK(lki_draw_token(&token, &d, far, 0));
    assert_int_equal(token, 1);
    d = make(3);
    d.top_k = 1;
    for (int64_t i = 0; i < 20; i++) {
        LKT_OK(lki_draw_token(&token, &d, flat, i));
        assert_int_equal(token, 0); /* of equal ones the smallest number */
    }
    d.top_k = 0;
    d.top_p = 2.0 / 3; /* two of three have it */
    for (int64_t i = 0; i < 50; i++) {
        LKT_OK(lki_draw_token(&token, &d, flat, i));
        assert_in_range(token, 0, 1);
    }
    d.top_p = 1e-300;
    LKT_OK(lki_draw_token(&token, &d, flat, 3));
    assert_int_equal(token, 0);
    const float bad[] = {0, NAN, 0}, endless[] = {0, 0, INFINITY};
    LKT_FAILS(LKS_E_NUMERIC, "output for token 1 is not finite",
              lki_draw_token(&token, &d, bad, 0));
    LKT_FAILS(LKS_E_NUMERIC, "output for token 2 is not finite",
              lki_draw_token(&token, &d, endless, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_is_kept_to),
        cmocka_unit_test(tokens_come_as_often_as_they_are_probable),
        cmocka_unit_test(texts_are_told_apart),
        cmocka_unit_test(ends_of_ranges_are_met),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
