/*
 * The optimizers, elementwise. Divisions, square roots and multiply-adds round once, on every
 * instruction set. What is computed from hyperparameters is so in double, and rounded to f32 once.
 *
 * A decaying average a = b a + (1 - b) x is formed as (a - c a) + c x with c = 1 - b, which f32 has to
 * 24 bits: where b is near 1, b itself in f32 would let the average forget at another rate. Unlike
 * a + c (x - a) no difference of a and x is formed, which may be very small.
 *
 * A loop's arrays are restrict parameters of a function of its own: only there compilers heed that.
 */
#include <math.h>

#include "backend/cpu/vector/isa.h"
#include "backend/cpu/vector/local.h"

/* A hyperparameter, or what is computed from some: 0 where it is tiny, as all that it multiplies. */
INLINE vf constant(double x)
{
    return vf_set(lki_round(x));
}

/* What is added to a root, so that a quotient stays finite: not less than the smallest normal number. */
INLINE vf constant_epsilon(double x)
{
    return vf_set(x > 0 && x < 0x1p-126 ? 0x1p-126f : (float)x);
}

/* The average with the part c of x taken in. */
INLINE vf decayed(vf average, vf c, vf x)
{
    return vf_fma(c, x, vf_fma(-c, average, average));
}

/* The same of x^2. */
INLINE vf decayed_square(vf average, vf c, vf x)
{
    return vf_fma(c * x, x, vf_fma(-c, average, average));
}

/* The gradient of the mean over samples, with weight decay. */
INLINE vf gradient(const float *sums, vf w, vf scale, vf decay, bool decays, int64_t n)
{
    const vf g = vf_flush(vf_get(sums, n) * scale);
    return decays ? vf_flush(vf_fma(decay, w, g)) : g;
}

/* What is going to be squared. */
INLINE vf counted(vf x)
{
    return vf_flush_below(x, LKI_TINY_ROOT);
}

INLINE void sgd(const lki_update *u, int64_t count, float *restrict w, float *restrict momentum,
                const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf rate = constant(-u->lr), scale = vf_set(u->scale), decay = constant(o->weight_decay);
    const vf mu = constant(o->momentum), rest = constant(1 - o->dampening);
    const bool decays = o->weight_decay != 0, moves = o->momentum != 0, first = u->step == 1;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        vf g = gradient(sums + i, x, scale, decay, decays, n);
        if (moves) {
            vf m = first ? g : vf_fma(rest, g, mu * vf_get(momentum + i, n));
            m = vf_flush(m);
            vf_put(momentum + i, m, n);
            g = o->nesterov ? vf_fma(mu, m, g) : m;
        }
        vf_put(w + i, vf_flush(vf_fma(rate, g, x)), n);
    }
}

static void vector_sgd(const lki_update *u, int64_t count, float *w, float *const state[],
                       const float *sums)
{
    sgd(u, count, w, state[0], sums);
}

/*
 * The numbers of Adam and of what is made of it. m / (sqrt(v) / root + epsilon), where root is that of
 * correction2, is root * m / (sqrt(v) + root * epsilon), which is a division less.
 */
typedef struct moments {
    vf scale, c1, c2, epsilon;
} moments;

INLINE moments moments_of(const lki_update *u)
{
    const lks_optim *o = &u->optim;
    return (moments){.scale = vf_set(u->scale),
                     .c1 = constant(1 - o->beta1),
                     .c2 = constant(1 - o->beta2),
                     .epsilon = constant_epsilon(sqrt(u->correction2) * o->epsilon)};
}

/* With weight decay in the gradient; with `decoupled` ADAMW's. */
INLINE void adam(const lki_update *u, int64_t count, float *restrict w, float *restrict average,
                 float *restrict square, const float *restrict sums, bool decoupled)
{
    const lks_optim *o = &u->optim;
    const moments with = moments_of(u);
    const vf decay = constant(o->weight_decay), fade = constant(-(u->lr * o->weight_decay));
    const vf rate = constant(-(u->lr / u->correction1 * sqrt(u->correction2)));
    const bool decays = o->weight_decay != 0 && !decoupled;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        const vf g = counted(gradient(sums + i, x, with.scale, decay, decays, n));
        const vf m = vf_flush(decayed(vf_get(average + i, n), with.c1, g));
        const vf v = decayed_square(vf_get(square + i, n), with.c2, g);
        const vf kept = decoupled ? vf_fma(fade, x, x) : x;
        vf_put(average + i, m, n);
        vf_put(square + i, vf_flush_square(v), n);
        vf_put(w + i, vf_flush(vf_fma(rate, m / (vf_sqrt(v) + with.epsilon), kept)), n);
    }
}

static void vector_adam(const lki_update *u, int64_t count, float *w, float *const state[],
                        const float *sums)
{
    adam(u, count, w, state[0], state[1], sums, false);
}

static void vector_adamw(const lki_update *u, int64_t count, float *w, float *const state[],
                         const float *sums)
{
    adam(u, count, w, state[0], state[1], sums, true);
}

INLINE void adadelta(const lki_update *u, int64_t count, float *restrict w, float *restrict square,
                     float *restrict delta, const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf rate = constant(-u->lr), scale = vf_set(u->scale), decay = constant(o->weight_decay);
    const vf c = constant(1 - o->rho), epsilon = constant_epsilon(o->epsilon);
    const bool decays = o->weight_decay != 0;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n), past = vf_get(delta + i, n);
        const vf g = counted(gradient(sums + i, x, scale, decay, decays, n));
        const vf v = decayed_square(vf_get(square + i, n), c, g);
        const vf d = vf_flush(vf_sqrt(past + epsilon) / vf_sqrt(v + epsilon) * g);
        vf_put(square + i, vf_flush_square(v), n);
        vf_put(delta + i, vf_flush_square(decayed_square(past, c, counted(d))), n);
        vf_put(w + i, vf_flush(vf_fma(rate, d, x)), n);
    }
}

static void vector_adadelta(const lki_update *u, int64_t count, float *w, float *const state[],
                            const float *sums)
{
    adadelta(u, count, w, state[0], state[1], sums);
}

INLINE void rmsprop(const lki_update *u, int64_t count, float *restrict w, float *restrict square,
                    float *restrict average, float *restrict momentum, const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf rate = constant(-u->lr), scale = vf_set(u->scale), decay = constant(o->weight_decay);
    const vf c = constant(1 - o->alpha), epsilon = constant_epsilon(o->epsilon);
    const vf mu = constant(o->momentum), zero = vf_zero();
    const bool decays = o->weight_decay != 0, moves = o->momentum != 0, centered = o->centered;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        const vf g = counted(gradient(sums + i, x, scale, decay, decays, n));
        const vf v = decayed_square(vf_get(square + i, n), c, g);
        vf spread = v;
        vf_put(square + i, vf_flush_square(v), n);
        if (centered) {
            const vf a = vf_flush(decayed(vf_get(average + i, n), c, g));
            vf_put(average + i, a, n);
            spread = vf_flush_square(vf_fma(-a, a, v));
            spread = vf_blend(vm_gt(zero, spread), zero, spread); /* below 0 by rounding only */
        }
        vf d = g / (vf_sqrt(spread) + epsilon);
        if (moves) {
            d = vf_flush(vf_fma(mu, vf_get(momentum + i, n), d));
            vf_put(momentum + i, d, n);
        }
        vf_put(w + i, vf_flush(vf_fma(rate, d, x)), n);
    }
}

static void vector_rmsprop(const lki_update *u, int64_t count, float *w, float *const state[],
                           const float *sums)
{
    rmsprop(u, count, w, state[0], state[1], state[2], sums);
}

/* Behind its direction, which has taken in the gradient. */
static void vector_adamp(const lki_update *u, int64_t count, float *restrict w,
                         float *const state[], const float *restrict direction)
{
    (void)state;
    const lks_optim *o = &u->optim;
    const double ratio = u->projected ? o->wd_ratio : 1;
    const vf fade = constant(-(u->lr * o->weight_decay * ratio));
    const vf rate = constant(-(u->lr / u->correction1)), along = vf_set(-u->along);
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        const vf p = vf_fma(along, x, vf_get(direction + i, n));
        vf_put(w + i, vf_flush(vf_fma(rate, p, vf_fma(fade, x, x))), n);
    }
}

INLINE void lars(const lki_update *u, int64_t count, float *restrict w, float *restrict momentum,
                 const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf rate = constant(u->lr), scale = vf_set(u->scale), decay = constant(o->weight_decay);
    const vf mu = constant(o->momentum);
    const bool decays = o->weight_decay != 0, moves = o->momentum != 0;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        const vf step = rate * gradient(sums + i, x, scale, decay, decays, n);
        const vf m = vf_flush(moves ? vf_fma(mu, vf_get(momentum + i, n), step) : step);
        if (moves) vf_put(momentum + i, m, n);
        vf_put(w + i, vf_flush(x - m), n);
    }
}

/* The rate has the tensor's own factor. */
static void vector_lars(const lki_update *u, int64_t count, float *w, float *const state[],
                        const float *sums)
{
    lars(u, count, w, state[0], sums);
}

/* Behind its direction; the rate has the tensor's own factor. */
static void vector_lamb(const lki_update *u, int64_t count, float *restrict w, float *const state[],
                        const float *restrict direction)
{
    (void)state;
    const vf fade = constant(-(u->lr * u->optim.weight_decay));
    const vf rate = constant(-(u->lr / u->correction1));
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        vf_put(w + i, vf_flush(vf_fma(rate, vf_get(direction + i, n), vf_fma(fade, x, x))), n);
    }
}

/* Eight lanes of a sum in double, in vectors of half a vf: element i is in lane i mod 8. */
enum {
    SUM_LANES = 8,
    SUM_PARTS = SUM_LANES / (LANES / 2),
    SUM_VECTORS = LANES < 8 ? 8 / LANES : 1
};

/* Vector number v of an eight (where a vector is shorter), or of its own. */
INLINE void dot_add(vd sum[SUM_PARTS], int v, vf a, vf b)
{
    sum[2 * v % SUM_PARTS] += vf_low(a) * vf_low(b);
    sum[(2 * v + 1) % SUM_PARTS] += vf_high(a) * vf_high(b);
}

INLINE double dot_total(const vd sum[SUM_PARTS])
{
    double lane[SUM_LANES];
    memcpy(lane, sum, sizeof lane);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* One vector of p, and what it adds to the sums. */
INLINE void direct(const lki_update *u, const moments *with, vf b1, vf root, int v, int64_t n,
                   const float *w, float *average, float *square, float *to,
                   vd sum[LKI_ROW_SUMS][SUM_PARTS])
{
    const vf x = vf_get(w, n), given = vf_get(to, n), g = counted(given * with->scale);
    const vf m = vf_flush(decayed(vf_get(average, n), with->c1, g));
    const vf s = decayed_square(vf_get(square, n), with->c2, g);
    const vf top = u->optim.nesterov ? vf_fma(b1, m, with->c1 * g) : m;
    const vf p = vf_flush(root * (top / (vf_sqrt(s) + with->epsilon)));
    const vf squared = u->optim.kind == LKS_LAMB ? p : given;
    vf_put(average, m, n);
    vf_put(square, vf_flush_square(s), n);
    vf_put(to, p, n);
    dot_add(sum[LKI_ROW_GRADIENT], v, squared, squared);
    dot_add(sum[LKI_ROW_PARAMETER], v, x, x);
    dot_add(sum[LKI_ROW_BOTH], v, given, x);
    dot_add(sum[LKI_ROW_DIRECTION], v, x, p);
}

/* The sums ride along: by themselves they would read everything once more. */
void LKI_ISA_NAME(lki_vector_direction)(const lki_update *u, int64_t count, const float *w,
                                        float *const state[LKI_MAX_STATES], float *gradient,
                                        double sum[LKI_ROW_SUMS])
{
    float *restrict average = state[0], *restrict square = state[1], *restrict to = gradient;
    const moments with = moments_of(u);
    const vf b1 = constant(u->optim.beta1), root = constant(sqrt(u->correction2));
    vd sums[LKI_ROW_SUMS][SUM_PARTS] = {{{0}}};
    for (int64_t i = 0; i < count; i += SUM_VECTORS * LANES) {
        UNROLL
        for (int v = 0; v < SUM_VECTORS; v++) {
            const int64_t at = i + v * LANES, left = count - at, n = left < LANES ? left : LANES;
            if (n > 0)
                direct(u, &with, b1, root, v, n, w + at, average + at, square + at, to + at, sums);
        }
    }
    for (int k = 0; k < LKI_ROW_SUMS; k++) sum[k] = dot_total(sums[k]);
}

void LKI_ISA_NAME(lki_vector_approach)(int64_t count, float part, float *restrict left,
                                       const float *restrict right)
{
    const vf p = vf_set(part);
    FOR_VECTORS(i, n, count)
    {
        const vf l = vf_get(left + i, n);
        vf_put(left + i, vf_flush(vf_fma(p, vf_get(right + i, n) - l, l)), n);
    }
}

/* A product of two floats is exact in double, so that fusing it changes nothing. */
double LKI_ISA_NAME(lki_vector_dot)(int64_t count, const float *restrict a, const float *restrict b)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int64_t k = 0; k < 8; k++) lane[k] += (double)a[i + k] * (double)b[i + k];
    for (int64_t k = 0; i + k < count; k++) lane[k] += (double)a[i + k] * (double)b[i + k];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* By lks_optim_kind. */
static void (*const loops[])(const lki_update *u, int64_t count, float *w, float *const state[],
                             const float *sums) = {
#define X(KIND, name) [LKS_##KIND] = vector_##name,
    LKS_OPTIMIZERS(X)
#undef X
};

void LKI_ISA_NAME(lki_vector_update)(const lki_update *update, int64_t count, float *w,
                                     float *const state[LKI_MAX_STATES], const float *sums)
{
    loops[update->optim.kind](update, count, w, state, sums);
}
