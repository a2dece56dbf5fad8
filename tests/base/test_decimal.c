/* Decimal text beside the C library's strtod(), to the bit: random, halfway between doubles, at the ends of every way. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numeric/decimal.h"
#include "support/locale.h"
#include "support/test.h"

static void check(const char *text)
{
    double found = -1, expected = strtod(text, NULL);
    if (lki_decimal_read(text, strlen(text), &found) != isfinite(expected))
        fail_msg("'%s' is%s read", text, isfinite(expected) ? " not" : "");
    if (!isfinite(expected)) return;
    if (memcmp(&found, &expected, sizeof found) != 0)
        fail_msg("'%s' is %a, expected %a", text, found, expected);
}

static void as_the_c_library(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "+0.0",
        "0e99",
        "1",
        "-1",
        "+1",
        "007",
        ".5",
        "5.",
        "-.25e1",
        "1e0",
        "1E+2",
        "1e-2",
        "9007199254740993",
        "9007199254740992.5",
        "9007199254740993.0000000000000000000000000000001",
        "18446744073709551615",
        "18446744073709551616",
        "9999999999999999999",
        "99999999999999999999",
        "1e27",
        "1e28",
        "1e-27",
        "1e-28",
        "9999999999999999999e27",
        "9999999999999999999e-27",
        "1e308",
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "5e-324",
        "2e-324",
        "1e-400",
        "0.1",
        "0.2",
        "0.3",
        "123456789012345678901234567890",
        "0.000000000000000000000000000000000000000000001",
        "1000000000000000000000000000000000000000000000",
        "8.41e21",
        "00000000000000000000000000000001.5",
        "0.00000000012345678901234567",
        "0.000000000000000000000000000001",
        "2.5e-8",
        "4503599627370496.5",
        "4503599627370497.5",
        "0e-99999999999999999999",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check(texts[i]);
}

static void at_random(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("decimal", 1);
    char text[128];
    for (int i = 0; i < 300000; i++) {
        const uint64_t bits = lkt_random_bits(&random);
        double number;
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number)) continue;
        snprintf(text, sizeof text, "%.*g", (int)lkt_random_from(&random, 1, 25), number);
        check(text);
        /* As in tables: few digits, exponents near 0. */
        snprintf(text, sizeof text, "%.*f", (int)lkt_random_from(&random, 0, 20),
                 ldexp((double)(int64_t)bits, -(int)lkt_random_from(&random, 30, 90)));
        check(text);
        snprintf(text, sizeof text, "%llue%d", (unsigned long long)bits,
                 (int)lkt_random_from(&random, -30, 30));
        check(text);
    }
}

/* Just between two doubles, and a little beside: the digits of an odd number of 54 bits times a power of 2. */
static void halfway(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("halfway", 2);
    char text[128];
    for (int i = 0; i < 100000; i++) {
        const uint64_t odd = lkt_random_bits(&random) >> 10 | UINT64_C(1) << 53 | 1;
        const int down = (int)lkt_random_from(&random, 0, 5); /* 16 to 19 digits or so, all exact */
        snprintf(text, sizeof text, "%llu.%05llu", (unsigned long long)(odd >> down),
                 (unsigned long long)((odd & ((1u << down) - 1)) * (100000u >> down)));
        check(text);
        text[strlen(text) - 1]++;
        check(text);
        snprintf(text, sizeof text, "%llu", (unsigned long long)odd);
        check(text);
        snprintf(text, sizeof text, "%llu00000e-5", (unsigned long long)odd);
        check(text);
        snprintf(text, sizeof text, "%llu.000000000000000000000000000000000000000000001",
                 (unsigned long long)odd);
        check(text);
    }
}

static void what_is_no_number(void **state)
{
    (void)state;
    static const char *const texts[] = {"",      "-",     "+",    ".",     "e5",    "1e", "1e+",
                                        "1.2.3", "1,5",   "0x10", "inf",   "nan",   "1 ", " 1",
                                        "--1",   "1e5.5", "1a",   "1e999", "-1e400"};
    char longest[LKI_DECIMAL_MOST + 2];
    double number;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (lki_decimal_read(texts[i], strlen(texts[i]), &number))
            fail_msg("'%s' is read", texts[i]);
    memset(longest, '9', sizeof longest);
    longest[1] = '.';
    assert_false(lki_decimal_read(longest, LKI_DECIMAL_MOST + 1, &number));
    assert_true(lki_decimal_read(longest, LKI_DECIMAL_MOST, &number));
    assert_true(number == 10);
    assert_true(lki_decimal_read("12345", 3, &number) && number == 123);
}

static void scanned_as_far_as_it_goes(void **state)
{
    (void)state;
    static const struct scanned {
        const char *text;
        double number;
        int bytes; /* -1: none */
    } cases[] = {{"1.5,2", 1.5, 3}, {"-7e2x", -700, 4}, {"3.", 3, 2},
                 {"4.5.6", 4.5, 3}, {"1e,", 0, -1},     {"-,", 0, -1},
                 {",1", 0, -1},     {"1e400,", 0, -1},  {"12\r", 12, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        double number = 0;
        const char *stop = lki_decimal_scan(text, text + strlen(text), &number);
        assert_int_equal(stop != NULL ? stop - text : -1, cases[i].bytes);
        if (stop != NULL) assert_true(number == cases[i].number);
    }
}

static int put_digits(char *out, lkt_random *random, int count)
{
    for (int i = 0; i < count; i++) out[i] = (char)('0' + lkt_random_from(random, 0, 9));
    return count;
}

/* Numbers of all lengths with more text behind them, as in tables; and at the end of what can be read, cut at every place. */
static void before_more_text(void **state)
{
    (void)state;
    static const char *const behind[] = {",12345678",     ";1.5,-2.25",  "\n12,3456,7890",
                                         "\r\n-1,-2,-3,", "x.5e7,1,2,3", "/:0000000",
                                         "-1234567,8"};
    lkt_random random = lkt_random_make("more text", 3);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    for (int i = 0; i < 100000; i++) {
        const int before = (int)lkt_random_from(&random, 0, 10),
                  after = (int)lkt_random_from(&random, before == 0, 10);
        const bool point = before == 0 || lkt_random_from(&random, 0, 1) == 1;
        const char *const sign[] = {"", "", "-", "+"}, *const power[] = {"", "", "e3", "E-2"};
        char text[64];
        int n = snprintf(text, sizeof text, "%s", sign[lkt_random_from(&random, 0, 3)]);
        n += put_digits(text + n, &random, before);
        if (point) text[n++] = '.';
        if (point) n += put_digits(text + n, &random, after);
        n += snprintf(text + n, sizeof text - (size_t)n, "%s",
                      power[lkt_random_from(&random, 0, 3)]);
        const double expected = strtod(text, NULL);
        const int64_t more = lkt_random_below(&random, sizeof behind / sizeof *behind);
        snprintf(text + n, sizeof text - (size_t)n, "%s", behind[more]);
        for (size_t bytes = (size_t)n; bytes <= strlen(text); bytes++) {
            char *at = memcpy(pages + page - bytes, text, bytes);
            double found = -1;
            const char *stop = lki_decimal_scan(at, at + bytes, &found);
            if (stop != at + n || memcmp(&found, &expected, sizeof found) != 0)
                fail_msg("'%.*s' is %a, expected %a", (int)bytes, at, found, expected);
        }
    }
    munmap(pages, 2 * page);
}

static void in_any_locale(void **state)
{
    (void)state;
    double quickly, slowly;
    if (!lkt_comma_locale(lkt_make_folder())) {
        lkt_remove_folder();
        skip();
    }
    assert_true(lki_decimal_read("0.5", 3, &quickly) && quickly == 0.5);
    assert_true(lki_decimal_read("0.5e-30", 7, &slowly));
    setlocale(LC_ALL, "C");
    lkt_remove_folder();
    assert_true(slowly == 0.5e-30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_c_library),
        cmocka_unit_test(at_random),
        cmocka_unit_test(halfway),
        cmocka_unit_test(what_is_no_number),
        cmocka_unit_test(scanned_as_far_as_it_goes),
        cmocka_unit_test(before_more_text),
        cmocka_unit_test(in_any_locale),
    };
    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
