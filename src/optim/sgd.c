/* g += wd*w; m = mu*m + (1-dampening)*g (first step: m = g); nesterov: g += mu*m, else g = m; w -= lr*g */
#include "base/check.h"
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_ATTRIBUTE(DOUBLE, lks_optim, momentum, .range = "[0,)"),
    LKI_ATTRIBUTE(DOUBLE, lks_optim, dampening, .range = "[0,1]"),
    LKI_ATTRIBUTE(BOOL, lks_optim, nesterov, .fallback = "false"),
};

static bool sgd_keeps(const lks_optim *optim, int array)
{
    return array == 0 && optim->momentum != 0.0;
}

static lks_status sgd_check(const lks_optim *optim)
{
    if (!optim->nesterov || (optim->momentum > 0.0 && optim->dampening == 0.0)) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "sgd: nesterov needs a momentum above 0 and no dampening; found momentum %g, "
                    "dampening %g",
                    optim->momentum, optim->dampening);
}

const lki_optimizer lki_optimizer_sgd = {
    .name = "sgd",
    .what = "the gradient, with or without momentum",
    .lr = "0.001",
    .kind = LKS_SGD,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"momentum_buffer"},
    .keeps = sgd_keeps,
    .check = sgd_check,
};

lks_optim lks_sgd(double momentum)
{
    lks_optim optim = lki_optimizer_make(&lki_optimizer_sgd);
    optim.momentum = momentum;
    return optim;
}
