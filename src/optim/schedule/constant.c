#include "optim/schedule/schedule.h"

const lki_schedule_rule lki_schedule_constant = {
    .name = "constant",
    .kind = LKS_CONSTANT,
};
