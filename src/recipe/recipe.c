/* Opening a recipe, its keys, and what it opens. */
#include "recipe/recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/text.h"

static double clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double lki_recipe_seconds(const lks_recipe *recipe)
{
    return clock_now() - recipe->began;
}

void lki_recipe_say(const lks_recipe *recipe, lks_log_level level, const char *format, ...)
{
    char line[1024];
    va_list args;
    if (recipe->session.log == NULL) return;
    va_start(args, format);
    lki_text_list(line, sizeof line, format, args);
    va_end(args);
    recipe->session.log(recipe->session.log_user, level, line);
}

/* `read` sets what a file or a text sets. */
static lks_status recipe_open(lks_recipe **out, const char *path, const char *name,
                              const char *text)
{
    *out = NULL;
    lks_recipe *recipe = calloc(1, sizeof *recipe);
    if (recipe == NULL) return LKI_FAIL(LKS_E_NOMEM, "no memory for a recipe");
    recipe->began = clock_now();
    recipe->counted_from = "recipe opened";
    recipe->run.best_step = -1;
    lks_status status = lki_config_create(&recipe->config);
    if (status == LKS_OK && path != NULL) status = lki_config_read(recipe->config, path);
    if (status == LKS_OK && text != NULL) {
        name = lki_heap_format(&recipe->config->heap, "%s", name != NULL ? name : "the recipe");
        status = lki_config_read_text(recipe->config, name, text);
    }
    if (status != LKS_OK) {
        lks_recipe_close(recipe);
        return status;
    }
    recipe->session.config = recipe->config;
    *out = recipe;
    return LKS_OK;
}

lks_status lks_recipe_open(lks_recipe **out, const char *path)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    return recipe_open(out, path, NULL, NULL);
}

lks_status lks_recipe_open_text(lks_recipe **out, const char *name, const char *text)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (text == NULL) return LKI_FAIL_NULL(text);
    return recipe_open(out, NULL, name, text);
}

void lki_scores_free(lki_scores *scores)
{
    free(scores->fit);
    lki_fits_free(scores->sums);
    *scores = (lki_scores){0};
}

void lks_recipe_close(lks_recipe *recipe)
{
    if (recipe == NULL) return;
    lks_run_clear(&recipe->run);
    lks_loader_destroy(recipe->train);
    lks_loader_destroy(recipe->valid);
    lks_loader_destroy(recipe->test);
    lks_checkpoint_unlock(recipe->lock);
    lki_session_close(&recipe->session);
    lki_config_destroy(recipe->config);
    free(recipe->links);
    free(recipe->paces);
    lki_cuts_free(recipe);
    lki_scores_free(&recipe->scores);
    free(recipe->json);
    free(recipe->yaml);
    free(recipe);
}

lks_status lks_recipe_set(lks_recipe *recipe, const char *assignment)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (assignment == NULL) return LKI_FAIL_NULL(assignment);
    if (recipe->state != LKI_RECIPE_OPEN)
        return LKI_FAIL(LKS_E_STATE,
                        "--set %.100s: the recipe has been used already; set its keys before",
                        assignment);
    return lki_config_assign(recipe->config, assignment);
}

void lks_recipe_log(lks_recipe *recipe, lks_log_fn log, void *user)
{
    if (recipe == NULL) return;
    recipe->session.log = log;
    recipe->session.log_user = user;
}

void lks_recipe_comm(lks_recipe *recipe, lks_comm *comm)
{
    if (recipe != NULL) recipe->session.comm = comm;
}

/* Of a run that has a folder it is there, where `watch` and `report` find it. */
static const char *record_file(lki_config *config)
{
    const char *folder = lki_config_text(config, LKI_KEY_CHECKPOINT_PATH);
    const char *record = lki_config_text(config, LKI_KEY_LOG_RECORD);
    if (record != NULL || folder == NULL) return record;
    return lki_heap_format(&config->heap, "%s/record.json", folder);
}

lks_status lks_recipe_resolve(lks_recipe *recipe)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (recipe->state == LKI_RECIPE_RESOLVED) return LKS_OK;
    if (recipe->state == LKI_RECIPE_REFUSED) {
        lki_error_restore(&recipe->refusal);
        return recipe->refusal.status;
    }
    const lks_status status = lki_config_resolve(recipe->config);
    recipe->state = status == LKS_OK ? LKI_RECIPE_RESOLVED : LKI_RECIPE_REFUSED;
    if (status == LKS_OK) recipe->record = record_file(recipe->config);
    if (status != LKS_OK) recipe->refusal = *lks_last_error();
    return status;
}

lks_status lks_recipe_yaml(lks_recipe *recipe, const char **out)
{
    lki_emit emit = {.yaml = true};
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    lks_status status = lks_recipe_resolve(recipe);
    if (status != LKS_OK) return status;
    free(recipe->yaml);
    lki_config_emit_yaml(&emit, recipe->config);
    *out = recipe->yaml = lki_emit_take(&emit, "a recipe as YAML", &status);
    return status;
}

const char *lks_recipe_value(lks_recipe *recipe, const char *key)
{
    lki_emit emit = {.yaml = true};
    lks_status status = LKS_OK;
    if (recipe == NULL || key == NULL) return "";
    const lki_key found = lki_key_find(key);
    if (found == LKI_KEY_NONE) return "";
    lki_emit_setting(&emit, &recipe->config->value[found], lki_key_rows[found].spec.type);
    char *text = lki_emit_take(&emit, "a value", &status);
    const char *copy = text != NULL ? lki_heap_format(&recipe->config->heap, "%s", text) : "";
    free(text);
    return copy;
}

static lks_status started_already(void)
{
    return LKI_FAIL(LKS_E_STATE, "the recipe has started its run already");
}

lks_status lks_recipe_open_data(lks_recipe *recipe, int data)
{
    LKI_TRY(lks_recipe_resolve(recipe));
    lki_session *session = &recipe->session;
    if (recipe->started) return started_already();
    lki_session_drop(session);
    const int parts = ((data & LKS_RECIPE_TRAIN) != 0 ? LKI_SESSION_TRAIN : 0) |
                      ((data & LKS_RECIPE_TEST) != 0 ? LKI_SESSION_TEST : 0);
    const bool shape = (data & LKS_RECIPE_SHAPE) != 0;
    return lki_recipe_agree(recipe, shape ? lki_session_open_shape(session, recipe->config)
                                          : lki_session_open(session, recipe->config, parts));
}

lks_status lks_recipe_compile(lks_recipe *recipe, int workers)
{
    LKI_TRY(lks_recipe_resolve(recipe));
    if (recipe->session.info.shape.ndim == 0)
        return LKI_FAIL(LKS_E_STATE, "a recipe without its data has no network: open that first");
    if (recipe->started) return started_already();
    return lki_session_compile(&recipe->session, workers);
}

lks_recipe_parts lks_recipe_get_parts(const lks_recipe *recipe)
{
    if (recipe == NULL) return (lks_recipe_parts){0};
    const lki_session *s = &recipe->session;
    return (lks_recipe_parts){.context = s->context,
                              .comm = s->comm,
                              .train = s->train,
                              .valid = s->valid,
                              .test = s->test,
                              .data = s->info,
                              .graph = s->graph,
                              .loss = s->network.loss,
                              .output = s->network.output,
                              .model = s->model,
                              .epochs = recipe->epochs,
                              .steps = recipe->steps};
}

lks_status lks_recipe_loader(lks_loader **out, const lks_recipe *recipe, lks_dataset *dataset,
                             bool training)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (dataset == NULL) return LKI_FAIL_NULL(dataset);
    return lki_session_loader(out, &recipe->session, dataset,
                              training ? LKI_FOR_TRAINING : LKI_FOR_TESTING);
}

lks_schedule lks_recipe_schedule(const lks_recipe *recipe, int64_t epochs, int64_t steps,
                                 int64_t batches)
{
    if (recipe == NULL || recipe->state != LKI_RECIPE_RESOLVED) return (lks_schedule){0};
    return lki_session_schedule(recipe->config, epochs, steps, batches > 0 ? batches : 1);
}
