/* g += wd*w; v = rho*v + (1-rho)*g^2; d = sqrt(u+eps)/sqrt(v+eps)*g; u = rho*u + (1-rho)*d^2; w -= lr*d */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_ATTRIBUTE(DOUBLE, lks_optim, rho, .range = "[0,1]", .fallback = "0.9"),
    LKI_OPTIM_EPSILON("1e-6"),
};

const lki_optimizer lki_optimizer_adadelta = {
    .name = "adadelta",
    .what = "steps in proportion to those before",
    .lr = "1",
    .kind = LKS_ADADELTA,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"square_avg", "acc_delta"},
    .squares = {true, true},
};

lks_optim lks_adadelta(void)
{
    return lki_optimizer_make(&lki_optimizer_adadelta);
}
