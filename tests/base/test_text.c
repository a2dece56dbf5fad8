/* Numbers in text: short, exact, and the same in any locale and rounding mode. */
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "support/locale.h"
#include "support/test.h"

static void short_and_exact(void **state)
{
    (void)state;
    char text[LKI_NUMBER_SIZE];
    assert_string_equal(lki_text_float(text, 0.1f), "0.1");
    assert_string_equal(lki_text_float(text, -0.0f), "-0");
    assert_string_equal(lki_text_float(text, 1.0f / 3), "0.33333334");
    assert_string_equal(lki_text_float(text, 0x1.fffffep127f), "3.4028235e+38");
    assert_string_equal(lki_text_float(text, 100.0f), "100");
    assert_string_equal(lki_text_float(text, -9999999.0f), "-9999999");
    assert_string_equal(lki_text_float(text, 1e7f), "1e+07");
    assert_string_equal(lki_text_double(text, 90), "90.0");
    assert_string_equal(lki_text_double(text, -123400), "-123400.0");
    assert_string_equal(lki_text_double(text, 120.5), "120.5");
    assert_string_equal(lki_text_double(text, 1e14), "100000000000000.0");
    assert_string_equal(lki_text_double(text, 1e15), "1.0e+15");
    assert_string_equal(lki_text_double(text, 0), "0.0");
    assert_string_equal(lki_text_double(text, 0.1 + 0.2), "0.30000000000000004");
    lkt_random random = lkt_random_make("text", 1);
    for (int i = 0; i < 20000; i++) {
        const uint32_t bits = (uint32_t)lkt_random_bits(&random);
        float number;
        memcpy(&number, &bits, sizeof number);
        if (isfinite(number)) assert_true(strtof(lki_text_float(text, number), NULL) == number);
    }
}

static void check_point(void)
{
    char text[LKI_NUMBER_SIZE];
    lki_text(text, sizeof text, "%g %.2f", 0.25, -1.5);
    assert_string_equal(text, "0.25 -1.50");
    assert_string_equal(lki_text_float(text, 1e-3f), "0.001");
    assert_string_equal(lki_text_float(text, 0.75f), "0.75");
    assert_int_equal(LKI_FAIL(LKS_E_INVALID, "it is %g", 0.125), LKS_E_INVALID);
    assert_string_equal(lks_last_error()->message, "it is 0.125");
}

static void in_any_locale(void **state)
{
    (void)state;
    if (!lkt_comma_locale(lkt_make_folder())) {
        lkt_remove_folder();
        skip();
    }
    char text[16];
    check_point();
    snprintf(text, sizeof text, "%g", 0.5); /* the caller's is as it was */
    assert_string_equal(text, "0,5");
    setlocale(LC_ALL, "C");
    lkt_remove_folder();
}

static void in_any_rounding_mode(void **state)
{
    (void)state;
    const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char text[LKI_NUMBER_SIZE];
        assert_int_equal(fesetround(modes[i]), 0);
        const char *third = lki_text_float(text, 0x1.555556p-2f);
        const int after = fegetround();
        fesetround(FE_TONEAREST);
        assert_int_equal(after, modes[i]);
        assert_string_equal(third, "0.33333334");
    }
}

static void ends_have_something_in_front(void **state)
{
    (void)state;
    assert_true(lki_text_ends("table.csv", ".csv"));
    assert_true(lki_text_ends("a.csv.csv", ".csv"));
    assert_false(lki_text_ends(".csv", ".csv"));
    assert_false(lki_text_ends("csv", ".csv"));
    assert_false(lki_text_ends("", ".csv"));
    assert_false(lki_text_ends("table.csv.gz", ".csv"));
    assert_false(lki_text_ends("table.CSV", ".csv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_and_exact),
        cmocka_unit_test(in_any_locale),
        cmocka_unit_test(in_any_rounding_mode),
        cmocka_unit_test(ends_have_something_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
