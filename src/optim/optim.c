#include <math.h>
#include <stddef.h>

#include <lockstep/optim.h>

#include "base/check.h"

lks_optim lks_sgd(double momentum)
{
    return (lks_optim){.kind = LKS_SGD, .momentum = momentum};
}

lks_optim lks_adam(void)
{
    return (lks_optim){.kind = LKS_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

lks_optim lks_adadelta(void)
{
    return (lks_optim){.kind = LKS_ADADELTA, .rho = 0.9, .epsilon = 1e-6};
}

lks_optim lks_adamw(void)
{
    lks_optim optim = lks_adam();
    optim.kind = LKS_ADAMW;
    optim.weight_decay = 0.01;
    return optim;
}

lks_optim lks_rmsprop(void)
{
    return (lks_optim){.kind = LKS_RMSPROP, .alpha = 0.99, .epsilon = 1e-8};
}

lks_optim lks_adamp(void)
{
    lks_optim optim = lks_adam();
    optim.kind = LKS_ADAMP;
    optim.delta = 0.1;
    optim.wd_ratio = 0.1;
    return optim;
}

lks_group lks_group_of(const char *match)
{
    return (lks_group){.match = match, .weight_decay = (double)NAN, .lr_factor = (double)NAN};
}

/* low <= value <= high, and finite. */
static lks_status in_range(const char *optim, const char *field, double value, double low,
                           double high)
{
    if (value >= low && value <= high && isfinite(value)) return LKS_OK;
    if (isinf(high)) {
        return LKI_FAIL(LKS_E_INVALID, "%s: %s is %g, expected %g or more", optim, field, value,
                        low);
    }
    return LKI_FAIL(LKS_E_INVALID, "%s: %s is %g, expected a number from %g to %g", optim, field,
                    value, low, high);
}

static lks_status below_one(const char *optim, const char *field, double value)
{
    if (value >= 0.0 && value < 1.0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "%s: %s is %g, expected a number of at least 0 and below 1",
                    optim, field, value);
}

static lks_status check_sgd(const lks_optim *optim)
{
    LKI_TRY(in_range("sgd", "weight_decay", optim->weight_decay, 0.0, (double)INFINITY));
    LKI_TRY(in_range("sgd", "momentum", optim->momentum, 0.0, (double)INFINITY));
    LKI_TRY(in_range("sgd", "dampening", optim->dampening, 0.0, 1.0));
    if (optim->nesterov && !(optim->momentum > 0.0 && optim->dampening == 0.0)) {
        return LKI_FAIL(LKS_E_INVALID,
                        "sgd: nesterov needs a momentum above 0 and no dampening; found momentum "
                        "%g, dampening %g",
                        optim->momentum, optim->dampening);
    }
    return LKS_OK;
}

/* Adam, and what is made of it. */
static lks_status check_adam(const char *name, const lks_optim *optim)
{
    LKI_TRY(in_range(name, "weight_decay", optim->weight_decay, 0.0, (double)INFINITY));
    LKI_TRY(below_one(name, "beta1", optim->beta1));
    LKI_TRY(below_one(name, "beta2", optim->beta2));
    return in_range(name, "epsilon", optim->epsilon, 0.0, (double)INFINITY);
}

static lks_status check_adadelta(const lks_optim *optim)
{
    LKI_TRY(in_range("adadelta", "weight_decay", optim->weight_decay, 0.0, (double)INFINITY));
    LKI_TRY(in_range("adadelta", "rho", optim->rho, 0.0, 1.0));
    return in_range("adadelta", "epsilon", optim->epsilon, 0.0, (double)INFINITY);
}

static lks_status check_rmsprop(const lks_optim *optim)
{
    LKI_TRY(in_range("rmsprop", "weight_decay", optim->weight_decay, 0.0, (double)INFINITY));
    LKI_TRY(in_range("rmsprop", "momentum", optim->momentum, 0.0, (double)INFINITY));
    LKI_TRY(in_range("rmsprop", "alpha", optim->alpha, 0.0, 1.0));
    return in_range("rmsprop", "epsilon", optim->epsilon, 0.0, (double)INFINITY);
}

static lks_status check_adamp(const lks_optim *optim)
{
    LKI_TRY(check_adam("adamp", optim));
    LKI_TRY(in_range("adamp", "delta", optim->delta, 0.0, (double)INFINITY));
    return in_range("adamp", "wd_ratio", optim->wd_ratio, 0.0, (double)INFINITY);
}

lks_status lks_optim_check(const lks_optim *optim)
{
    if (optim == NULL) return LKI_FAIL_NULL(optim);
    switch (optim->kind) {
    case LKS_SGD:
        return check_sgd(optim);
    case LKS_ADAM:
        return check_adam("adam", optim);
    case LKS_ADADELTA:
        return check_adadelta(optim);
    case LKS_ADAMW:
        return check_adam("adamw", optim);
    case LKS_RMSPROP:
        return check_rmsprop(optim);
    case LKS_ADAMP:
        return check_adamp(optim);
    }
    return LKI_FAIL(LKS_E_INVALID,
                    "optimizer: kind is %d, expected LKS_SGD or another lks_optim_kind",
                    (int)optim->kind);
}
