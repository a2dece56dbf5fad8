/* When and how the model has changed who runs which replicas, for the record. */
#include <stdlib.h>

#include "recipe/recipe.h"
#include "recipe/run/record.h"

#include "base/check.h"

lks_status lki_cuts_follow(lks_recipe *recipe, int64_t step)
{
    const lks_model *model = recipe->session.model;
    const lks_model_info info = lks_model_get_info(model);
    const size_t count = (size_t)recipe->cut_count, workers = (size_t)info.all_workers;
    if (info.cuts == recipe->cut_count) return LKS_OK;
    lki_cut *more = realloc(recipe->cuts, (count + 1) * sizeof *more);
    if (more != NULL) recipe->cuts = more;
    int64_t *replicas = malloc(workers * sizeof *replicas);
    if (more == NULL || replicas == NULL) {
        free(replicas);
        return LKI_FAIL(LKS_E_NOMEM, "no memory for the shares of workers in the record");
    }
    for (int w = 0; w < info.all_workers; w++)
        replicas[w] = lks_model_border(model, w + 1) - lks_model_border(model, w);
    more[recipe->cut_count++] = (lki_cut){
        .step = step, .replicas = replicas, .workers = info.all_workers};
    return LKS_OK;
}

void lki_cuts_emit(lki_emit *e, const lks_recipe *recipe)
{
    lki_emit_key(e, "balance");
    lki_emit_open(e, '[', recipe->cut_count == 0);
    for (int64_t i = 0; i < recipe->cut_count; i++) {
        const lki_cut *cut = &recipe->cuts[i];
        lki_emit_open(e, '{', false);
        lki_emit_key(e, "step");
        lki_emit_int(e, cut->step);
        lki_emit_key(e, "replicas");
        lki_emit_open(e, '[', true);
        for (int w = 0; w < cut->workers; w++) lki_emit_int(e, cut->replicas[w]);
        lki_emit_close(e, ']');
        lki_emit_close(e, '}');
    }
    lki_emit_close(e, ']');
}

void lki_cuts_free(lks_recipe *recipe)
{
    for (int64_t i = 0; i < recipe->cut_count; i++) free(recipe->cuts[i].replicas);
    free(recipe->cuts);
}
