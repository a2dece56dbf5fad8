/* Weights of a recipe: loaded, evaluated, used for predictions. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include <jansson.h>

#include "recipe/recipe.h"

#include "base/check.h"

/* Whether a run ends with its best weights, by the configuration in its checkpoint. */
static bool restores_best(const lks_run *run)
{
    json_t *config = run->config != NULL ? json_loads(run->config, 0, NULL) : NULL;
    const json_t *section = json_object_get(config, "validation");
    const bool restores = json_is_integer(json_object_get(section, "patience")) &&
                          json_is_true(json_object_get(section, "restore_best"));
    json_decref(config);
    return restores;
}

/* From the newest step of a folder to the one that is wanted. */
static lks_status choose_step(int64_t *step, lks_recipe *recipe, lks_which which,
                              const char *folder)
{
    lks_run run, best;
    lks_context *context = recipe->session.context;
    if (which == LKS_WHICH_LAST) return LKS_OK;
    LKI_TRY(lks_checkpoint_load(context, NULL, &run, folder, *step));
    const bool asked = which == LKS_WHICH_BEST, wanted = asked || restores_best(&run);
    const int64_t newest = *step, found = run.best_step;
    lks_run_clear(&run);
    if (wanted && found >= 0) {
        const lks_status status = lks_checkpoint_load(context, NULL, &best, folder, found);
        lks_run_clear(&best);
        if (status != LKS_E_IO) *step = found;
        if (status == LKS_OK || !asked) return LKS_OK;
        return LKI_FAIL(status,
                        "the best loss of the run in %.200s was after step %" PRId64
                        ", which has no checkpoint; --last takes the newest, of step %" PRId64,
                        folder, found, newest);
    }
    if (!asked || found >= 0) return LKS_OK;
    return LKI_FAIL(LKS_E_IO,
                    "the run in %.200s has no best loss: no whole epoch was evaluated until step "
                    "%" PRId64 "; --last takes that step's checkpoint",
                    folder, newest);
}

static lks_status no_model(void)
{
    return LKI_FAIL(LKS_E_STATE, "the recipe has no model yet: open its data and compile first");
}

/* The checkpoint that is wanted, of a folder that the first process can read. */
static lks_status find_step(int64_t *step, lks_recipe *recipe, lks_which which, const char *folder)
{
    LKI_TRY(lks_checkpoint_find(folder, step));
    if (*step < 0)
        return LKI_FAIL(LKS_E_IO, "there is no checkpoint in %.300s; train with --out first",
                        folder);
    return choose_step(step, recipe, which, folder);
}

/* Weights of another network may be meant: most often its head is another. */
static lks_status init_all(lks_model *model, const char *file)
{
    char says[sizeof lks_last_error()->message];
    const lks_status status = lks_weights_load(model, file);
    if (status != LKS_E_MISMATCH) return status;
    snprintf(says, sizeof says, "%s", lks_last_error()->message);
    return LKI_FAIL(status, "%s; to begin with what fits: model.init_matching: true", says);
}

lks_status lks_recipe_init_weights(lks_recipe *recipe)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (recipe->session.model == NULL) return no_model();
    const char *file = lki_config_text(recipe->config, LKI_KEY_MODEL_INIT);
    if (file == NULL && lki_config_has(recipe->config, LKI_KEY_MODEL_WHITEN))
        return lki_whiten(&recipe->session);
    if (file == NULL) return LKS_OK;
    if (lki_config_bool(recipe->config, LKI_KEY_MODEL_INIT_MATCHING))
        return lks_weights_load_matching(recipe->session.model, file);
    return init_all(recipe->session.model, file);
}

lks_status lks_recipe_load(lks_recipe *recipe, lks_which which, int64_t *step)
{
    int64_t newest;
    if (step == NULL) step = &newest;
    void *array = step;
    *step = -1;
    if ((int)which < LKS_WHICH_RUN || (int)which > LKS_WHICH_LAST)
        return LKI_FAIL(LKS_E_INVALID,
                        "lks_recipe_load() got which %d, expected one of lks_which, which are %d "
                        "to %d",
                        (int)which, LKS_WHICH_RUN, LKS_WHICH_LAST);
    LKI_TRY(lks_recipe_resolve(recipe));
    if (recipe->session.model == NULL) return no_model();
    LKI_TRY(lki_ranks_compare_config(recipe));
    LKI_TRY(lki_ranks_compare_data(recipe));
    const char *file = lki_config_text(recipe->config, LKI_KEY_MODEL_INIT);
    const char *folder = lki_config_text(recipe->config, LKI_KEY_CHECKPOINT_PATH);
    if (which != LKS_WHICH_RUN && (file != NULL || folder == NULL))
        return LKI_FAIL(LKS_E_INVALID, "--%s is about a folder of checkpoints: give --out DIR%s",
                        which == LKS_WHICH_BEST ? "best" : "last",
                        file != NULL ? ", and no --init" : "");
    if (file != NULL) return lks_weights_load(recipe->session.model, file);
    if (folder == NULL)
        return LKI_FAIL(LKS_E_INVALID, "no weights; give --init FILE (a safetensors file), or "
                                       "--out DIR (a folder of checkpoints)");
    const bool leads = lki_recipe_leads(recipe);
    LKI_TRY(lki_recipe_agree(recipe, leads ? find_step(step, recipe, which, folder) : LKS_OK));
    LKI_TRY(lks_comm_broadcast(recipe->session.comm, 0, &array, &(size_t){sizeof *step}, 1));
    return lki_changes_load(recipe, folder, *step);
}

static lks_status no_test(void)
{
    return LKI_FAIL(LKS_E_STATE, "the recipe has opened no test data");
}

/* Outputs are logits or log-probabilities: softmax makes both probabilities. Returns the best. */
static int64_t classify(double *share, const float *output, int64_t count)
{
    double sum = 0;
    const int64_t best = lks_class_given(output, count);
    for (int64_t i = 0; i < count; i++) {
        share[i] = exp((double)output[i] - (double)output[best]);
        sum += share[i];
    }
    /* One that is no number has no sign: processors disagree about it, and printf() shows it. */
    for (int64_t i = 0; i < count; i++) share[i] = isnan(sum) ? (double)NAN : share[i] / sum;
    return best;
}

typedef struct prediction {
    void (*each)(void *user, const lks_prediction *prediction);
    void *user;
    lks_loader *loader;
    lks_dataset *dataset;
    int64_t width; /* of an output: how many classes, or numbers */
    bool numbers;
    float *output;
    double *share;
} prediction;

static void tell(const prediction *p, const lks_batch *batch, int64_t count)
{
    for (int64_t i = 0; i < count && p->each != NULL; i++) {
        lks_prediction one = {.id = lks_dataset_position(p->dataset, batch->ids[i]),
                              .index = batch->ids[i],
                              .best = -1,
                              .label = -1,
                              .classes = p->width,
                              .output = p->output + i * p->width};
        if (p->numbers) {
            one.wanted = (const float *)batch->y + i * p->width;
        } else {
            one.best = classify(p->share, one.output, p->width);
            one.label = ((const int32_t *)batch->y)[i];
            one.softmax = p->share;
        }
        p->each(p->user, &one);
    }
}

static lks_status predict_batches(const prediction *p, lks_model *model, int64_t count)
{
    while (count > 0) {
        lks_batch batch;
        LKI_TRY(lks_loader_next(p->loader, &batch));
        const int64_t some = batch.count < count ? batch.count : count;
        LKI_TRY(lks_model_predict(model, batch.x, some, p->output));
        tell(p, &batch, some);
        count -= some;
    }
    return LKS_OK;
}

static lks_status evaluate_batches(const prediction *p, lks_model *model, lks_metrics *sum)
{
    for (int64_t left = lks_loader_batches(p->loader); left > 0; left--) {
        lks_batch batch;
        LKI_TRY(lks_loader_next(p->loader, &batch));
        LKI_TRY(p->each == NULL ? lks_model_evaluate(model, &batch, sum)
                                : lks_model_evaluate_outputs(model, &batch, sum, p->output));
        tell(p, &batch, batch.count);
    }
    return LKS_OK;
}

/* A loader, and memory for outputs where somebody looks at them. */
static lks_status begin_predictions(prediction *p, lki_session *s, lki_purpose purpose)
{
    const lks_shape shape = lks_tensor_shape(s->network.output);
    const int64_t batch = lki_config_int(s->config, LKI_KEY_TRAIN_TEST_BATCH_SIZE);
    p->width = lks_shape_elements(&shape);
    p->numbers = s->info.classes == 0;
    if (p->each != NULL && !p->numbers && s->info.target_shape.ndim > 0)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "predictions are of samples that have one class, but those of '%.200s' "
                        "have one for each of %lld positions; evaluate them",
                        lks_dataset_name(p->dataset),
                        (long long)lks_shape_elements(&s->info.target_shape));
    if (p->each != NULL) {
        p->output = malloc((size_t)(batch * p->width) * sizeof *p->output);
        p->share = malloc((size_t)p->width * sizeof *p->share);
        if (p->output == NULL || p->share == NULL)
            return LKI_FAIL(
                LKS_E_NOMEM,
                "no memory for the outputs of %lld sample%s; choose a smaller test batch",
                (long long)batch, LKI_S(batch));
    }
    return lki_session_loader(&p->loader, s, p->dataset, purpose);
}

static void end_predictions(prediction *p)
{
    lks_loader_destroy(p->loader);
    free(p->share);
    free(p->output);
}

lks_status lks_recipe_evaluate_each(lks_recipe *recipe, lks_dataset *dataset, lks_metrics *out,
                                    void (*each)(void *user, const lks_prediction *prediction),
                                    void *user)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_metrics){0};
    LKI_TRY(lks_recipe_resolve(recipe));
    lki_session *s = &recipe->session;
    if (s->model == NULL) return no_model();
    if (dataset == NULL) dataset = s->test;
    if (dataset == NULL) return no_test();
    prediction p = {.each = each, .user = user, .dataset = dataset};
    lks_status status = lki_recipe_agree(recipe, begin_predictions(&p, s, LKI_FOR_TESTING));
    if (status == LKS_OK) status = lki_recipe_agree(recipe, evaluate_batches(&p, s->model, out));
    end_predictions(&p);
    return status == LKS_OK ? lks_comm_metrics(s->comm, out) : status;
}

lks_status lks_recipe_evaluate(lks_recipe *recipe, lks_dataset *dataset, lks_metrics *out)
{
    return lks_recipe_evaluate_each(recipe, dataset, out, NULL, NULL);
}

lks_status lks_recipe_predict(lks_recipe *recipe, lks_dataset *dataset, int64_t count,
                              void (*each)(void *user, const lks_prediction *prediction),
                              void *user)
{
    LKI_TRY(lks_recipe_resolve(recipe));
    if (each == NULL) return LKI_FAIL_NULL(each);
    lki_session *s = &recipe->session;
    if (s->model == NULL) return no_model();
    if (dataset == NULL) dataset = s->test;
    if (dataset == NULL) return no_test();
    const int64_t samples = lks_dataset_get_info(dataset).samples;
    prediction p = {.each = each, .user = user, .dataset = dataset};
    lks_status status = begin_predictions(&p, s, LKI_FOR_LOOKING);
    if (status == LKS_OK) status = predict_batches(&p, s->model, count < samples ? count : samples);
    end_predictions(&p);
    return status;
}
