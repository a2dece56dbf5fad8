/* The optimizers, elementwise. Products are rounded before they are added, divisions and square
 * roots are exact to IEEE 754: every instruction set gives the same bits. */
#include "backend/cpu/vector/isa.h"
#include "backend/cpu/vector/local.h"

/* The gradient of the mean over samples, with weight decay. */
INLINE vf gradient(const float *sums, vf w, vf scale, vf decay, bool decays, int64_t n)
{
    const vf g = vf_get(sums, n) * scale;
    return decays ? g + decay * w : g;
}

static void sgd(const lki_update *u, int64_t count, float *restrict w, float *restrict momentum,
                const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf lr = vf_set(u->lr), scale = vf_set(u->scale), decay = vf_set(o->weight_decay);
    const vf mu = vf_set(o->momentum), rest = vf_set(1 - o->dampening);
    const bool decays = o->weight_decay != 0, moves = o->momentum != 0, first = u->step == 1;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        vf g = gradient(sums + i, x, scale, decay, decays, n);
        if (moves) {
            const vf m = first ? g : mu * vf_get(momentum + i, n) + rest * g;
            vf_put(momentum + i, m, n);
            g = o->nesterov ? g + mu * m : m;
        }
        vf_put(w + i, x - lr * g, n);
    }
}

static void adam(const lki_update *u, int64_t count, float *restrict w, float *restrict average,
                 float *restrict square, const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf scale = vf_set(u->scale), decay = vf_set(o->weight_decay);
    const vf b1 = vf_set(o->beta1), c1 = vf_set(1 - o->beta1);
    const vf b2 = vf_set(o->beta2), c2 = vf_set(1 - o->beta2), epsilon = vf_set(o->epsilon);
    const vf rate = vf_set((float)((double)u->lr / u->correction1));
    const vf root = vf_set((float)sqrt(u->correction2));
    const bool decays = o->weight_decay != 0;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        const vf g = gradient(sums + i, x, scale, decay, decays, n);
        const vf m = b1 * vf_get(average + i, n) + c1 * g;
        const vf v = b2 * vf_get(square + i, n) + c2 * (g * g);
        vf_put(average + i, m, n);
        vf_put(square + i, v, n);
        vf_put(w + i, x - rate * (m / (vf_sqrt(v) / root + epsilon)), n);
    }
}

static void adadelta(const lki_update *u, int64_t count, float *restrict w, float *restrict square,
                     float *restrict delta, const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf lr = vf_set(u->lr), scale = vf_set(u->scale), decay = vf_set(o->weight_decay);
    const vf rho = vf_set(o->rho), rest = vf_set(1 - o->rho), epsilon = vf_set(o->epsilon);
    const bool decays = o->weight_decay != 0;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n), past = vf_get(delta + i, n);
        const vf g = gradient(sums + i, x, scale, decay, decays, n);
        const vf v = rho * vf_get(square + i, n) + rest * (g * g);
        const vf d = vf_sqrt(past + epsilon) / vf_sqrt(v + epsilon) * g;
        vf_put(square + i, v, n);
        vf_put(delta + i, rho * past + rest * (d * d), n);
        vf_put(w + i, x - lr * d, n);
    }
}

static void adamw(const lki_update *u, int64_t count, float *restrict w, float *restrict average,
                  float *restrict square, const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf scale = vf_set(u->scale);
    const vf shrink = vf_set((float)(1 - (double)u->lr * (double)o->weight_decay));
    const vf b1 = vf_set(o->beta1), c1 = vf_set(1 - o->beta1);
    const vf b2 = vf_set(o->beta2), c2 = vf_set(1 - o->beta2), epsilon = vf_set(o->epsilon);
    const vf rate = vf_set((float)((double)u->lr / u->correction1));
    const vf root = vf_set((float)sqrt(u->correction2));
    FOR_VECTORS(i, n, count)
    {
        const vf g = vf_get(sums + i, n) * scale;
        const vf m = b1 * vf_get(average + i, n) + c1 * g;
        const vf v = b2 * vf_get(square + i, n) + c2 * (g * g);
        vf_put(average + i, m, n);
        vf_put(square + i, v, n);
        vf_put(w + i, shrink * vf_get(w + i, n) - rate * (m / (vf_sqrt(v) / root + epsilon)), n);
    }
}

static void rmsprop(const lki_update *u, int64_t count, float *restrict w, float *restrict square,
                    float *restrict average, float *restrict momentum, const float *restrict sums)
{
    const lks_optim *o = &u->optim;
    const vf lr = vf_set(u->lr), scale = vf_set(u->scale), decay = vf_set(o->weight_decay);
    const vf alpha = vf_set(o->alpha), rest = vf_set(1 - o->alpha), epsilon = vf_set(o->epsilon);
    const vf mu = vf_set(o->momentum), zero = vf_zero();
    const bool decays = o->weight_decay != 0, moves = o->momentum != 0, centered = o->centered;
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        const vf g = gradient(sums + i, x, scale, decay, decays, n);
        const vf v = alpha * vf_get(square + i, n) + rest * (g * g);
        vf spread = v;
        vf_put(square + i, v, n);
        if (centered) {
            const vf a = alpha * vf_get(average + i, n) + rest * g;
            vf_put(average + i, a, n);
            spread = v - a * a;
            spread = vf_blend(vm_gt(zero, spread), zero, spread); /* below 0 by rounding only */
        }
        vf d = g / (vf_sqrt(spread) + epsilon);
        if (moves) {
            d = mu * vf_get(momentum + i, n) + d;
            vf_put(momentum + i, d, n);
        }
        vf_put(w + i, x - lr * d, n);
    }
}

static void adamp(const lki_update *u, int64_t count, float *restrict w,
                  const float *restrict direction)
{
    const lks_optim *o = &u->optim;
    const double ratio = u->projected ? (double)o->wd_ratio : 1;
    const vf shrink = vf_set((float)(1 - (double)u->lr * (double)o->weight_decay * ratio));
    const vf rate = vf_set((float)((double)u->lr / u->correction1)), along = vf_set(u->along);
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(w + i, n);
        vf_put(w + i, shrink * x - rate * (vf_get(direction + i, n) - along * x), n);
    }
}

void LKI_ISA_NAME(lki_vector_direction)(const lki_update *u, int64_t count,
                                        float *const state[LKI_MAX_STATES], float *gradient)
{
    const lks_optim *o = &u->optim;
    float *restrict average = state[0], *restrict square = state[1], *restrict to = gradient;
    const vf scale = vf_set(u->scale), epsilon = vf_set(o->epsilon);
    const vf b1 = vf_set(o->beta1), c1 = vf_set(1 - o->beta1);
    const vf b2 = vf_set(o->beta2), c2 = vf_set(1 - o->beta2);
    const vf root = vf_set((float)sqrt(u->correction2));
    const bool nesterov = o->nesterov;
    FOR_VECTORS(i, n, count)
    {
        const vf g = vf_get(to + i, n) * scale;
        const vf m = b1 * vf_get(average + i, n) + c1 * g;
        const vf v = b2 * vf_get(square + i, n) + c2 * (g * g);
        vf_put(average + i, m, n);
        vf_put(square + i, v, n);
        vf_put(to + i, (nesterov ? b1 * m + c1 * g : m) / (vf_sqrt(v) / root + epsilon), n);
    }
}

void LKI_ISA_NAME(lki_vector_approach)(int64_t count, float part, float *restrict left,
                                       const float *restrict right)
{
    const vf p = vf_set(part);
    FOR_VECTORS(i, n, count)
    {
        const vf l = vf_get(left + i, n);
        vf_put(left + i, l + p * (vf_get(right + i, n) - l), n);
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

void LKI_ISA_NAME(lki_vector_update)(const lki_update *update, int64_t count, float *w,
                                     float *const state[LKI_MAX_STATES], const float *sums)
{
    switch (update->optim.kind) {
    case LKS_SGD:
        sgd(update, count, w, state[0], sums);
        break;
    case LKS_ADAM:
        adam(update, count, w, state[0], state[1], sums);
        break;
    case LKS_ADADELTA:
        adadelta(update, count, w, state[0], state[1], sums);
        break;
    case LKS_ADAMW:
        adamw(update, count, w, state[0], state[1], sums);
        break;
    case LKS_RMSPROP:
        rmsprop(update, count, w, state[0], state[1], state[2], sums);
        break;
    case LKS_ADAMP:
        adamp(update, count, w, sums);
        break;
    }
}
