/*
 * Numbers that carry a bound on what a backend's value differs by. One that is x + d for |d| <= e gives
 *
 *     a + b     e_a + e_b + u |a + b|            a b     |a| e_b + |b| e_a + e_a e_b + u |a b|
 *
 * and everywhere LKI_TINY, as what is smaller counts as 0.
 */
#ifndef LKI_CHECK_BALL_H
#define LKI_CHECK_BALL_H

#include <math.h>

#include "check/bounds.h"

/* A number, and how far a backend's may be from it. */
typedef struct ball {
    double v, e;
} ball;

static inline ball ball_of(double v, double e)
{
    return (ball){v, e + (double)LKI_TINY};
}

static inline ball plus(ball a, ball b)
{
    return ball_of(a.v + b.v, a.e + b.e + LKI_U * (fabs(a.v + b.v) + a.e + b.e));
}

static inline ball times(ball a, ball b)
{
    const double e = fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e;

    return ball_of(a.v * b.v, e + LKI_U * (fabs(a.v * b.v) + e));
}

static inline ball less(ball a, ball b)
{
    return plus(a, (ball){-b.v, b.e});
}

static inline ball exact(const float *x, int64_t i)
{
    return (ball){(double)x[i], 0.0};
}

/* A sum of products that is under way. */
typedef struct sum {
    double v, e, magnitude, squares;
} sum;

static inline void add_term(sum *s, ball a, ball b)
{
    const double product = a.v * b.v, e = fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e;

    s->v += product;
    s->e += e;
    s->magnitude += fabs(product) + e;
    s->squares += (fabs(product) + e) * (fabs(product) + e);
}

/* With the rounding of so many terms, as bounds_sums.c has it. */
static inline ball total(const sum *s, int64_t terms)
{
    const double rounding = lki_products_bound((double)terms, s->magnitude, s->squares);

    return ball_of(s->v, s->e + rounding + 2.0 * LKI_U * (fabs(s->v) + s->e));
}

/* The bound of what a backend stores, ref rounding once, too. */
static inline double stored(ball a)
{
    return 1.1 * a.e + 2.0 * LKI_U * fabs(a.v);
}

#endif
