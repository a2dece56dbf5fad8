/* What a record has of the test beyond loss and accuracy: what each class was taken for; how well numbers fit. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "recipe/recipe.h"

static void count_sample(void *user, const lks_prediction *p)
{
    lks_class_counts_add(user, p->label, p->best);
}

/* Where the training has not tested these weights itself, as it was complete already. */
static lks_status count_test_classes(lks_recipe *recipe)
{
    const int64_t classes = lks_model_get_info(recipe->session.model).classes;
    lks_class_counts counts = {0};
    lks_metrics sum;
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

static void add_prediction(void *user, const lks_prediction *p)
{
    lki_fits_add(user, 1, p->output, p->wanted);
}

lks_status lks_recipe_fits(lks_recipe *recipe, lks_dataset *dataset, lks_metrics *sum, lks_fit *out)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (sum == NULL) return LKI_FAIL_NULL(sum);
    if (out == NULL) return LKI_FAIL_NULL(out);
    if (dataset == NULL) dataset = recipe->session.test;
    const lks_dataset_info info = lks_dataset_get_info(dataset);
    if (dataset == NULL || info.classes > 0)
        return LKI_FAIL(LKS_E_UNSUPPORTED, "R2 and the like are of numbers, but this data has %s",
                        dataset == NULL ? "no samples" : "classes");
    lki_fits *f;
    lks_status status = lki_recipe_agree(recipe, lki_fits_make(&f, dataset));
    if (status == LKS_OK)
        status = lks_recipe_evaluate_each(recipe, dataset, sum, add_prediction, f);
    if (status == LKS_OK) status = lki_fits_gather(f, recipe->session.comm);
    if (status == LKS_OK) lki_fits_get(f, out);
    lki_fits_free(f);
    return status;
}

static bool are_wanted(const lks_recipe *recipe)
{
    const lki_session *s = &recipe->session;
    return s->test != NULL && recipe->record != NULL &&
           !lki_config_bool(recipe->config, LKI_KEY_TRAIN_DRY_RUN) &&
           lks_model_get_info(s->model).positions == 0;
}

static void on_test(void *user, const lks_batch *batch, const float *output)
{
    lks_recipe *recipe = user;
    lki_scores *s = &recipe->scores;
    if (s->sums != NULL) {
        lki_fits_add(s->sums, batch->count, output, batch->y);
        s->tested = true;
    }
    if (recipe->events.on_test != NULL) recipe->events.on_test(recipe->events.user, batch, output);
}

/* Without memory for the sums another pass is made behind the training, or nothing. */
void lki_scores_begin(lks_recipe *recipe)
{
    lki_scores *s = &recipe->scores;
    if (are_wanted(recipe) && recipe->session.info.classes == 0 &&
        lki_recipe_agree(recipe, lki_fits_make(&s->sums, recipe->session.test)) != LKS_OK)
        lki_scores_free(s);
    if (s->sums != NULL || recipe->events.on_test != NULL) recipe->opts.events.on_test = on_test;
}

/* The training's last test is of the weights that the model has, unless earlier ones were the best. */
static lks_status measure_fits(lks_recipe *recipe)
{
    lki_scores *s = &recipe->scores;
    const bool ours = s->tested &&
                      lks_model_progress(recipe->session.model).step == recipe->run.progress.step;
    const int64_t targets = lks_shape_elements(&recipe->session.info.target_shape);
    lks_metrics sum;
    lks_fit *fit = calloc((size_t)targets, sizeof *fit);
    lks_status status = lki_recipe_agree(
        recipe, fit != NULL ? LKS_OK : LKI_FAIL(LKS_E_NOMEM, "no memory for scores"));
    if (status == LKS_OK)
        status = ours ? lki_fits_gather(s->sums, recipe->session.comm)
                      : lks_recipe_fits(recipe, NULL, &sum, fit);
    if (status == LKS_OK && ours) lki_fits_get(s->sums, fit);
    if (status != LKS_OK) {
        free(fit);
        return status;
    }
    s->fit = fit;
    s->targets = targets;
    return LKS_OK;
}

lks_status lki_scores_take(lks_recipe *recipe)
{
    if (!recipe->run.finished || !are_wanted(recipe)) return LKS_OK;
    return recipe->session.info.classes > 0 ? count_test_classes(recipe) : measure_fits(recipe);
}
