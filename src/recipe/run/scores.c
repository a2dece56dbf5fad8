/* What a record has of the test beyond loss and accuracy: what each class was taken for; how well numbers fit. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "recipe/recipe.h"

static void count_sample(void *user, const lks_prediction *p)
{
    lki_scores *s = user;
    if (p->label >= 0 && p->label < s->classes) s->confusion[p->label * s->classes + p->best]++;
}

/* The counts of all processes. */
static lks_status gather(lki_scores *s, lks_comm *comm)
{
    const int ranks = lks_comm_size(comm);
    const int64_t cells = s->classes * s->classes;
    const size_t bytes = (size_t)cells * sizeof *s->confusion;
    if (ranks == 1) return LKS_OK;
    int64_t *all = malloc((size_t)ranks * bytes);
    lks_status status = all != NULL
                            ? LKS_OK
                            : LKI_FAIL(LKS_E_NOMEM, "no memory for counts of %d processes", ranks);
    status = lks_comm_agree(comm, status);
    if (status == LKS_OK) status = lks_comm_all_gather(comm, s->confusion, bytes, all);
    for (int64_t i = 0; i < cells && status == LKS_OK; i++) {
        s->confusion[i] = 0;
        for (int r = 0; r < ranks; r++) s->confusion[i] += all[r * cells + i];
    }
    free(all);
    return status;
}

static lks_status count_classes(lks_recipe *recipe, lki_scores *s)
{
    const lks_shape shape = lks_tensor_shape(recipe->session.network.output);
    lks_metrics sum;
    s->classes = lks_shape_elements(&shape);
    if (s->classes > LKI_SCORES_CLASSES) return LKS_OK;
    s->confusion = calloc((size_t)(s->classes * s->classes), sizeof *s->confusion);
    LKI_TRY(lki_recipe_agree(
        recipe, s->confusion != NULL
                    ? LKS_OK
                    : LKI_FAIL(LKS_E_NOMEM, "no memory for what classes are taken for")));
    LKI_TRY(lks_recipe_evaluate_each(recipe, NULL, &sum, count_sample, s));
    return gather(s, recipe->session.comm);
}

static lks_status measure_fits(lks_recipe *recipe, lki_scores *s)
{
    lks_metrics sum;
    s->targets = lks_shape_elements(&recipe->session.info.target_shape);
    s->fit = calloc((size_t)s->targets, sizeof *s->fit);
    LKI_TRY(lki_recipe_agree(
        recipe, s->fit != NULL ? LKS_OK : LKI_FAIL(LKS_E_NOMEM, "no memory for scores")));
    return lks_recipe_fits(recipe, NULL, &sum, s->fit);
}

lks_status lki_scores_take(lks_recipe *recipe)
{
    const lki_session *s = &recipe->session;
    lki_scores found = {0};
    if (!recipe->run.finished || s->test == NULL ||
        !lki_config_has(recipe->config, LKI_KEY_LOG_RECORD) ||
        lki_config_bool(recipe->config, LKI_KEY_TRAIN_DRY_RUN) ||
        lks_model_get_info(s->model).positions > 0)
        return LKS_OK;
    const lks_status status = (s->info.classes > 0 ? count_classes : measure_fits)(recipe, &found);
    if (status == LKS_OK)
        recipe->scores = found;
    else
        lki_scores_free(&found);
    return status;
}
