/* The multiply-add that rounds once, against the C library's. */
#include <math.h>

#include "numeric/fma.h"
#include "support/test.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What machines without the instruction compute. */
static float by_doubles(float a, float b, float c)
{
    return (float)lki_fma_sum((double)a * (double)b, (double)c);
}

static bool same(float a, float b)
{
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 32;
}

/* Bit patterns of all kinds; and sums that nearly cancel, where rounding twice would show. */
static void rounds_once(void **unused)
{
    uint64_t state = 1;
    (void)unused;
    for (int i = 0; i < 2000000; i++) {
        const float a = float_of((uint32_t)next(&state)), b = float_of((uint32_t)next(&state));
        float c = float_of((uint32_t)next(&state));
        if (i % 2 == 1) { /* near -a * b, or far below or above it */
            const float product = a * b;
            if (isfinite(product) && product != 0)
                c = ldexpf(-product, (int)(next(&state) % 61) - 30);
        }
        assert_true(same(by_doubles(a, b, c), fmaf(a, b, c)));
        assert_true(same(lki_fma(a, b, c), fmaf(a, b, c)));
    }
}

/* A product that lies half-way between two floats: a crumb on either side decides, which a sum in
 * double that is rounded to nearest loses. */
static void half_way(void **unused)
{
    (void)unused;
    const float crumbs[] = {0x1p-149f, -0x1p-149f, 0x1p-100f, -0x1p-100f, 0x1p-60f, -0x1p-60f};
    const float a = 0x1.000002p0f, b = 0x1.8p0f; /* their product is 1.5 + 1.5 * 2^-23: half-way */
    int differs = 0;
    for (size_t i = 0; i < sizeof crumbs / sizeof crumbs[0]; i++) {
        assert_true(same(by_doubles(a, b, crumbs[i]), fmaf(a, b, crumbs[i])));
        assert_true(same(by_doubles(-a, b, crumbs[i]), fmaf(-a, b, crumbs[i])));
        differs += !same((float)((double)a * (double)b + (double)crumbs[i]), fmaf(a, b, crumbs[i]));
    }
    assert_true(differs > 0); /* the cases can tell */
}

static void denormals(void **unused)
{
    uint64_t state = 7;
    (void)unused;
    for (int i = 0; i < 500000; i++) {
        const float a = ldexpf(1 + (float)next(&state) * 0x1p-32f, -70 - (int)(next(&state) % 10));
        const float b = ldexpf(1 + (float)next(&state) * 0x1p-32f, -70 + (int)(next(&state) % 20));
        const float c = float_of((uint32_t)next(&state) & 0x80ffffffu);
        assert_true(same(by_doubles(a, b, c), fmaf(a, b, c)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_once),
        cmocka_unit_test(half_way),
        cmocka_unit_test(denormals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
