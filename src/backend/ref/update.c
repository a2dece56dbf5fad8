/* The updates of optim.h, in double on f32 state. */
#include "backend/ref/kernels.h"

#include <math.h>

/* The gradient of the mean, with weight decay. */
static double ref_update_gradient(const lki_update *update, float sum, double decay, float w)
{
    const double g = (double)lki_flush(sum * update->scale) + decay * (double)w;

    return fabs(g) < (double)LKI_TINY ? 0.0 : g;
}

/* What is going to be squared. */
static double counted(double x)
{
    return fabs(x) < (double)LKI_TINY_ROOT ? 0.0 : x;
}

static float square_round(double x)
{
    return fabs(x) < (double)LKI_TINY_SQUARE ? 0.0f : (float)x;
}

static void ref_sgd(const lki_update *update, int64_t count, float *w, float *const state[],
                    const float *sums)
{
    const lks_optim *optim = &update->optim;
    float *momentum = state[0];

    for (int64_t i = 0; i < count; i++) {
        double g = ref_update_gradient(update, sums[i], optim->weight_decay, w[i]);

        if (optim->momentum != 0.0) {
            const double mu = optim->momentum;
            const double m = update->step == 1
                                 ? g
                                 : mu * (double)momentum[i] + (1.0 - optim->dampening) * g;

            momentum[i] = lki_round(m);
            g = optim->nesterov ? g + mu * m : m;
        }
        w[i] = lki_round((double)w[i] - update->lr * g);
    }
}

/* Adam, and with `decoupled` weight decay AdamW. */
static void adam(const lki_update *update, int64_t count, float *w, float *const state[],
                 const float *sums, bool decoupled)
{
    const lks_optim *optim = &update->optim;
    const double b1 = optim->beta1, b2 = optim->beta2;
    const double root = sqrt(update->correction2);
    const double decay = decoupled ? 0.0 : optim->weight_decay;
    const double shrink = decoupled ? update->lr * optim->weight_decay : 0.0;

    for (int64_t i = 0; i < count; i++) {
        const double g = counted(ref_update_gradient(update, sums[i], decay, w[i]));
        const double m = b1 * (double)state[0][i] + (1.0 - b1) * g;
        const double v = b2 * (double)state[1][i] + (1.0 - b2) * g * g;

        state[0][i] = lki_round(m);
        state[1][i] = square_round(v);
        w[i] = lki_round((double)w[i] * (1.0 - shrink) -
                         update->lr / update->correction1 * m / (sqrt(v) / root + optim->epsilon));
    }
}

static void ref_adam(const lki_update *update, int64_t count, float *w, float *const state[],
                     const float *sums)
{
    adam(update, count, w, state, sums, false);
}

static void ref_adamw(const lki_update *update, int64_t count, float *w, float *const state[],
                      const float *sums)
{
    adam(update, count, w, state, sums, true);
}

static void ref_adadelta(const lki_update *update, int64_t count, float *w, float *const state[],
                         const float *sums)
{
    const lks_optim *optim = &update->optim;
    const double rho = optim->rho, epsilon = optim->epsilon;

    for (int64_t i = 0; i < count; i++) {
        const double g = counted(ref_update_gradient(update, sums[i], optim->weight_decay, w[i]));
        const double u = state[1][i];
        const double v = rho * (double)state[0][i] + (1.0 - rho) * g * g;
        const double d = sqrt(u + epsilon) / sqrt(v + epsilon) * g;

        state[0][i] = square_round(v);
        state[1][i] = square_round(rho * u + (1.0 - rho) * counted(d) * counted(d));
        w[i] = lki_round((double)w[i] - update->lr * d);
    }
}

static void ref_rmsprop(const lki_update *update, int64_t count, float *w, float *const state[],
                        const float *sums)
{
    const lks_optim *optim = &update->optim;
    const double alpha = optim->alpha;

    for (int64_t i = 0; i < count; i++) {
        const double g = counted(ref_update_gradient(update, sums[i], optim->weight_decay, w[i]));
        const double v = alpha * (double)state[0][i] + (1.0 - alpha) * g * g;
        double a = 0.0;

        state[0][i] = square_round(v);
        if (optim->centered) {
            a = alpha * (double)state[1][i] + (1.0 - alpha) * g;
            state[1][i] = lki_round(a);
        }
        const double spread = v - a * a < 0.0 ? 0.0 : v - a * a; /* below by rounding only */
        double d = g / (sqrt(spread) + optim->epsilon);
        if (optim->momentum != 0.0) {
            d += optim->momentum * (double)state[2][i];
            state[2][i] = lki_round(d);
        }
        w[i] = lki_round((double)w[i] - update->lr * d);
    }
}

/* Behind its direction, which has taken in the gradient. */
static void ref_adamp(const lki_update *update, int64_t count, float *w, float *const state[],
                      const float *direction)
{
    const lks_optim *optim = &update->optim;
    const double decay = optim->weight_decay * (update->projected ? optim->wd_ratio : 1.0);

    (void)state;
    for (int64_t i = 0; i < count; i++) {
        const double p = (double)direction[i] - (double)update->along * (double)w[i];

        w[i] = lki_round((double)w[i] * (1.0 - update->lr * decay) -
                         update->lr / update->correction1 * p);
    }
}

/* The rate has the tensor's own factor. */
static void ref_lars(const lki_update *update, int64_t count, float *w, float *const state[],
                     const float *sums)
{
    const lks_optim *optim = &update->optim;

    for (int64_t i = 0; i < count; i++) {
        double m = update->lr * ref_update_gradient(update, sums[i], optim->weight_decay, w[i]);

        if (optim->momentum != 0.0) {
            m += optim->momentum * (double)state[0][i];
            state[0][i] = lki_round(m);
        }
        w[i] = lki_round((double)w[i] - m);
    }
}

/* Behind its direction; the rate has the tensor's own factor. */
static void ref_lamb(const lki_update *update, int64_t count, float *w, float *const state[],
                     const float *direction)
{
    const double decay = update->lr * update->optim.weight_decay;

    (void)state;
    for (int64_t i = 0; i < count; i++)
        w[i] = lki_round((double)w[i] * (1.0 - decay) -
                         update->lr / update->correction1 * (double)direction[i]);
}

void lki_ref_direction(const lki_update *update, int64_t count, const float *w,
                       float *const state[LKI_MAX_STATES], float *direction,
                       double sum[LKI_ROW_SUMS])
{
    const lks_optim *optim = &update->optim;
    const double b1 = optim->beta1, b2 = optim->beta2;
    const double root = sqrt(update->correction2);

    sum[LKI_ROW_GRADIENT] = lki_ref_dot(count, direction, direction);
    sum[LKI_ROW_PARAMETER] = lki_ref_dot(count, w, w);
    sum[LKI_ROW_BOTH] = lki_ref_dot(count, direction, w);
    for (int64_t i = 0; i < count; i++) {
        const double g = counted((double)(direction[i] * update->scale));
        const double m = b1 * (double)state[0][i] + (1.0 - b1) * g;
        const double v = b2 * (double)state[1][i] + (1.0 - b2) * g * g;

        state[0][i] = lki_round(m);
        state[1][i] = square_round(v);
        direction[i] = lki_round((optim->nesterov ? b1 * m + (1.0 - b1) * g : m) /
                                 (sqrt(v) / root + optim->epsilon));
    }
    sum[LKI_ROW_DIRECTION] = lki_ref_dot(count, w, direction);
    if (optim->kind == LKS_LAMB) sum[LKI_ROW_GRADIENT] = lki_ref_dot(count, direction, direction);
}

void lki_ref_approach(int64_t count, float part, float *left, const float *right)
{
    for (int64_t i = 0; i < count; i++)
        left[i] = lki_round((double)left[i] + (double)part * ((double)right[i] - (double)left[i]));
}

double lki_ref_dot(int64_t count, const float *a, const float *b)
{
    double lane[8] = {0};

    for (int64_t i = 0; i < count; i++) lane[i % 8] += (double)a[i] * (double)b[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* By lks_optim_kind. */
static void (*const loops[])(const lki_update *update, int64_t count, float *w,
                             float *const state[], const float *sums) = {
#define X(KIND, name) [LKS_##KIND] = ref_##name,
    LKS_OPTIMIZERS(X)
#undef X
};

void lki_ref_update(const lki_update *update, int64_t count, float *w,
                    float *const state[LKI_MAX_STATES], const float *sums)
{
    loops[update->optim.kind](update, count, w, state, sums);
}
