/*
 * The formulas of optim.h in double, with how far an update in f32 may be from them.
 *
 * Bounds, with u = 2^-24 and every f32 operation rounding once: g = sums * scale + wd * w has error
 * 3u G, G = |sums * scale| + |wd * w|. A moment b*m + (1-b)*g errs by 6u of the sum of its absolute
 * terms, with G for g; a second moment by 10u of b*v + (1-b)*G^2. What follows from them is the
 * propagation through w -= lr * f, to first order, with 1.2 for the rest.
 */
#ifndef LKT_OP_UPDATES_H
#define LKT_OP_UPDATES_H

#include <math.h>

#include "core/backend.h"
#include "optim/optimizer.h"
#include "support/test.h"

static const double U = 0x1p-24;

typedef struct element {
    double w, state[LKI_MAX_STATES];
    double w_error, state_error[LKI_MAX_STATES];
} element;

static element sgd(const lki_update *update, double g, double magnitude, double w, double m)
{
    const lks_optim *o = &update->optim;
    const double mu = o->momentum, part = update->step == 1 ? 1.0 : 1.0 - o->dampening;
    element e = {0};
    double direction = g, error = 3.0 * U * magnitude;

    if (mu != 0.0) {
        const double kept = update->step == 1 ? 0.0 : mu * m;

        e.state[0] = kept + part * g;
        e.state_error[0] = 6.0 * U * (fabs(kept) + part * magnitude);
        direction = o->nesterov ? g + mu * e.state[0] : e.state[0];
        error = o->nesterov
                    ? error + mu * e.state_error[0] + 3.0 * U * (magnitude + fabs(mu * e.state[0]))
                    : e.state_error[0];
    }
    e.w = w - update->lr * direction;
    e.w_error = update->lr * (error + 2.0 * U * fabs(direction)) + U * fabs(e.w);
    return e;
}

static element adam(const lki_update *update, double g, double magnitude, double w,
                    const double s[])
{
    const lks_optim *o = &update->optim;
    const double b1 = o->beta1, b2 = o->beta2;
    element e = {.state = {b1 * s[0] + (1.0 - b1) * g, b2 * s[1] + (1.0 - b2) * g * g}};

    e.state_error[0] = 6.0 * U * (b1 * fabs(s[0]) + (1.0 - b1) * magnitude);
    e.state_error[1] = 10.0 * U * (b2 * s[1] + (1.0 - b2) * magnitude * magnitude);
    const double root = sqrt(e.state[1]) / sqrt(update->correction2);
    const double below = root + o->epsilon;
    const double root_error = e.state[1] > 0.0
                                  ? root * (e.state_error[1] / (2.0 * e.state[1]) + 4.0 * U)
                                  : 0.0;
    const double step = update->lr / update->correction1 * e.state[0] / below;
    e.w = w - step;
    e.w_error = update->lr / update->correction1 * e.state_error[0] / below +
                fabs(step) * (root_error / below + 6.0 * U) + U * fabs(e.w);
    return e;
}

/* Adam on the gradient alone, and a product with lr * wd, which is rounded to f32. */
static element adamw(const lki_update *update, double g, double w, const double s[])
{
    const double decay = update->lr * update->optim.weight_decay;
    element e = adam(update, g, fabs(g), w, s);

    e.w -= decay * w;
    e.w_error += 2.0 * U * fabs(w) + U * fabs(e.w);
    return e;
}

/*
 * v and a as the moments above. The spread v - a^2 errs by what they do and 2u of each; its root is
 * bounded from both ends, as it may be small against them (so may be d = g / (root + eps)).
 */
static element rmsprop(const lki_update *update, double g, double magnitude, double w,
                       const double s[])
{
    const lks_optim *o = &update->optim;
    const double alpha = o->alpha, rest = 1.0 - alpha, mu = o->momentum, lr = update->lr;
    element e = {.state = {alpha * s[0] + rest * g * g}};
    double a = 0.0, a_error = 0.0;

    e.state_error[0] = 10.0 * U * (alpha * s[0] + rest * magnitude * magnitude);
    if (o->centered) {
        e.state[1] = a = alpha * s[1] + rest * g;
        e.state_error[1] = a_error = 6.0 * U * (alpha * fabs(s[1]) + rest * magnitude);
    }
    const double spread = e.state[0] - a * a;
    const double spread_error = e.state_error[0] + 2.0 * fabs(a) * a_error +
                                2.0 * U * (e.state[0] + a * a);
    const double root = sqrt(fmax(spread, 0.0)) + o->epsilon;
    const double low = sqrt(fmax(spread - spread_error, 0.0)) + o->epsilon;
    double d = g / root,
           d_error = (fabs(g) + 3.0 * U * magnitude) / low - fabs(d) + 6.0 * U * fabs(d);
    if (mu != 0.0) {
        d += mu * s[2];
        d_error += 3.0 * U * (fabs(mu * s[2]) + fabs(d));
        e.state[2] = d;
        e.state_error[2] = d_error;
    }
    e.w = w - lr * d;
    e.w_error = lr * (d_error + 2.0 * U * fabs(d)) + U * fabs(e.w);
    return e;
}

/* p is given in the gradient's place; lr*wd and lr/correction1 are rounded to f32. */
static element adamp(const lki_update *update, double p, double w)
{
    const lks_optim *o = &update->optim;
    const double decay = o->weight_decay * (update->projected ? o->wd_ratio : 1.0);
    const double rate = update->lr / update->correction1;
    const double along = (double)update->along * w, step = rate * (p - along);
    element e = {.w = w * (1.0 - update->lr * decay) - step};

    e.w_error = 2.0 * U * fabs(w) + U * fabs(e.w) + rate * U * (fabs(along) + fabs(p - along)) +
                2.0 * U * fabs(step);
    return e;
}

static element adadelta(const lki_update *update, double g, double magnitude, double w,
                        const double s[])
{
    const double rho = update->optim.rho, epsilon = update->optim.epsilon;
    element e = {.state = {rho * s[0] + (1.0 - rho) * g * g}};

    e.state_error[0] = 10.0 * U * (rho * s[0] + (1.0 - rho) * magnitude * magnitude);
    const double ratio = sqrt(s[1] + epsilon) / sqrt(e.state[0] + epsilon), d = ratio * g;
    const double d_error = ratio * 3.0 * U * magnitude +
                           fabs(d) * (e.state_error[0] / (2.0 * (e.state[0] + epsilon)) + 8.0 * U);
    e.state[1] = rho * s[1] + (1.0 - rho) * d * d;
    e.state_error[1] = 10.0 * U * e.state[1] + (1.0 - rho) * 2.0 * fabs(d) * d_error;
    e.w = w - update->lr * d;
    e.w_error = update->lr * (d_error + 2.0 * U * fabs(d)) + U * fabs(e.w);
    return e;
}

/* lr is rounded to f32, its product with g too, and their sum. */
static element lars(const lki_update *update, double g, double magnitude, double w, double m)
{
    const double mu = update->optim.momentum, step = update->lr * g;
    element e = {.state = {mu * m + step}};

    e.state_error[0] = update->lr * 5.0 * U * magnitude + 3.0 * U * fabs(mu * m) +
                       U * fabs(e.state[0]);
    e.w = w - e.state[0];
    e.w_error = e.state_error[0] + U * fabs(e.w);
    if (mu == 0.0) e.state[0] = e.state_error[0] = 0.0;
    return e;
}

/* p is given in the gradient's place; lr*wd and lr/correction1 are rounded to f32. */
static element lamb(const lki_update *update, double p, double w)
{
    const double step = update->lr / update->correction1 * p;
    element e = {.w = w * (1.0 - update->lr * update->optim.weight_decay) - step};

    e.w_error = 2.0 * U * fabs(w) + U * fabs(e.w) + 2.0 * U * fabs(step);
    return e;
}

static element expected(const lki_update *update, float sum, float w, const double state[])
{
    const double scaled = sum * update->scale;
    const double decay = update->optim.weight_decay * (double)w;
    const double g = scaled + decay, magnitude = fabs(scaled) + fabs(decay);

    switch (update->optim.kind) {
    case LKS_SGD:
        return sgd(update, g, magnitude, w, state[0]);
    case LKS_ADAM:
        return adam(update, g, magnitude, w, state);
    case LKS_ADADELTA:
        return adadelta(update, g, magnitude, w, state);
    case LKS_ADAMW:
        return adamw(update, scaled, w, state);
    case LKS_RMSPROP:
        return rmsprop(update, g, magnitude, w, state);
    case LKS_ADAMP:
        return adamp(update, sum, w);
    case LKS_LARS:
        return lars(update, g, magnitude, w, state[0]);
    case LKS_LAMB:
        return lamb(update, sum, w);
    }
    fail_msg("there is no formula of %s here", lki_optimizer_of(update->optim.kind)->name);
    return (element){0};
}

#endif
