/* Adam's direction without what it has along the weight (B. Heo et al.: "AdamP", ICLR 2021): optim.h. */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_OPTIM_MOMENTS,
    LKI_OPTIM_EPSILON("1e-8"),
    LKI_ATTRIBUTE(DOUBLE, lks_optim, delta, .range = "[0,)", .fallback = "0.1"),
    LKI_ATTRIBUTE(DOUBLE, lks_optim, wd_ratio, .range = "[0,)", .fallback = "0.1"),
    LKI_ATTRIBUTE(BOOL, lks_optim, nesterov, .fallback = "false"),
};

const lki_optimizer lki_optimizer_adamp = {
    .name = "adamp",
    .what = "adam, whose steps do not grow the weights that a normalisation follows",
    .lr = "0.001",
    .kind = LKS_ADAMP,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"exp_avg", "exp_avg_sq"},
    .squares = {false, true},
    .by_rows = true,
};

lks_optim lks_adamp(void)
{
    return lki_optimizer_make(&lki_optimizer_adamp);
}
