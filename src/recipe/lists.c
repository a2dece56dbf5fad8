/* What there is by name, from the tables of whoever has names. */
#include <stddef.h>

#include <lockstep/tools.h>

#include "optim/optimizer.h"
#include "recipe/layer.h"

/* Number `number` of the operations that are layers, or losses. */
static const lki_op *list_op(lks_list list, int number)
{
    const bool loss = list == LKS_LIST_LOSSES;
    if (number < 0 || (!loss && list != LKS_LIST_LAYERS)) return NULL;
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++) {
        const lki_op *op = lki_op_get(id);
        if ((loss ? op->is_loss : lki_is_layer(op)) && number-- == 0) return op;
    }
    return NULL;
}

const char *lks_list_name(lks_list list, int number, const char **what)
{
    const lki_optimizer *optimizer = list == LKS_LIST_OPTIMIZERS ? lki_optimizer_at(number) : NULL;
    if (optimizer != NULL && what != NULL) *what = optimizer->what;
    if (optimizer != NULL) return optimizer->name;
    const lki_op *op = list_op(list, number);
    if (op != NULL && what != NULL) *what = op->what;
    return op != NULL ? op->name : NULL;
}

bool lks_list_option(lks_list list, int number, int option, lks_option *out)
{
    const lki_op *op = list_op(list, number);
    const lki_optimizer *optimizer = list == LKS_LIST_OPTIMIZERS ? lki_optimizer_at(number) : NULL;
    const lki_attribute *a = op != NULL && option >= 0 ? lki_layer_option(op, option) : NULL;
    if (optimizer != NULL && option >= 0 && option < optimizer->attributes.count)
        a = &optimizer->attributes.list[option];
    if (a == NULL || out == NULL) return false;
    *out = (lks_option){.name = a->name,
                        .required = a->required,
                        .standard = a->fallback,
                        .help = a->help != NULL ? a->help : ""};
    lki_attribute_describe(a, out->expected, sizeof out->expected);
    return true;
}
