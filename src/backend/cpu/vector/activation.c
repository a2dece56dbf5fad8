/*
 * Activations and their derivatives. Errors are relative and in units of u = 2^-24, for any x, as
 * derived beside each function; e^x below e^-87 counts as 0. A NaN stays one.
 * tools/fit_activations prints the fitted coefficients.
 */
#include "backend/cpu/vector/local.h"

/* `size`, which is not negative, with the sign of x. */
INLINE vf vf_signed(vf size, vf x)
{
    return (vf)((vi)size | ((vi)x & vi_set(INT32_MIN)));
}

INLINE vf vf_least(vf a, vf b)
{
    return vf_blend(vm_gt(a, b), b, a);
}

/*
 * e^a for a <= 0: 2u. a = k ln 2 + r with |r| <= 0.347 and e^r = 1 + (r + r^2 q): r errs by 0.26u
 * (k times the high part of ln 2 is exact), r^2 q by 0.22u, their sum rounds by 0.25u, the series
 * ends 0.09u too early, and the last sum rounds by u of at least 1, or by u/2 of at least 0.7.
 */
INLINE vf exp_negative(vf a)
{
    const vf shift = vf_set(0x1.8p23f); /* adding it rounds to an integer, in the lowest bits */
    const vf shifted = vf_fma(a, vf_set(0x1.715476p+0f), shift);
    const vf k = shifted - shift;
    const vf r = vf_fma(k, vf_set(-0x1.7f7d1cp-20f), vf_fma(k, vf_set(-0x1.62e4p-1f), a));
    vf q = vf_set(0x1.a01a02p-13f); /* 1/7! ... 1/2! */
    q = vf_fma(q, r, vf_set(0x1.6c16c2p-10f));
    q = vf_fma(q, r, vf_set(0x1.111112p-7f));
    q = vf_fma(q, r, vf_set(0x1.555556p-5f));
    q = vf_fma(q, r, vf_set(0x1.555556p-3f));
    q = vf_fma(q, r, vf_set(0.5f));
    const vf value = vf_set(1.0f) + vf_fma(r * r, q, r);
    const vf power = (vf)(((vu)shifted << 23) + (vu)vi_set(0x3f800000)); /* 2^k */
    return vf_blend(vm_gt(vf_set(-87.0f), a), vf_zero(), value * power);
}

/* 1 / (1 + e^-a), and 1 minus that, which has no cancellation: 6u (e^-|a| 2u, of the sum at most
 * half of it and u, the quotient u, the product u). */
typedef struct halves {
    vf value, rest;
} halves;

INLINE halves logistic(vf a)
{
    const vf z = exp_negative(vf_signed(vf_size(a), vf_set(-1.0f)));
    const vf large = vf_set(1.0f) / (vf_set(1.0f) + z), small = z * large;
    const vm positive = vm_gt(a, vf_zero());
    return (halves){vf_blend(positive, large, small), vf_blend(positive, small, large)};
}

INLINE vf sigmoid(vf x, vf unused)
{
    (void)unused;
    return logistic(x).value;
}

INLINE vf sigmoid_slope(vf y, vf unused)
{
    (void)unused;
    return y * (vf_set(1.0f) - y);
}

/*
 * max(x, 0) + log(1 + z), z = e^-|x|; 7u. The logarithm is 2 atanh(s) = 2s (1 + s^2/3 + s^4/5 + ...)
 * with s = z / (2 + z) <= 1/3: z's 2u, the sum and the quotient give s 4u, which are 4.4u of the
 * logarithm; the terms behind 2s are at most 4% of it and err by 6u; the series ends 0.03u too early;
 * the sum rounds by u.
 */
INLINE vf softplus(vf x, vf unused)
{
    (void)unused;
    const vf z = exp_negative(vf_signed(vf_size(x), vf_set(-1.0f)));
    const vf s = z / (vf_set(2.0f) + z), square = s * s, twice = s + s;
    vf p = vf_set(1.0f / 15);
    p = vf_fma(p, square, vf_set(1.0f / 13));
    p = vf_fma(p, square, vf_set(1.0f / 11));
    p = vf_fma(p, square, vf_set(1.0f / 9));
    p = vf_fma(p, square, vf_set(1.0f / 7));
    p = vf_fma(p, square, vf_set(1.0f / 5));
    p = vf_fma(p, square, vf_set(1.0f / 3));
    const vf logarithm = vf_fma(twice * square, p, twice);
    return vf_blend(vm_gt(x, vf_zero()), x, vf_zero()) + logarithm;
}

INLINE vf softplus_slope(vf x, vf unused)
{
    return sigmoid(x, unused);
}

INLINE vf silu(vf x, vf unused)
{
    (void)unused;
    return x * logistic(x).value;
}

/* Beyond 100 the derivatives are 0 or 1; so that nothing overflows. */
INLINE vf clamp(vf x)
{
    return vf_signed(vf_least(vf_size(x), vf_set(100.0f)), x);
}

INLINE vf silu_slope(vf x, vf unused)
{
    (void)unused;
    x = clamp(x);
    const halves s = logistic(x);
    return s.value * vf_fma(x, s.rest, vf_set(1.0f));
}

/* a(x) of op/gelu.c: 6u; its derivative: 5u. */
INLINE vf gelu_tanh_argument(vf x)
{
    return vf_set(0x1.988454p+0f) * x * vf_fma(vf_set(0x1.6e4e26p-5f), x * x, vf_set(1.0f));
}

INLINE vf gelu_tanh(vf x, vf unused)
{
    (void)unused;
    return x * logistic(gelu_tanh_argument(x)).value;
}

INLINE vf gelu_tanh_slope(vf x, vf unused)
{
    (void)unused;
    x = clamp(x);
    const halves s = logistic(gelu_tanh_argument(x));
    const vf d_a = vf_set(0x1.988454p+0f) * vf_fma(vf_set(0x1.12ba9ep-3f), x * x, vf_set(1.0f));
    return s.value * vf_fma(x * d_a, s.rest, vf_set(1.0f));
}

/*
 * The normal distribution: the probability P(x) and e^(-x^2/2). With t = |x|, P(-t) is e^(-t^2/2)
 * times a function that falls slowly from 1/2; it is approximated by a quotient of polynomials for t
 * in [0, 14] (0.64u with these coefficients; fitted to the least relative error). They are all
 * positive, so Horner's rule errs by two roundings a coefficient: 8u above, 10u below. The exponent
 * rounds by u of itself. So P(-t) errs by (t^2/2 + 22) u, and P(t) = 1 - P(-t) by that part and u.
 */
typedef struct normal_values {
    vf below, exponential;
} normal_values;

INLINE normal_values normal(vf x)
{
    const vf t = vf_least(vf_size(x), vf_set(14.0f));
    const vf z = exp_negative(t * t * vf_set(-0.5f));
    vf p = vf_set(0x1.0b3c64p-8f);
    p = vf_fma(p, t, vf_set(0x1.4abcfap-5f));
    p = vf_fma(p, t, vf_set(0x1.75afdep-3f));
    p = vf_fma(p, t, vf_set(0x1.bfbfb2p-2f));
    p = vf_fma(p, t, vf_set(0.5f));
    vf q = vf_set(0x1.4eed22p-7f);
    q = vf_fma(q, t, vf_set(0x1.9e8bf6p-4f));
    q = vf_fma(q, t, vf_set(0x1.dea774p-2f));
    q = vf_fma(q, t, vf_set(0x1.330572p+0f));
    q = vf_fma(q, t, vf_set(0x1.ac220ap+0f));
    q = vf_fma(q, t, vf_set(1.0f));
    const vf tail = z * (p / q);
    return (normal_values){vf_blend(vm_gt(x, vf_zero()), vf_set(1.0f) - tail, tail), z};
}

INLINE vf gelu(vf x, vf unused)
{
    (void)unused;
    return x * normal(x).below;
}

INLINE vf gelu_slope(vf x, vf unused)
{
    (void)unused;
    x = clamp(x);
    const normal_values n = normal(x);
    return vf_fma(x * vf_set(0x1.988454p-2f), n.exponential, n.below); /* 1 / sqrt(2 pi) */
}

/*
 * 4u. Below 5/8 an odd polynomial, fitted (0.17u): x + x^3 p errs by u and by 6u of the second term,
 * which is at most 0.13 of the sum. Above, with z = e^-2t < 0.29, (1 - z)/(1 + z): 1.5u above, 1.3u
 * below, u the quotient.
 */
INLINE vf hyperbolic(vf x, vf unused)
{
    (void)unused;
    const vf t = vf_size(x), s = x * x;
    vf p = vf_set(-0x1.75ddbcp-8f);
    p = vf_fma(p, s, vf_set(0x1.5225bap-6f));
    p = vf_fma(p, s, vf_set(-0x1.b83c38p-5f));
    p = vf_fma(p, s, vf_set(0x1.110726p-3f));
    p = vf_fma(p, s, vf_set(-0x1.555532p-2f));
    const vf near = vf_fma(x * s, p, x);
    const vf z = exp_negative(vf_set(-2.0f) * t);
    const vf far = (vf_set(1.0f) - z) / (vf_set(1.0f) + z);
    return vf_blend(vm_gt(t, vf_set(0.625f)), vf_signed(far, x), near);
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

#define FUNCTION(name)                                                                             \
    static void name##_forward(int64_t count, float constant, const float *in, float *out)         \
    {                                                                                              \
        const vf c = vf_set(constant);                                                             \
        FOR_VECTORS(i, n, count) vf_put(out + i, name(vf_get(in + i, n), c), n);                   \
    }                                                                                              \
    static void name##_backward(int64_t count, float constant, const float *at,                    \
                                const float *d_out, float *d_in, bool adds)                        \
    {                                                                                              \
        const vf c = vf_set(constant);                                                             \
        FOR_VECTORS(i, n, count)                                                                   \
        {                                                                                          \
            const vf d = vf_get(d_out + i, n) * name##_slope(vf_get(at + i, n), c);                \
            vf_put(d_in + i, adds ? vf_get(d_in + i, n) + d : d, n);                               \
        }                                                                                          \
    }

FUNCTION(gelu)
FUNCTION(gelu_tanh)
FUNCTION(silu)
FUNCTION(hyperbolic)
FUNCTION(sigmoid)
FUNCTION(softplus)
FUNCTION(leaky_relu)

#define ENTRY(name)                                                                                \
    {                                                                                              \
        name##_forward, name##_backward                                                            \
    }
const lki_vector_activation LKI_ISA_NAME(lki_vector_activation)[LKI_ACTIVATIONS] = {
    [LKI_GELU] = ENTRY(gelu),
    [LKI_GELU_TANH] = ENTRY(gelu_tanh),
    [LKI_SILU] = ENTRY(silu),
    [LKI_TANH] = ENTRY(hyperbolic),
    [LKI_SIGMOID] = ENTRY(sigmoid),
    [LKI_SOFTPLUS] = ENTRY(softplus),
    [LKI_LEAKY_RELU] = ENTRY(leaky_relu),
};
