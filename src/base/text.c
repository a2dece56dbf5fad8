#include "base/text.h"

#include <fenv.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float.h"

static locale_t plain;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the C library's own: nothing to free */
}

lki_text_caller lki_text_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    const lki_text_caller had = {.locale = plain != (locale_t)0 ? uselocale(plain) : (locale_t)0,
                                 .rounding = fegetround(),
                                 .state = lki_float_enter()};
    if (had.rounding != FE_TONEAREST) fesetround(FE_TONEAREST);
    return had;
}

void lki_text_leave(lki_text_caller had)
{
    if (had.rounding != FE_TONEAREST) fesetround(had.rounding);
    lki_float_leave(had.state);
    if (had.locale != (locale_t)0) uselocale(had.locale);
}

int lki_text_list(char *out, size_t size, const char *format, va_list arguments)
{
    const lki_text_caller had = lki_text_enter();
    const int length = vsnprintf(out, size, format, arguments);
    lki_text_leave(had);
    return length;
}

int lki_text(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = lki_text_list(out, size, format, arguments);
    va_end(arguments);
    return length;
}

const char *lki_text_float(char out[LKI_NUMBER_SIZE], float number)
{
    const lki_text_caller had = lki_text_enter();
    const bool is_integer = fabsf(number) < 1e7f && truncf(number) == number; /* 100, not 1e+02 */
    if (is_integer) snprintf(out, LKI_NUMBER_SIZE, "%.0f", (double)number);
    for (int digits = 1; digits <= 9 && !is_integer; digits++) {
        snprintf(out, LKI_NUMBER_SIZE, "%.*g", digits, (double)number);
        if (strtof(out, NULL) == number) break;
    }
    lki_text_leave(had);
    return out;
}

/* The fewest digits that read back as the same number. Up to 15 always come back as they were, but of
 * denormal numbers, so that 15 without their last zeros are the fewest, where they are enough. Up to 1e15 all digits in front of
 * the point count: 90 has two, so that it is not 9e+01. */
static int shortest(double number)
{
    char text[LKI_NUMBER_SIZE];
    int digits = fabs(number) < DBL_MIN ? 1 : 15;
    for (; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, number);
        if (strtod(text, NULL) == number) break;
    }
    const char *end = strchr(text, 'e');
    const int before = (int)strtol(end + 1, NULL, 10) + 1; /* in front of the point */
    if (digits == 15)
        for (; end[-1] == '0' && digits > 1; end--) digits--;
    return before > digits && before <= 15 ? before : digits;
}

const char *lki_text_double(char out[LKI_NUMBER_SIZE], double number)
{
    if (!isfinite(number)) {
        strcpy(out, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
        return out;
    }
    const lki_text_caller had = lki_text_enter();
    snprintf(out, LKI_NUMBER_SIZE, "%.*g", shortest(number), number);
    lki_text_leave(had);
    /* Readers of YAML and JSON tell 1.0 from 1, and some take 1e-6 for a text. */
    char *rest = out + strspn(out, "-0123456789");
    if (*rest != '.') {
        memmove(rest + 2, rest, strlen(rest) + 1);
        memcpy(rest, ".0", 2);
    }
    return out;
}

const char *lki_text_count(char out[LKI_NUMBER_SIZE], int64_t count)
{
    char digits[LKI_NUMBER_SIZE];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, count);
    int used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

bool lki_text_ends(const char *text, const char *end)
{
    const size_t length = strlen(text), own = strlen(end);
    return length > own && strcmp(text + length - own, end) == 0;
}
