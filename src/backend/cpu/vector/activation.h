/*
 * Activations and their derivatives, of a vector, nearly as exact as rounding once: intermediate results are
 * sums of two floats where that matters. Errors are in units of u = 2^-24 of the result, for any x, as
 * derived beside each function. What is stored is flushed, and so is a derivative before it is multiplied;
 * e^x below e^-43.66 (2^-63) counts as 0, so that nothing in between is denormal. A NaN stays one.
 * tools/fit_activations prints the fitted coefficients.
 */
#ifndef LKI_CPU_VECTOR_ACTIVATION_H
#define LKI_CPU_VECTOR_ACTIVATION_H

#include "backend/cpu/vector/local.h"

/* A value as high + low, of which low is at most u of high. */
typedef struct pair {
    vf high, low;
} pair;

/* a + b, exactly, where |a| >= |b|. */
INLINE pair exact_sum(vf a, vf b)
{
    const vf sum = a + b;
    return (pair){sum, b - (sum - a)};
}

/* `size`, which is not negative, with the sign of x. */
INLINE vf vf_signed(vf size, vf x)
{
    return (vf)((vi)size | ((vi)x & vi_set(INT32_MIN)));
}

/* -|x| */
INLINE vf vf_negative(vf x)
{
    return (vf)((vi)x | vi_set(INT32_MIN));
}

/*
 * e^a for a <= 0 is 2^k e^r: a = k ln 2 + r with |r| <= 0.347 (k times the high part of ln 2 is exact),
 * e^r = 1 + r + r^2 q(r), q fitted.
 */
typedef struct reduced {
    vf r, r_low; /* r_low: what r's rounding leaves out, 0.26u of e^r */
    vf power;    /* 2^k, or 0 where e^a counts as 0 */
} reduced;

INLINE reduced reduce(vf a)
{
    const vf shift = vf_set(0x1.8p23f); /* adding it rounds to an integer, in the lowest bits */
    const vf least = vf_set(-43.66f), original = a;
    a = vf_most(a, least);
    const vf shifted = vf_fma(a, vf_set(0x1.715476p+0f), shift);
    const vf k = shifted - shift, ln2_low = vf_set(-0x1.7f7d1cp-20f);
    const vf whole = vf_fma(k, vf_set(-0x1.62e4p-1f), a), r = vf_fma(k, ln2_low, whole);
    const vi power = (vi)(((vu)shifted << 23) + (vu)vi_set(0x3f800000));
    return (reduced){r, vf_fma(k, ln2_low, whole - r), (vf)vi_unless_below(power, original, least)};
}

/* q(r) */
INLINE vf exp_rest(vf r)
{
    vf q = vf_set(0x1.9dfbbep-13f);
    q = vf_fma(q, r, vf_set(0x1.6d4cbep-10f));
    q = vf_fma(q, r, vf_set(0x1.11130ep-7f));
    q = vf_fma(q, r, vf_set(0x1.5554e8p-5f));
    q = vf_fma(q, r, vf_set(0x1.555554p-3f));
    return vf_fma(q, r, vf_set(0.5f));
}

/* 1.9u: r^2 q errs by 0.22u, its sum with r rounds by 0.25u, and the last sum by u of at least 1, or by
 * u/2 of at least 0.7. */
INLINE vf exp_negative(vf a)
{
    const reduced x = reduce(a);
    return (vf_set(1.0f) + vf_fma(x.r * x.r, exp_rest(x.r), x.r)) * x.power;
}

/* 0.15u. The sum 1 + r is exact as a pair; r^2 q, at most 0.066, errs by 2u of itself, and the second part,
 * at most 0.1, rounds by as much. */
INLINE pair exp_pair(vf a)
{
    const reduced x = reduce(a);
    const pair first = exact_sum(vf_set(1.0f), x.r);
    const vf second = vf_fma(x.r * x.r, exp_rest(x.r), first.low + x.r_low);
    const pair value = exact_sum(first.high, second);
    return (pair){value.high * x.power, value.low * x.power};
}

/* n / d: the quotient of the first parts, and what is missing. */
INLINE pair quotient(pair n, pair d)
{
    const vf inverse = vf_set(1.0f) / d.high, q = n.high * inverse;
    const vf rest = vf_fma(-q, d.high, n.high) + vf_fma(-q, d.low, n.low);
    return (pair){q, rest * inverse};
}

/* 1 + z for z of -1 to 1. */
INLINE pair one_plus(pair z)
{
    const pair sum = exact_sum(vf_set(1.0f), z.high);
    return (pair){sum.high, sum.low + z.low};
}

/*
 * s = 1 / (1 + e^-a), and 1 - s, which has no cancellation, from z = e^-|a|: the quotients are exact but for
 * 0.2u, and z's error counts 1 - s times in s. (In 1 - s it counts s times.)
 */
typedef struct halves {
    pair value, rest;
} halves;

INLINE halves logistic(vf a, vf z)
{
    const vm positive = vm_gt(a, vf_zero());
    const vf one = vf_set(1.0f);
    const pair sum = exact_sum(one, z);
    const vf inverse = one / sum.high, n = vf_blend(positive, one, z),
             m = vf_blend(positive, z, one);
    const vf q = n * inverse, p = m * inverse;
    const vf q_rest = vf_fma(-q, sum.low, vf_fma(-q, sum.high, n));
    const vf p_rest = vf_fma(-p, sum.low, vf_fma(-p, sum.high, m));
    return (halves){{q, q_rest * inverse}, {p, p_rest * inverse}};
}

/* Beyond 100 the functions are x or end, and derivatives are 0 or 1; so that nothing overflows. */
INLINE vf clamp(vf x)
{
    return vf_most(vf_least(x, vf_set(100.0f)), vf_set(-100.0f));
}

INLINE vf logistic_begin(vf x)
{
    return exp_negative(vf_negative(x));
}

/* 3.1u: s, and a rounding */
INLINE vf sigmoid_end(vf x, vf z)
{
    const pair s = logistic(x, z).value;
    return s.high + s.low;
}

INLINE vf sigmoid_slope(vf y, vf unused)
{
    (void)unused;
    return vf_flush(y * (vf_set(1.0f) - y));
}

/*
 * max(x, 0) + log(1 + z), z = e^-|x|; 1.6u. The logarithm is 2 atanh(s) = 2s (1 + s^2 p) with s = z / (2
 * + z) <= 1/3 as a pair (0.3u) and p fitted; the terms behind 2s are at most 4% of it and err by
 * 6u. The sum with x, exact as a pair, rounds once.
 */
INLINE pair softplus_begin(vf x)
{
    return exp_pair(vf_negative(x));
}

INLINE pair softplus_middle(vf x, pair z)
{
    (void)x;
    pair sum = exact_sum(vf_set(2.0f), z.high);
    sum.low += z.low;
    return quotient(z, sum);
}

INLINE vf softplus_end(vf x, pair s)
{
    /* Beside 1 a smaller square makes no difference. */
    const vf least = vf_set(0x1p-30f), c = (vf)vi_unless_below((vi)s.high, s.high, least);
    const vf square = c * c;
    vf p = vf_set(0x1.53ce66p-4f);
    p = vf_fma(p, square, vf_set(0x1.824ef4p-4f));
    p = vf_fma(p, square, vf_set(0x1.c46b8cp-4f));
    p = vf_fma(p, square, vf_set(0x1.24a932p-3f));
    p = vf_fma(p, square, vf_set(0x1.9998fcp-3f));
    p = vf_fma(p, square, vf_set(0x1.555556p-2f));
    const vf twice = s.high + s.high, low = vf_fma(twice * square, p, s.low + s.low);
    const vf top = vf_relu(x), whole = top + twice;
    const vf part = whole - top, lost = (top - (whole - part)) + (twice - part);
    /* An infinite x would give a NaN. */
    return vf_blend(vm_gt(x, vf_set(100.0f)), x, whole + (lost + low));
}

/* x s(a), where s errs by e: e + u. Near 0, s is 1/2. */
INLINE vf gated(vf x, halves h)
{
    const pair s = h.value;
    return vf_fma(x, s.high, vf_least(x, vf_set(100.0f)) * s.low);
}

/* The derivative s + s x a' (1 - s): e + 2u, and 6u and what 1 - s errs of the second term. */
INLINE vf gated_slope(vf x, halves h, vf d_a)
{
    const vf s = h.value.high + h.value.low;
    return vf_fma(s, x * d_a * (h.rest.high + h.rest.low), s);
}

INLINE vf silu_end(vf x, vf z)
{
    return gated(x, logistic(x, z));
}

INLINE vf silu_slope_end(vf x, vf z)
{
    x = clamp(x);
    return gated_slope(x, logistic(x, z), vf_set(1.0f));
}

/* a(x) = c x + c b x^3 of op/gelu.c, with c as a pair, or it would have a bias: as a pair, but for 5u of the
 * second term. */
INLINE pair gelu_tanh_argument(vf x)
{
    const vf c = vf_set(0x1.988454p+0f), square = x * x;
    const vf rest = x * vf_fma(square, vf_set(0x1.2444f2p-4f), vf_set(-0x1.857936p-25f));
    const vf a = vf_fma(x, c, rest);
    return (pair){a, vf_fma(x, c, -a) + rest};
}

INLINE vf gelu_tanh_begin(vf x)
{
    return gelu_tanh_argument(x).high;
}

INLINE vf gelu_tanh_middle(vf x, vf a)
{
    (void)x;
    return exp_negative(vf_negative(a));
}

INLINE vf gelu_tanh_end(vf x, vf z)
{
    return gated(x, logistic(x, z));
}

INLINE pair gelu_tanh_slope_begin(vf x)
{
    return gelu_tanh_argument(clamp(x));
}

INLINE pair gelu_tanh_slope_middle(vf x, pair a)
{
    const vf z = exp_negative(vf_negative(a.high));
    const vf low = vf_blend(vm_gt(x, vf_zero()), -a.low, a.low);
    return (pair){vf_fma(z, low, z), vf_zero()};
}

INLINE vf gelu_tanh_slope_end(vf x, pair value)
{
    const vf z = value.high;
    x = clamp(x);
    const vf d_a = vf_fma(x * x, vf_set(0x1.b6676cp-3f), vf_set(0x1.988454p+0f));
    return gated_slope(x, logistic(x, z), d_a);
}

/*
 * The normal distribution: the probability P(x) and e^(-x^2/2), of t = |x|. For t below 1, P = 1/2 + x
 * g(x^2), g fitted. Above, P(-t) is e^(-t^2/2) times a function that falls slowly,
 * approximated by a quotient of polynomials for t up to 10 (0.08u, fitted). They are all positive, so
 * Horner's rule errs by a rounding a coefficient.
 */
INLINE vf normal_size(vf x)
{
    return vf_least(vf_size(x), vf_set(10.0f));
}

/* Where t is less than 2^-30 this is 1, as it is there. */
INLINE vf normal_exponential(vf x)
{
    const vf t = vf_most(normal_size(x), vf_set(0x1p-30f));
    return exp_negative(t * t * vf_set(-0.5f));
}

/* P(-t) for t of 1 and more, of z = e^(-t^2/2): (t^2/2 + 22) u, as the exponent rounds by u of itself. */
INLINE vf normal_tail(vf x, vf z)
{
    const vf t = normal_size(x);
    vf p = vf_set(0x1.600932p-8f);
    p = vf_fma(p, t, vf_set(0x1.85f87p-5f));
    p = vf_fma(p, t, vf_set(0x1.9e3d94p-3f));
    p = vf_fma(p, t, vf_set(0x1.d874b4p-2f));
    p = vf_fma(p, t, vf_set(0x1.000118p-1f));
    vf q = vf_set(0x1.b9357ep-7f);
    q = vf_fma(q, t, vf_set(0x1.e8c5ccp-4f));
    q = vf_fma(q, t, vf_set(0x1.0a6e3cp-1f));
    q = vf_fma(q, t, vf_set(0x1.46f6d2p+0f));
    q = vf_fma(q, t, vf_set(0x1.b8832cp+0f));
    q = vf_fma(q, t, vf_set(1.0f));
    return z * (p / q);
}

/* g(x^2) */
INLINE vf normal_centre(vf square)
{
    vf g = vf_set(0x1.43856cp-21f);
    g = vf_fma(g, square, vf_set(-0x1.3df30ep-17f));
    g = vf_fma(g, square, vf_set(0x1.e4aaf2p-14f));
    g = vf_fma(g, square, vf_set(-0x1.3745f2p-10f));
    g = vf_fma(g, square, vf_set(0x1.46d074p-7f));
    g = vf_fma(g, square, vf_set(-0x1.105838p-4f));
    return vf_fma(g, square, vf_set(-0x1.86482ap-27f)) + vf_set(0x1.988454p-2f);
}

/* x P(x): in the centre x/2 + x^2 g, which errs by u and 2u of the second term; for larger x that is x -
 * x P(-x), for smaller ones x P(x). */
INLINE vf gelu_end(vf x, vf tail)
{
    const vf t = normal_size(x), square = t * t;
    const vf near = vf_fma(square, normal_centre(square), vf_set(0.5f) * x);
    const vf far = vf_fma(-t, tail, vf_relu(x));
    return vf_blend(vm_gt(vf_set(1.0f), t), near, far);
}

INLINE pair gelu_slope_begin(vf x)
{
    return (pair){normal_exponential(x), vf_zero()};
}

INLINE pair gelu_slope_middle(vf x, pair value)
{
    return (pair){value.high, normal_tail(x, value.high)};
}

INLINE vf gelu_slope_end(vf x, pair value)
{
    x = clamp(x);
    const vf z = value.high, tail = value.low;
    const vf far = vf_blend(vm_gt(x, vf_zero()), vf_set(1.0f) - tail, tail);
    const vf t = normal_size(x), near = vf_fma(x, normal_centre(t * t), vf_set(0.5f));
    const vf below = vf_blend(vm_gt(vf_set(1.0f), t), near, far);
    return vf_fma(x * vf_set(0x1.988454p-2f), z, below); /* 1 / sqrt(2 pi) */
}

/*
 * 1.5u. Below 0.4 an odd polynomial, fitted (0.03u): x + x^3 p errs by u and by 4u of the second term,
 * which is at most 0.05 of the sum. Above, with z = e^-2t < 0.45, (1 - z)/(1 + z), both exact but for
 * z's 0.15u.
 */
INLINE pair hyperbolic_begin(vf x)
{
    return exp_pair(vf_set(-2.0f) * vf_size(x));
}

INLINE pair hyperbolic_middle(vf x, pair z)
{
    (void)x;
    const pair far = quotient(one_plus((pair){-z.high, -z.low}), one_plus(z));
    return (pair){far.high + far.low, vf_zero()};
}

INLINE vf hyperbolic_end(vf x, pair far)
{
    const vf s = vf_most(x * x, vf_set(0x1p-60f)); /* beside 1 less makes no difference */
    vf p = vf_set(0x1.33137ap-6f);
    p = vf_fma(p, s, vf_set(-0x1.b6c672p-5f));
    p = vf_fma(p, s, vf_set(0x1.1105eep-3f));
    p = vf_fma(p, s, vf_set(-0x1.55553ep-2f));
    const vf near = vf_fma(x * s, p, x);
    return vf_blend(vm_gt(vf_size(x), vf_set(0.4f)), vf_signed(far.high, x), near);
}

INLINE vf hyperbolic_slope(vf y, vf unused)
{
    (void)unused;
    return vf_fma(-y, y, vf_set(1.0f));
}

INLINE vf leaky_relu_slope(vf y, vf slope)
{
    return vf_blend(vm_gt(y, vf_zero()), vf_set(1.0f), slope);
}

INLINE vf leaky_relu(vf x, vf slope)
{
    return x * leaky_relu_slope(x, slope);
}

#endif
