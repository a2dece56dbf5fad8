/*
 * Functions of random numbers and activations, our own because libm's differ by version and CPU.
 * In double, from exact operations (+ - * / sqrt, no contraction): the same bits with every
 * compiler that follows IEEE 754. Errors are below 2 ulp of double unless said.
 */
#ifndef LKI_NUMERIC_REAL_H
#define LKI_NUMERIC_REAL_H

#include <stdint.h>

double lki_exp(double x);         /* 0 below -745.2, infinity above 709.8; NaN for NaN */
double lki_log(double x);         /* -infinity for 0, NaN below; infinity for infinity */
double lki_cos_2pi(double turns); /* cos(2 pi turns), turns in [0, 1) */
double lki_sin_2pi(double turns);
double lki_erf(double x);  /* odd, 1 from 6 on; NaN for NaN */
double lki_tanh(double x); /* odd, 1 from 22 on; NaN for NaN */
/* base^n, and 1 - base^n for a base of at most 1; base and n are not negative. Below 1 ulp for n up
 * to 10^9, for results of usual size (2^-900 to 2^900). */
double lki_power(double base, int64_t n);
double lki_power_rest(double base, int64_t n);
/* base^exponent for a base of 0 to 1 and an exponent above 0. */
double lki_real_power(double base, double exponent);

#endif
