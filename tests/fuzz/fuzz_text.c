/*
 * Numbers as text and text as numbers; text for people. Input: a byte that says which, a byte for the
 * state of the calling thread (rounding, and whether numbers have a comma), and
 *   0  a double, 1  a float: the fewest digits that give it back, a float whatever the caller's state
 *   2  a text: what is an integer, a number, as the C library has it in its locale "C"
 *   3  a text: its clean copy, cut to a length, and in lines
 */
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "base/text.h"
#include "cli/out/text.h"
#include "recipe/text/emit.h"
#include "fuzz/fuzz.h"
#include "support/locale.h"

static locale_t comma, plain;

static void remove_locale(void)
{
    char command[100];
    const char *folder = getenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf '%.60s'", folder != NULL ? folder : "");
    if (folder != NULL && strncmp(folder, "/tmp/fuzz-text-", 15) == 0) (void)!system(command);
}

static void make_locales(void)
{
    static char folder[] = "/tmp/fuzz-text-XXXXXX";
    if (plain != (locale_t)0) return;
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    FUZZ_CHECK(plain != (locale_t)0 && mkdtemp(folder) != NULL);
    atexit(remove_locale);
    FUZZ_CHECK(setenv("LOCPATH", folder, 1) == 0);
    if (lkt_comma_locale(folder)) comma = duplocale(LC_GLOBAL_LOCALE);
    setlocale(LC_ALL, "C");
}

/* What a caller may have. */
static int enter(uint8_t state)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const int mode = modes[state % 4];
    if (state % 8 >= 4 && comma != (locale_t)0) uselocale(comma);
    FUZZ_CHECK(fesetround(mode) == 0);
    return mode;
}

/* It still has it. */
static void leave(uint8_t state, int mode)
{
    char half[16];
    FUZZ_CHECK(fegetround() == mode);
    fesetround(FE_TONEAREST);
    snprintf(half, sizeof half, "%g", 0.5);
    FUZZ_CHECK(strcmp(half, state % 8 >= 4 && comma != (locale_t)0 ? "0,5" : "0.5") == 0);
    uselocale(plain);
}

static bool same(double a, double b)
{
    return a == b && signbit(a) == signbit(b);
}

/* The fewest digits that give the number back. */
static void write_shortest(char text[LKI_NUMBER_SIZE], double number, bool is_float)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, LKI_NUMBER_SIZE, "%.*g", digits, number);
        if (same(is_float ? (double)strtof(text, NULL) : strtod(text, NULL), number)) return;
    }
}

static void check_real(uint8_t state, double number, float single, bool is_float)
{
    char text[LKI_NUMBER_SIZE], fewest[LKI_NUMBER_SIZE], format[2][100], own[TEXT_NUMBER_SIZE];
    const double x = is_float ? (double)single : number;
    double back;
    int64_t whole;
    const int mode = enter(state);
    FUZZ_CHECK(lki_text_float(text, single) == text);
    const int length = lki_text(format[0], sizeof format[0], "%.*g|%+.3e|%.2f", 4, x, x,
                                fabs(x) < 1e30 ? x : 0.0);
    leave(state, mode);
    write_shortest(fewest, (double)single, true);
    FUZZ_CHECK(isnan(single) ? isnan(strtof(text, NULL)) : strcmp(text, fewest) == 0);
    FUZZ_CHECK(snprintf(format[1], sizeof format[1], "%.*g|%+.3e|%.2f", 4, x, x,
                        fabs(x) < 1e30 ? x : 0.0) == length);
    FUZZ_CHECK(strcmp(format[0], format[1]) == 0);
    /* The program's own: YAML and JSON see that it is no integer. */
    FUZZ_CHECK(lks_text_number(own, x) == own && strlen(own) < TEXT_NUMBER_SIZE);
    if (isfinite(x)) {
        FUZZ_CHECK(lki_text_is_float(own, &back) && same(back, x) && !lki_text_is_int(own, &whole));
        write_shortest(fewest, x, false);
        const bool has_point = fewest[strspn(fewest, "-0123456789")] == '.';
        FUZZ_CHECK(strlen(own) == strlen(fewest) + (has_point ? 0 : 2));
    } else
        FUZZ_CHECK(strcmp(own, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf") == 0);
}

/* "-12": the digits of a number, without overflow. */
static bool is_integer(const char *text, int64_t *out)
{
    const bool minus = *text == '-';
    const char *c = text + (minus || *text == '+');
    bool fits = *c != '\0';
    *out = 0;
    for (; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') return false;
        fits = fits && !__builtin_mul_overflow(*out, 10, out) &&
               !__builtin_add_overflow(*out, minus ? '0' - *c : *c - '0', out);
    }
    return fits;
}

static const char *skip_digits(const char *c, int *count)
{
    for (*count = 0; *c >= '0' && *c <= '9'; c++) ++*count;
    return c;
}

/* "-1.5e3" */
static bool is_decimal(const char *c)
{
    int before, behind = 0, power = 1;
    c = skip_digits(c + (*c == '-' || *c == '+'), &before);
    if (*c == '.') c = skip_digits(c + 1, &behind);
    if (before + behind == 0) return false;
    if (*c == 'e' || *c == 'E') {
        c++;
        c = skip_digits(c + (*c == '-' || *c == '+'), &power);
    }
    return *c == '\0' && power > 0;
}

static void check_text_as_number(const char *text)
{
    int64_t whole = 0, expected;
    double real = 0;
    const bool is_int = is_integer(text, &expected);
    FUZZ_CHECK(lki_text_is_int(text, &whole) == is_int && (!is_int || whole == expected));
    const bool is_float = is_decimal(text) && isfinite(strtod(text, NULL));
    FUZZ_CHECK(lki_text_is_float(text, &real) == is_float);
    FUZZ_CHECK(!is_float || same(real, strtod(text, NULL)));
    FUZZ_CHECK(!is_int || is_float || strlen(text) > 18);
    lki_heap pool = {0};
    lki_emit emit = {0};
    lks_status status = LKS_OK;
    lki_emit_tree(&emit, lki_yaml_scalar(&pool, text, true));
    char *printed = lki_emit_take(&emit, "a scalar", &status);
    FUZZ_CHECK(printed != NULL);
    FUZZ_CHECK(!is_int || (is_integer(printed, &expected) && expected == whole));
    FUZZ_CHECK(!is_float || is_int || same(strtod(printed, NULL), real));
    free(printed);
    lki_heap_clear(&pool);
}

static bool is_utf8(const char *text, size_t bytes)
{
    json_t *json = json_stringn(text, bytes);
    const bool good = json != NULL;
    json_decref(json);
    return good;
}

/* Lines have the words of the text in their order, and are as wide as they may be. */
static void check_lines(const char *text, int used, int width)
{
    enum { INDENT = 3 };
    char *lines = NULL;
    size_t bytes;
    FILE *out = open_memstream(&lines, &bytes);
    FUZZ_CHECK(out != NULL);
    text_print_wrapped(out, text, used, INDENT, width);
    FUZZ_CHECK(fclose(out) == 0 && bytes > 0 && lines[bytes - 1] == '\n');
    const char *word = text;
    for (char *line = lines; *line != '\0';) {
        char *end = strchr(line, '\n');
        *end = '\0';
        const int begin = line == lines ? used : 0;
        const bool wide = width > 0 && begin + text_length(line) > width;
        int words = 0;
        for (char *at = line + strspn(line, " "); *at != '\0'; words++) {
            const size_t length = strcspn(at, " ");
            word += strspn(word, " ");
            FUZZ_CHECK(strncmp(word, at, length) == 0 && strchr(" ", word[length]) != NULL);
            word += length;
            at += length + strspn(at + length, " ");
        }
        FUZZ_CHECK(!wide || words <= 1);
        line = end + 1;
    }
    FUZZ_CHECK(word[strspn(word, " ")] == '\0');
    free(lines);
}

static void check_clean(uint8_t state, const char *text)
{
    cli_pool pool = {0};
    const size_t bytes = strlen(text);
    const char *clean = text_clean(&pool, text);
    FUZZ_CHECK(strlen(clean) == bytes && is_utf8(clean, bytes));
    FUZZ_CHECK(strcmp(text_clean(&pool, clean), clean) == 0);
    for (size_t i = 0; i < bytes; i++) {
        FUZZ_CHECK(clean[i] == text[i] || clean[i] == '?');
        FUZZ_CHECK((unsigned char)clean[i] >= ' ' && clean[i] != 0x7f);
    }
    const int cut = text_bytes(clean, state), length = text_length(clean);
    FUZZ_CHECK(is_utf8(clean, (size_t)cut) && length <= (int)bytes);
    const char *part = pool_copy(&pool, clean, (size_t)cut);
    FUZZ_CHECK(text_length(part) == (length < state ? length : state));
    check_lines(clean, state % 16, state);
    pool_clear(&pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    double number = 0;
    float single = 0;
    if (bytes < 2) return 0;
    make_locales();
    const uint8_t *rest = data + 2;
    char *text = calloc(bytes, 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, rest, bytes - 2);
    if (data[0] % 4 == 0) {
        memcpy(&number, rest, bytes - 2 < sizeof number ? bytes - 2 : sizeof number);
        check_real(data[1], number, 0, false);
    } else if (data[0] % 4 == 1) {
        memcpy(&single, rest, bytes - 2 < sizeof single ? bytes - 2 : sizeof single);
        check_real(data[1], 0, single, true);
    } else if (data[0] % 4 == 2) {
        check_text_as_number(text);
    } else {
        check_clean(data[1], text);
    }
    free(text);
    return 0;
}
