/* exp, log, sin, cos, erf, tanh, powers against the C library's in long double, which has at least 11 bits more. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "numeric/real.h"

/* The error in units of the last place of the double nearest to `exact` (of a denormal: the
 * smallest). */
static double ulps(double found, long double exact)
{
    int exponent;
    frexpl(exact, &exponent);
    if (exponent < -1021) exponent = -1021;
    return (double)(fabsl((long double)found - exact) / ldexpl(1, exponent - 53));
}

typedef struct worst {
    double error, at;
} worst;

static void note(worst *most, double error, double at)
{
    if (error > most->error || error != error) *most = (worst){error, at};
}

static void check(const char *name, worst most)
{
    print_message("%s: at most %.3f ulp, at %a\n", name, most.error, most.at);
    if (!(most.error < 2)) fail_msg("%s(%a) is %g ulp off", name, most.at, most.error);
}

static void exponentials(void **state)
{
    (void)state;
    worst most = {0}, denormal = {0};
    lkt_random random = lkt_random_make("exponentials", 1);
    for (int i = 0; i < 1000000; i++) {
        const double range = i % 3 == 0 ? 708 : i % 3 == 1 ? 1 : 30;
        const double x = lkt_random_real(&random, -range, range);
        note(&most, ulps(lki_exp(x), expl(x)), x);
    }
    for (int i = 0; i < 100000; i++) {
        const double x = lkt_random_real(&random, -745.2, -708);
        note(&denormal, ulps(lki_exp(x), expl(x)), x);
        const double y = lkt_random_real(&random, 708, 709.78);
        note(&most, ulps(lki_exp(y), expl(y)), y);
    }
    check("exp", most);
    check("exp, small results", denormal);

    assert_true(lki_exp(0) == 1);
    assert_true(lki_exp(-0.0) == 1);
    assert_true(lki_exp(DBL_TRUE_MIN) == 1);
    assert_true(lki_exp((double)INFINITY) == (double)INFINITY);
    assert_true(lki_exp(-(double)INFINITY) == 0);
    assert_true(isnan(lki_exp((double)NAN)));
    assert_true(lki_exp(710) == (double)INFINITY);
    assert_true(lki_exp(709.79) == (double)INFINITY);
    assert_true(lki_exp(709.78) < (double)INFINITY);
    assert_true(lki_exp(1e300) == (double)INFINITY);
    assert_true(lki_exp(-746) == 0);
    assert_true(lki_exp(-1e300) == 0);
    assert_true(lki_exp(-745.13) == DBL_TRUE_MIN);
    assert_true(lki_exp(-745.19) == 0);
}

static double any_positive(lkt_random *random)
{
    const uint64_t bits = lkt_random_bits(random) % UINT64_C(0x7ff0000000000000);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void logarithms(void **state)
{
    (void)state;
    worst most = {0};
    lkt_random random = lkt_random_make("logarithms", 2);
    for (int i = 0; i < 1000000; i++) {
        const double x = i % 4 == 0   ? any_positive(&random)
                         : i % 4 == 1 ? lkt_random_real(&random, 0.5, 2)
                         : i % 4 == 2 ? 1 + ldexp(lkt_random_real(&random, -1, 1),
                                                  -(int)lkt_random_from(&random, 1, 50))
                                      : lkt_random_real(&random, 0, 1);
        if (x > 0) note(&most, ulps(lki_log(x), logl(x)), x);
    }
    for (int k = -1074; k <= 1023; k++) { /* around every power of two, and of sqrt(2) */
        const double x = ldexp(1, k), y = ldexp(0.70710678118654752, k < -1070 ? -1070 : k);
        const double near[] = {x, nextafter(x, 0), nextafter(x, DBL_MAX),
                               y, nextafter(y, 0), nextafter(y, DBL_MAX)};
        for (int i = 0; i < 6; i++) {
            if (near[i] > 0) note(&most, ulps(lki_log(near[i]), logl(near[i])), near[i]);
        }
    }
    check("log", most);

    assert_true(lki_log(1) == 0);
    assert_true(lki_log(0) == -(double)INFINITY);
    assert_true(lki_log(-0.0) == -(double)INFINITY);
    assert_true(isnan(lki_log(-1)));
    assert_true(isnan(lki_log(-DBL_TRUE_MIN)));
    assert_true(isnan(lki_log(-(double)INFINITY)));
    assert_true(isnan(lki_log((double)NAN)));
    assert_true(lki_log((double)INFINITY) == (double)INFINITY);
}

/* sinl and cosl of 2 pi t, with t reduced to an eighth of a turn first, which is exact. */
static long double exact_cos(double turns, int quarters)
{
    const long double tau = 6.283185307179586476925286766559005768L;
    const int nearest = (int)floor(turns * 4 + 0.5);
    const long double angle = tau * ((long double)turns - 0.25L * nearest);
    switch ((nearest + quarters) & 3) {
    case 0:
        return cosl(angle);
    case 1:
        return -sinl(angle);
    case 2:
        return -cosl(angle);
    default:
        return sinl(angle);
    }
}

static void circles(void **state)
{
    (void)state;
    worst cosine = {0}, sine = {0};
    lkt_random random = lkt_random_make("circles", 3);
    for (int i = 0; i < 1000000; i++) {
        double turns = lkt_random_real(&random, 0, 1);
        if (i % 4 == 1) turns = (double)(lkt_random_bits(&random) >> 32) * 0x1p-32;
        if (i % 4 == 2) { /* close to a quarter */
            turns = 0.25 * (double)lkt_random_below(&random, 4) +
                    ldexp(turns, -(int)lkt_random_from(&random, 2, 60));
        }
        if (turns >= 1) continue;
        const double c = lki_cos_2pi(turns), s = lki_sin_2pi(turns);
        note(&cosine, ulps(c, exact_cos(turns, 0)), turns);
        note(&sine, ulps(s, exact_cos(turns, 3)), turns);
    }
    check("cos_2pi", cosine);
    check("sin_2pi", sine);

    static const double quarter[][3] = {{0, 1, 0}, {0.25, 0, 1}, {0.5, -1, 0}, {0.75, 0, -1}};
    for (int i = 0; i < 4; i++) {
        assert_true(lki_cos_2pi(quarter[i][0]) == quarter[i][1]);
        assert_true(lki_sin_2pi(quarter[i][0]) == quarter[i][2]);
    }
    assert_true(lki_cos_2pi(nextafter(1, 0)) == 1);
    assert_true(ulps(lki_sin_2pi(DBL_MIN), 6.283185307179586476925L * (long double)DBL_MIN) < 2);
}

/* Values of any size, many of them where the formula changes. */
static double around(lkt_random *random, int i, double border)
{
    if (i % 4 == 0) return lkt_random_real(random, -7, 7);
    if (i % 4 == 1)
        return ldexp(lkt_random_real(random, -1, 1), -(int)lkt_random_below(random, 70));
    if (i % 4 == 2) return lkt_random_real(random, -1, 1);
    return border + ldexp(lkt_random_real(random, -1, 1), -(int)lkt_random_below(random, 50));
}

static void error_function(void **state)
{
    (void)state;
    worst most = {0};
    lkt_random random = lkt_random_make("error_function", 4);
    for (int i = 0; i < 1000000; i++) {
        const double x = around(&random, i, 0.25 * (double)lkt_random_below(&random, 25));
        note(&most, ulps(lki_erf(x), erfl(x)), x);
        assert_true(lki_erf(-x) == -lki_erf(x));
        assert_true(fabs(lki_erf(x)) <= 1);
    }
    check("erf", most);

    assert_true(lki_erf(0) == 0);
    assert_true(signbit(lki_erf(-0.0)));
    assert_true(lki_erf(6) == 1);
    assert_true(lki_erf(-1e300) == -1);
    assert_true(lki_erf((double)INFINITY) == 1);
    assert_true(isnan(lki_erf((double)NAN)));
}

static void hyperbolic_tangent(void **state)
{
    (void)state;
    worst most = {0};
    lkt_random random = lkt_random_make("hyperbolic_tangent", 5);
    for (int i = 0; i < 1000000; i++) {
        double x = around(&random, i, 0.55);
        if (i % 8 == 0) x *= 3;
        note(&most, ulps(lki_tanh(x), tanhl(x)), x);
        assert_true(lki_tanh(-x) == -lki_tanh(x));
        assert_true(fabs(lki_tanh(x)) <= 1);
    }
    check("tanh", most);

    assert_true(lki_tanh(0) == 0);
    assert_true(signbit(lki_tanh(-0.0)));
    assert_true(lki_tanh(22) == 1);
    assert_true(lki_tanh(-1e300) == -1);
    assert_true(lki_tanh((double)INFINITY) == 1);
    assert_true(isnan(lki_tanh((double)NAN)));
}

/* base^n near 0 and near 1, where 1 - base^n is small; small and large n. */
static void powers(void **state)
{
    (void)state;
    worst most = {0}, rest = {0}, real = {0};
    lkt_random random = lkt_random_make("powers", 8);
    for (int i = 0; i < 200000; i++) {
        const int64_t n = (int64_t)exp2(lkt_random_real(&random, 0, 30));
        const double forgets = exp2(lkt_random_real(&random, -35, i % 2 == 0 ? -1 : -10));
        const double base = 1 - forgets, large = 1 + forgets / 8;
        const long double exact = powl(base, n), above = powl(large, n);
        if (exact > 0x1p-900L) note(&most, ulps(lki_power(base, n), exact), base);
        if (above < 0x1p900L) note(&most, ulps(lki_power(large, n), above), large);
        note(&rest,
             ulps(lki_power_rest(base, n), -expm1l((long double)n * log1pl((long double)base - 1))),
             base);
        const double exponent = lkt_random_real(&random, 0, 8);
        const double part = i % 2 == 0 ? lkt_random_real(&random, 0, 1) : forgets;
        note(&real, ulps(lki_real_power(part, exponent), powl(part, exponent)), part);
    }
    check("base^n", most);
    check("1 - base^n", rest);
    print_message("base^exponent: at most %.3f ulp, at %a\n", real.error, real.at);
    assert_true(most.error < 1 && rest.error < 1 && real.error < 4);

    assert_true(lki_power(0.5, 0) == 1 && lki_power(0, 0) == 1 && lki_power(0, 5) == 0);
    assert_true(lki_power(0.9, INT64_MAX) == 0 && lki_power(1, INT64_MAX) == 1);
    assert_true(lki_power(2, INT64_MAX) == (double)INFINITY && lki_power(3, 1) == 3);
    assert_true(lki_power_rest(0.9, 1) == 1 - 0.9 && lki_power_rest(0, 1) == 1);
    assert_true(lki_power_rest(0.9, INT64_MAX) == 1 && lki_power_rest(0.75, 2) == 0.4375);
    assert_true(lki_real_power(0, 0.5) == 0 && lki_real_power(1, 0.3) == 1);
    assert_true(lki_real_power(0.25, 0.5) == 0.5 && lki_real_power(0.5, 1e300) == 0);
    assert_true(lki_real_power(0.5, 3) == 0.125 && lki_real_power(1, 1e300) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials),
        cmocka_unit_test(logarithms),
        cmocka_unit_test(circles),
        cmocka_unit_test(error_function),
        cmocka_unit_test(hyperbolic_tangent),
        cmocka_unit_test(powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
