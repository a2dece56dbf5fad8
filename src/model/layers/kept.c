/* What is kept of a pass layer by layer, as jobs see it: a step may take its gradients, others write over it. */
#include "base/check.h"
#include "model/layers/layers.h"

float *lki_layers_sums(const lks_model *model)
{
    return model->reduce.holder[0].memory;
}

lks_status lki_layers_enter(lks_model *model, const char *call)
{
    LKI_TRY(lki_model_enter(model, call));
    if (model->layers != NULL) return LKS_OK;
    return lki_model_leave(
        model, LKI_FAIL(LKS_E_STATE,
                        "%s() needs a model that was compiled with lks_model_opts.layers", call));
}

void lki_layers_forget(lks_model *model)
{
    lki_layers *layers = model->layers;
    if (layers == NULL || layers->taking) return;
    layers->activations = layers->follows = layers->gradients = false;
    if (model->mode == LKI_TRAIN || model->mode == LKI_GRADIENT) layers->counted = 0;
}

bool lki_layers_formed(lks_model *model)
{
    const lki_layers *layers = model->layers;
    if (layers == NULL || !layers->taking) return false;
    const lki_tree_node all = {.lo = 0, .hi = 1};
    model->worker[0].status = LKS_OK;
    model->worker[0].bad_count = 0;
    lki_reduce_begin(&model->reduce, 0);
    lki_reduce_push(&model->reduce, 0, 0, all, lki_layers_sums(model));
    return true;
}
