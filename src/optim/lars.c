/* Momentum, with a rate of its own for each tensor (Y. You, I. Gitman, B. Ginsburg: "Large batch training of
 * convolutional networks", 2017, algorithm 1): optim.h. */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_ATTRIBUTE(DOUBLE, lks_optim, momentum, .range = "[0,)"),
    LKI_ATTRIBUTE(DOUBLE, lks_optim, trust, .range = "[0,)", .fallback = "0.001"),
    LKI_OPTIM_EPSILON("1e-8"),
};

static bool lars_keeps(const lks_optim *optim, int array)
{
    return array == 0 && optim->momentum != 0.0;
}

const lki_optimizer lki_optimizer_lars = {
    .name = "lars",
    .what = "sgd, with a rate for each tensor by its norm and its gradient's, for large batches",
    .lr = "0.1",
    .kind = LKS_LARS,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"momentum_buffer"},
    .keeps = lars_keeps,
    .by_rows = true,
};

lks_optim lks_lars(void)
{
    return lki_optimizer_make(&lki_optimizer_lars);
}
