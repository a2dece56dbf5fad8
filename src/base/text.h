/* Text that is the same on every machine and in every locale: numbers have a point. */
#ifndef LKI_BASE_TEXT_H
#define LKI_BASE_TEXT_H

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread had before it entered the state in which text becomes numbers and numbers text: locale
 * "C", rounding to nearest. Every enter has its leave. */
typedef struct lki_text_caller {
    locale_t locale;
    int rounding; /* the C library may look at another register than vectors do */
    unsigned state;
} lki_text_caller;
lki_text_caller lki_text_enter(void);
void lki_text_leave(lki_text_caller caller);

/* vsnprintf() and snprintf() in the locale "C", rounded to nearest, whatever the calling thread has. */
int lki_text_list(char *out, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int lki_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

enum { LKI_NUMBER_SIZE = 32 };
/* As few digits as give the same float back; returns `out`. */
const char *lki_text_float(char out[LKI_NUMBER_SIZE], float number);
/* The same of a double, as JSON and YAML have it: 1 is 1.0; nan, inf and -inf as such. */
const char *lki_text_double(char out[LKI_NUMBER_SIZE], double number);
/* 60000 -> "60,000" */
const char *lki_text_count(char out[LKI_NUMBER_SIZE], int64_t count);
/* Whether a text, such as a path, has this end (".npy"), and something in front of it. */
bool lki_text_ends(const char *text, const char *end);

#endif
