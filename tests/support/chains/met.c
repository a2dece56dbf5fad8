/* Kernels that were met. */
#include "support/chains/met.h"

#include "model/model.h"
#include "support/backends.h"
#include "support/test.h"

lkt_met lkt_met_none(void)
{
    lkt_met met = {.count = 0};
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int i = 0; lkt_backends()[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = lkt_backends()[b]->impl[i];
            if (impl->count == 1 && impl->refuses == NULL) continue;
            assert_true(met.count < LKT_MOST_IMPLS);
            met.impl[met.count++] = impl;
        }
    return met;
}

bool lkt_met_others(lkt_met *met, const lks_model *model, int wanted)
{
    bool others = false;
    for (int s = 0; s < model->program.stages; s++)
        for (int i = 0; i < met->count; i++)
            if (met->impl[i] == model->program.stage[s].impl) others |= met->times[i]++ < wanted;
    return others;
}

const char *lkt_met_fewer(const lkt_met *met, int wanted)
{
    for (int i = 0; i < met->count; i++)
        if (met->times[i] < wanted) return met->impl[i]->name;
    return NULL;
}
