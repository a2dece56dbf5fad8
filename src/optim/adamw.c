/* w -= lr*wd*w; then as Adam with the gradient alone. */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(DOUBLE, lks_optim, weight_decay, .range = "[0,)", .fallback = "0.01"),
    LKI_OPTIM_MOMENTS,
    LKI_OPTIM_EPSILON("1e-8"),
};

const lki_optimizer lki_optimizer_adamw = {
    .name = "adamw",
    .what = "adam, with weights that decay by themselves",
    .lr = "0.001",
    .kind = LKS_ADAMW,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"exp_avg", "exp_avg_sq"},
    .squares = {false, true},
};

lks_optim lks_adamw(void)
{
    return lki_optimizer_make(&lki_optimizer_adamw);
}
