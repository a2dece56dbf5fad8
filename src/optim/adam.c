/* g += wd*w; m, v moments; w -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps) */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_OPTIM_MOMENTS,
    LKI_OPTIM_EPSILON("1e-8"),
};

const lki_optimizer lki_optimizer_adam = {
    .name = "adam",
    .what = "steps by the mean of gradients over the root of the mean of their squares",
    .lr = "0.001",
    .kind = LKS_ADAM,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"exp_avg", "exp_avg_sq"},
    .squares = {false, true},
};

lks_optim lks_adam(void)
{
    return lki_optimizer_make(&lki_optimizer_adam);
}
