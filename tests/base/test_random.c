/* Philox, what is drawn from it, and keys. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric/hash.h"
#include "numeric/random.h"

/* The known answers that come with Random123 for philox4x32-10. */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t expected[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         UINT64_C(0xffffffffffffffff),
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         UINT64_C(0x299f31d0a4093822),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        lki_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].expected, sizeof out);
    }
}

static void keys(void **state)
{
    (void)state;
    const char bytes[] = "\x08\x07\x06\x05\x04\x03\x02\x01"
                         "dropout\0drop1";
    const uint64_t key = lki_random_key(UINT64_C(0x0102030405060708), "dropout", "drop1");
    assert_true(key == lki_hash(bytes, sizeof bytes - 1));
    assert_true(key != lki_random_key(UINT64_C(0x0102030405060709), "dropout", "drop1"));
    assert_true(key != lki_random_key(UINT64_C(0x0102030405060708), "dropout", "drop2"));
    assert_true(key != lki_random_key(UINT64_C(0x0102030405060708), "dropou", "tdrop1"));
}

/* By Python's integers of any size: ((w0 << 32 | w1) * n) >> 64. */
static void numbers_below(void **state)
{
    (void)state;
    static const struct {
        uint32_t word[2];
        int64_t n, expected;
    } known[] = {
        {{0, 0}, 5, 0},
        {{0xffffffff, 0xffffffff}, 1, 0},
        {{0xffffffff, 0xffffffff}, 3, 2},
        {{0xffffffff, 0xffffffff}, INT64_MAX, INT64_C(9223372036854775806)},
        {{0x80000000, 0}, 7, 3},
        {{0x55555555, 0x55555555}, 3, 0},
        {{0x55555555, 0x55555556}, 3, 1},
        {{1, 0xffffffff}, INT64_C(4611686018427400249), INT64_C(2147483647)},
        {{0, 0xffffffff}, INT64_C(0x1ffffffff), INT64_C(1)},
        {{0x9e3779b9, 0x7f4a7c15}, INT64_C(1234567890123456789), INT64_C(763004917515541912)},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(lki_random_below(known[i].word, known[i].n), known[i].expected);
}

static void events(void **state)
{
    (void)state;
    static const struct {
        double p;
        unsigned bits;
        uint32_t threshold;
    } known[] = {
        {0, 1, 0},       {1, 1, 2},        {0.5, 1, 1},          {0.25, 2, 1},
        {0.75, 2, 3},    {0.125, 4, 2},    {0.9375, 4, 15},      {1.0 / 256, 8, 1},
        {0.1, 16, 6554}, {0.2, 16, 13107}, {1e-9, 16, 0},        {1 - 1e-9, 16, 65536},
        {-1, 1, 0},      {2, 1, 2},        {1.0 / 65536, 16, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const lki_bernoulli made = lki_bernoulli_make(known[i].p);
        assert_int_equal(made.bits, known[i].bits);
        assert_int_equal(made.threshold, known[i].threshold);
        const double p = known[i].p < 0 ? 0 : known[i].p > 1 ? 1 : known[i].p;
        assert_true(fabs(made.probability - p) <= (made.bits == 16 ? 0x1p-17 : 0));
    }
}

/* The definition, bit by bit. */
static uint8_t naive_event(const lki_bernoulli *event, uint64_t key, uint64_t step,
                           uint32_t position, int64_t element)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < event->bits; i++) {
        const int64_t bit = element * event->bits + i;
        const uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), position,
                                     (uint32_t)(bit / 128)};
        uint32_t out[4];
        lki_philox(key, counter, out);
        value |= (out[bit % 128 / 32] >> bit % 32 & 1) << i;
    }
    return value < event->threshold;
}

static void draws_follow_the_definition(void **state)
{
    (void)state;
    static const double probabilities[] = {0, 0.5, 0.25, 0.375, 0.4375, 0.3, 0.1, 0.9, 1};
    lkt_random random = lkt_random_make("draws_follow_the_definition", 3);
    for (int round = 0; round < 300; round++) {
        const lki_bernoulli event = lki_bernoulli_make(probabilities[lkt_random_below(&random, 9)]);
        const uint64_t key = lkt_random_bits(&random), step = lkt_random_bits(&random);
        const uint32_t position = (uint32_t)lkt_random_bits(&random);
        const int64_t most = round % 2 ? INT64_C(1) << 30 : 40;
        const int64_t first = lkt_random_below(&random, most);
        const int64_t count = lkt_random_below(&random, 300);
        uint8_t out[302];
        memset(out, 7, sizeof out);
        lki_bernoulli_draw(&event, key, step, position, first, count, out + 1);
        assert_int_equal(out[0], 7);
        assert_int_equal(out[count + 1], 7);
        for (int64_t i = 0; i < count; i++) {
            assert_int_equal(out[i + 1], naive_event(&event, key, step, position, first + i));
        }
    }
}

/* Frequencies: the number of events in n draws has the standard deviation sqrt(n p (1 - p)). */
static void draws_have_their_probability(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    static uint8_t out[COUNT];
    static const double probabilities[] = {0.5, 0.25, 0.1, 0.9, 0.0625};
    for (int i = 0; i < 5; i++) {
        const lki_bernoulli event = lki_bernoulli_make(probabilities[i]);
        lki_bernoulli_draw(&event, 99, 5, 17, 0, COUNT, out);
        int64_t events = 0;
        for (int k = 0; k < COUNT; k++) events += out[k];
        const double p = event.probability, sigma = sqrt(COUNT * p * (1 - p));
        assert_true(fabs((double)events - COUNT * p) < 4 * sigma);
    }
}

static void initial_word(uint64_t key, int64_t e, int64_t word, uint32_t *out)
{
    const int64_t block = e / 4;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)((uint64_t)block >> 32), 0, 0};
    uint32_t words[4];
    lki_philox(key, counter, words);
    *out = words[word];
}

static void uniform_numbers(void **state)
{
    (void)state;
    enum { COUNT = 100001 };
    static float out[COUNT + 1];
    out[COUNT] = 5;
    lki_random_uniform(1234, COUNT, out);
    assert_true(out[COUNT] == 5);
    double sum = 0, squares = 0;
    for (int64_t e = 0; e < COUNT; e++) {
        uint32_t word;
        initial_word(1234, e, e % 4, &word);
        assert_true((double)out[e] == (double)(word >> 8) * 0x1p-23 - 1);
        assert_true(out[e] >= -1 && out[e] < 1);
        sum += (double)out[e];
        squares += (double)out[e] * (double)out[e];
    }
    /* Variance 1/3; of the squares 1/5 - 1/9. */
    assert_true(fabs(sum / COUNT) < 4 * sqrt(1.0 / 3 / COUNT));
    assert_true(fabs(squares / COUNT - 1.0 / 3) < 4 * sqrt((1.0 / 5 - 1.0 / 9) / COUNT));
    lki_random_uniform(1234, 0, NULL);
}

static void normal_numbers(void **state)
{
    (void)state;
    enum { COUNT = 100002 };
    static float out[COUNT + 1];
    out[COUNT] = 5;
    lki_random_normal(77, COUNT, out);
    assert_true(out[COUNT] == 5);
    double sum = 0, squares = 0, fourth = 0, pairs = 0;
    for (int64_t e = 0; e < COUNT; e++) {
        uint32_t a, b;
        initial_word(77, e, e % 4 / 2 * 2, &a);
        initial_word(77, e, e % 4 / 2 * 2 + 1, &b);
        const double radius = sqrt(-2 * log(((double)a + 1) * 0x1p-32));
        const double angle = 2 * 3.14159265358979323846 * (double)b * 0x1p-32;
        const double exact = radius * (e % 2 ? sin(angle) : cos(angle));
        /* A float's half ulp, and the angle's rounding (2^-52 * 2 pi, times a radius below 7). */
        assert_true(fabs((double)out[e] - exact) <= fabs(exact) * 0x1p-23 + 0x1p-46);
        const double x = (double)out[e];
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        if (e > 0) pairs += x * (double)out[e - 1];
    }
    /* Moments 0, 1, 3 with variances 1, 2, 96; neighbours are not correlated. */
    assert_true(fabs(sum / COUNT) < 4 * sqrt(1.0 / COUNT));
    assert_true(fabs(squares / COUNT - 1) < 4 * sqrt(2.0 / COUNT));
    assert_true(fabs(fourth / COUNT - 3) < 4 * sqrt(96.0 / COUNT));
    assert_true(fabs(pairs / COUNT) < 4 * sqrt(1.0 / COUNT));
}

/* Not the hash of a state, which belongs to a build: these numbers come from IEEE arithmetic alone,
 * so that every compiler and every little-endian machine must give the same bits. */
static void same_bits_everywhere(void **state)
{
    (void)state;
    static float out[4096];
    lki_random_normal(lki_random_key(1, "init", "fc1.weight"), 4096, out);
    const uint64_t normal = lki_hash(out, sizeof out);
    lki_random_uniform(lki_random_key(1, "init", "fc1.weight"), 4096, out);
    const uint64_t uniform = lki_hash(out, sizeof out);
    assert_true(normal == UINT64_C(0xa2e3361bab7a05b7));
    assert_true(uniform == UINT64_C(0xd3a78450a780cefe));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(keys),
        cmocka_unit_test(numbers_below),
        cmocka_unit_test(events),
        cmocka_unit_test(draws_follow_the_definition),
        cmocka_unit_test(draws_have_their_probability),
        cmocka_unit_test(uniform_numbers),
        cmocka_unit_test(normal_numbers),
        cmocka_unit_test(same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
