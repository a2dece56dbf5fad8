/* Adam's direction, as long as the tensor's norm says (Y. You et al.: "Large batch optimization for deep learning:
 * training BERT in 76 minutes", 2019, algorithm 2): optim.h. */
#include "optim/optimizer.h"

static const lki_attribute attributes[] = {
    LKI_OPTIM_DECAY,
    LKI_OPTIM_MOMENTS,
    LKI_OPTIM_EPSILON("1e-6"),
};

const lki_optimizer lki_optimizer_lamb = {
    .name = "lamb",
    .what = "adam, with steps of each tensor as long as its norm says, for large batches",
    .lr = "0.001",
    .kind = LKS_LAMB,
    .attributes = LKI_ATTRIBUTES(attributes),
    .states = {"exp_avg", "exp_avg_sq"},
    .squares = {false, true},
    .by_rows = true,
};

lks_optim lks_lamb(void)
{
    return lki_optimizer_make(&lki_optimizer_lamb);
}
