/* g += wd*w; v = alpha*v + (1-alpha)*g^2; centered: a = alpha*a + (1-alpha)*g, else a = 0;
 * d = g/(sqrt(max(v - a^2, 0)) + eps); momentum: d = m = mu*m + d; w -= lr*d */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_ATTRIBUTE(DOUBLE, lks_optim, momentum, .range = "[0,)"),
    LKI_ATTRIBUTE(DOUBLE, lks_optim, alpha, .range = "[0,1]", .fallback = "0.99"),
    LKI_OPTIM_EPSILON("1e-8"),
    LKI_ATTRIBUTE(BOOL, lks_optim, centered, .fallback = "false"),
};

static bool rmsprop_keeps(const lks_optim *optim, int array)
{
    return array == 0 || (array == 1 ? optim->centered : optim->momentum != 0.0);
}

const lki_optimizer lki_optimizer_rmsprop = {
    .name = "rmsprop",
    .what = "the gradient over the root of the mean of its squares",
    .lr = "0.01",
    .kind = LKS_RMSPROP,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"square_avg", "grad_avg", "momentum_buffer"},
    .squares = {true, false, false},
    .keeps = rmsprop_keeps,
};

lks_optim lks_rmsprop(void)
{
    return lki_optimizer_make(&lki_optimizer_rmsprop);
}
