#include <math.h>
#include <string.h>

#include "base/check.h"
#include "optim/optimizer.h"

static const lki_optimizer *const optimizers[] = {
#define X(ID, id) &lki_optimizer_##id,
    LKI_OPTIMIZER_LIST(X)
#undef X
};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

const lki_optimizer *lki_optimizer_at(int number)
{
    return number >= 0 && number < OPTIMIZERS ? optimizers[number] : NULL;
}

const lki_optimizer *lki_optimizer_of(lks_optim_kind kind)
{
    for (int i = 0; i < OPTIMIZERS; i++)
        if (optimizers[i]->kind == kind) return optimizers[i];
    return NULL;
}

const lki_optimizer *lki_optimizer_find(const char *name)
{
    for (int i = 0; i < OPTIMIZERS; i++)
        if (strcmp(optimizers[i]->name, name) == 0) return optimizers[i];
    return NULL;
}

bool lki_optimizer_keeps(const lks_optim *optim, int array)
{
    const lki_optimizer *optimizer = lki_optimizer_of(optim->kind);
    if (optimizer == NULL || optimizer->states[array] == NULL) return false;
    return optimizer->keeps == NULL || optimizer->keeps(optim, array);
}

lks_optim lki_optimizer_make(const lki_optimizer *optimizer)
{
    lks_optim optim = {.kind = optimizer->kind};
    lki_attributes_fill(&optimizer->attributes, &optim);
    return optim;
}

lks_group lks_group_of(const char *match)
{
    return (lks_group){.match = match, .weight_decay = (double)NAN, .lr_factor = (double)NAN};
}

lks_status lks_optim_check(const lks_optim *optim)
{
    if (optim == NULL) return LKI_FAIL_NULL(optim);
    const lki_optimizer *optimizer = lki_optimizer_of(optim->kind);
    if (optimizer == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "optimizer: kind is %d, expected LKS_SGD or another lks_optim_kind",
                        (int)optim->kind);
    LKI_TRY(lki_attributes_check(&optimizer->attributes, optim, optimizer->name));
    return optimizer->check != NULL ? optimizer->check(optim) : LKS_OK;
}
