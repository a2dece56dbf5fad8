/* What a record has of the test beyond loss and accuracy: what each class was taken for; how well numbers fit. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "recipe/recipe.h"

static void count_sample(void *user, const lks_prediction *p)
{
    lks_class_counts_add(user, p->label, p->best);
}

/* Where the training has not tested these weights itself: it ended within an epoch, or was complete already. */
static lks_status count_test_classes(lks_recipe *recipe, lki_scores *s)
{
    const int64_t classes = lks_model_get_info(recipe->session.model).classes;
    lks_class_counts counts = {0};
    lks_metrics sum;
    (void)s;
    if (recipe->run.confusion != NULL || classes > LKS_CONFUSION_CLASSES) return LKS_OK;
    lks_status status = lki_recipe_agree(recipe, lks_class_counts_make(&counts, classes, true));
    if (status == LKS_OK)
        status = lks_recipe_evaluate_each(recipe, NULL, &sum, count_sample, &counts);
    if (status == LKS_OK) status = lks_class_counts_sum_matrix(&counts, recipe->session.comm);
    if (status == LKS_OK) {
        recipe->run.confusion = counts.confusion;
        recipe->run.confusion_classes = classes;
        counts.confusion = NULL;
    }
    lks_class_counts_free(&counts);
    return status;
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
    const lks_status status = (s->info.classes > 0 ? count_test_classes : measure_fits)(recipe,
                                                                                        &found);
    if (status == LKS_OK)
        recipe->scores = found;
    else
        lki_scores_free(&found);
    return status;
}
