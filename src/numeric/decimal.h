/* Decimal text as the double that is nearest to it, the same on every machine and in every locale. */
#ifndef LKI_NUMERIC_DECIMAL_H
#define LKI_NUMERIC_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

enum { LKI_DECIMAL_MOST = 1023 }; /* bytes of a number */

/*
 * All of text[0, bytes), such as "-12", ".5" or "3.25E+2", as strtod() of a correct C library gives it in the locale
 * "C", ties to even. False: it is no such number, is longer than LKI_DECIMAL_MOST, or too large. The calling thread
 * rounds to nearest, as behind lki_float_enter().
 */
bool lki_decimal_read(const char *text, size_t bytes, double *out);
/* The same of what [text, end) begins with, as far as it goes; returns where that ends, or NULL. */
const char *lki_decimal_scan(const char *text, const char *end, double *out);

#endif
