#include "support/optims.h"

#include <stdio.h>
#include <string.h>

/* Half of a default, which lies in every range that has a number above 0; a quarter, where it is 0. */
static void change(const lki_attribute *a, lks_optim *optim)
{
    const lks_optim before = *optim;
    void *to = (char *)optim + a->offset;
    if (a->type == LKI_BOOL)
        *(bool *)to = !*(bool *)to;
    else if (a->type == LKI_DOUBLE)
        *(double *)to = *(double *)to != 0 ? *(double *)to / 2 : 0.25;
    if (lks_optim_check(optim) != LKS_OK) *optim = before;
}

const char *lkt_optim(int number, lks_optim *out)
{
    static char name[64];
    const lki_optimizer *optimizer = lki_optimizer_at(number / 2);
    if (optimizer == NULL) return NULL;
    *out = lki_optimizer_make(optimizer);
    for (int i = 0; i < optimizer->attributes.count && number % 2 == 1; i++)
        change(&optimizer->attributes.list[i], out);
    snprintf(name, sizeof name, "%s%s", optimizer->name, number % 2 == 1 ? ", other values" : "");
    return name;
}
