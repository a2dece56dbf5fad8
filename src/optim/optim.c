#include <math.h>

#include "base/check.h"
#include "base/named.h"
#include "optim/optimizer.h"

static const void *const optimizers[] = {
#define X(KIND, name) &lki_optimizer_##name,
    LKS_OPTIMIZERS(X)
#undef X
};
static const lki_named named = LKI_NAMED(optimizers);

const lki_optimizer *lki_optimizer_at(int number)
{
    return lki_named_at(&named, number);
}

const lki_optimizer *lki_optimizer_find(const char *name)
{
    return lki_named_find(&named, name);
}

const lki_optimizer *lki_optimizer_of(lks_optim_kind kind)
{
    const lki_optimizer *optimizer;
    for (int i = 0; (optimizer = lki_optimizer_at(i)) != NULL; i++)
        if (optimizer->kind == kind) return optimizer;
    return NULL;
}

bool lki_optimizer_keeps(const lks_optim *optim, int array)
{
    const lki_optimizer *optimizer = lki_optimizer_of(optim->kind);
    if (optimizer == NULL || optimizer->states[array] == NULL) return false;
    return optimizer->keeps == NULL || optimizer->keeps(optim, array);
}

bool lki_optimizer_by_rows(const lks_optim *optim)
{
    const lki_optimizer *optimizer = lki_optimizer_of(optim->kind);
    return optimizer != NULL && optimizer->by_rows;
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
