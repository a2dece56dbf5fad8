/* The training loop: the state of the model when its loss was the best. */
#include "train/loop.h"

#include <stdlib.h>

/* Bytes of a model's state that a checkpoint would hold. */
static size_t state_bytes(const lks_model *model)
{
    size_t bytes = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_GRADIENT) bytes += info.bytes;
    }
    return bytes;
}

lks_status lki_loop_make_best(loop *l)
{
    if (!restores(l) || l->opts.folder) return LKS_OK;
    l->best = malloc(state_bytes(l->opts.model) + 1);
    return agree(l, l->best ? LKS_OK
                            : lks_fail(LKS_E_NOMEM, "training: no memory for the best weights"));
}

lks_status lki_loop_copy_best(loop *l, bool restore)
{
    lks_model *model = l->opts.model;
    uint8_t *at = l->best;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind == LKS_GRADIENT) continue;
        TRY(restore ? lks_model_state_write(model, i, at, info.bytes)
                    : lks_model_state_read(model, i, at, info.bytes));
        at += info.bytes;
    }
    if (restore)
        lks_model_set_progress(model, l->best_progress);
    else
        l->best_progress = lks_model_progress(model);
    return LKS_OK;
}

/* Whether the best has a checkpoint. */
static lks_status find_best(const loop *l, bool *there)
{
    lks_run found = {0};
    lks_status status = LKS_OK;
    if (leads(l))
        status = lks_checkpoint_load(l->context, NULL, &found, l->opts.folder, l->run->best_step);
    lks_run_clear(&found);
    status = agree(l, status);
    *there = status == LKS_OK;
    return status == LKS_E_IO ? LKS_OK : status;
}

lks_status lki_loop_restore_best(loop *l)
{
    const int64_t best = l->run->best_step;
    lks_run found;
    bool there;
    if (!restores(l) || best < 0 || best == l->run->progress.step) return LKS_OK;
    if (!l->opts.folder) return lki_loop_copy_best(l, true);
    TRY(find_best(l, &there));
    if (!there) return LKS_OK;
    TRY(lks_checkpoint_load(l->context, l->opts.model, &found, l->opts.folder, best));
    lks_run_clear(&found);
    return LKS_OK;
}
