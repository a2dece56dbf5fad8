/* What the program's verbs want of a recipe beside its run. */
#include <lockstep/tools.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recipe/network/layers.h"
#include "recipe/recipe.h"
#include "recipe/data/augment.h"
#include "recipe/data/shards.h"
#include "recipe/data/table.h"
#include "recipe/data/source.h"

#include "base/check.h"
#include "base/file.h"
#include "base/shape.h"
#include "base/text.h"

/* The setting of a key, which must be set and of the type; NULL: it is not. */
static const lki_setting *setting_of(const lks_recipe *recipe, const char *key, int types)
{
    const lki_key found = recipe != NULL && key != NULL ? lki_key_find(key) : LKI_KEY_NONE;
    if (found == LKI_KEY_NONE || !recipe->config->value[found].set) return NULL;
    if ((types >> lki_key_rows[found].spec.type & 1) == 0) return NULL;
    return &recipe->config->value[found];
}

bool lks_recipe_has(const lks_recipe *recipe, const char *key)
{
    return setting_of(recipe, key, -1) != NULL;
}

bool lks_recipe_given(const lks_recipe *recipe, const char *key)
{
    if (recipe == NULL || key == NULL) return false;
    const lki_key found = lki_key_find(key);
    return found != LKI_KEY_NONE && recipe->config->source[found] == LKI_FROM_COMMAND;
}

int64_t lks_recipe_int(const lks_recipe *recipe, const char *key)
{
    const lki_setting *setting = setting_of(recipe, key, 1 << LKI_TYPE_INT);
    return setting != NULL ? setting->i[0] : 0;
}

double lks_recipe_float(const lks_recipe *recipe, const char *key)
{
    const lki_setting *setting = setting_of(recipe, key, 1 << LKI_TYPE_FLOAT);
    return setting != NULL ? setting->f : 0;
}

bool lks_recipe_bool(const lks_recipe *recipe, const char *key)
{
    const lki_setting *setting = setting_of(recipe, key, 1 << LKI_TYPE_BOOL);
    return setting != NULL && setting->b;
}

const char *lks_recipe_text(const lks_recipe *recipe, const char *key)
{
    const lki_setting *setting = setting_of(recipe, key,
                                            1 << LKI_TYPE_STRING | 1 << LKI_TYPE_CHOICE);
    return setting != NULL ? setting->s : NULL;
}

lks_status lks_recipe_option(lks_recipe *recipe, const char *key, const char *text,
                             const char *where)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (key == NULL) return LKI_FAIL_NULL(key);
    if (text == NULL) return LKI_FAIL_NULL(text);
    if (where == NULL) return LKI_FAIL_NULL(where);
    const lki_key found = lki_key_find(key);
    if (found == LKI_KEY_NONE)
        return LKI_FAIL(LKS_E_INVALID, "%s: there is no key '%.100s'", where, key);
    if (recipe->state != LKI_RECIPE_OPEN)
        return LKI_FAIL(LKS_E_STATE, "%s: the recipe has been used already", where);
    where = lki_heap_format(&recipe->config->heap, "%s", where);
    return lki_config_set(recipe->config, found, text, where);
}

lks_status lks_recipe_fail(const lks_recipe *recipe, const char *key, const char *format, ...)
{
    char sentence[400];
    va_list args;
    const lki_key found = recipe != NULL && key != NULL ? lki_key_find(key) : LKI_KEY_NONE;
    if (found == LKI_KEY_NONE || format == NULL) return LKI_FAIL_NULL(recipe);
    va_start(args, format);
    lki_text_list(sentence, sizeof sentence, format, args);
    va_end(args);
    return lki_config_fail(recipe->config, found, "%s", sentence);
}

lks_status lks_recipe_name_data(lks_recipe *recipe)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    return lki_config_name_data(recipe->config);
}

const char *lks_recipe_folder(lks_recipe *recipe)
{
    if (recipe == NULL) return NULL;
    const char *path = lki_config_text(recipe->config, LKI_KEY_DATA_PATH);
    return path != NULL ? path : lki_source_folder(recipe->config);
}

lks_status lks_recipe_measure_shards(lks_shards_stats *out, lks_recipe *recipe,
                                     lks_context *context, int threads)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    *out = (lks_shards_stats){.rows = 0};
    LKI_TRY(lks_recipe_name_data(recipe));
    if (!lki_config_has(recipe->config, LKI_KEY_DATA_SHARDS))
        return LKI_FAIL(LKS_E_INVALID, "data.shards is not set, so there is nothing to measure");
    return lki_shards_source_measure(out, recipe->config, context, recipe->session.comm, threads);
}

lks_status lks_recipe_dataset(lks_dataset **out, lks_recipe *recipe, lks_context *context,
                              bool test)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    return lki_source_open(out, recipe->config, context, test, NULL, NULL);
}

lks_status lks_recipe_valid_dataset(lks_dataset **out, lks_recipe *recipe, lks_context *context)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    return lki_source_open_valid(out, recipe->config, context);
}

bool lks_recipe_has_test(lks_recipe *recipe)
{
    return recipe != NULL && lki_source_has_test(recipe->config);
}

lks_status lks_recipe_augment(lks_recipe *recipe, lks_loader_opts *out)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    return lki_augment_read(recipe->config, NULL, out);
}

const char *lks_text_number(char out[32], double number)
{
    return out != NULL ? lki_text_double(out, number) : "";
}

const char *lks_text_count(char out[32], int64_t count)
{
    return out != NULL ? lki_text_count(out, count) : "";
}

const char *lks_shape_text(char *out, size_t size, const lks_shape *shape)
{
    return out != NULL && shape != NULL ? lki_shape_print(shape, out, size) : "";
}

bool lks_shape_equal(const lks_shape *a, const lks_shape *b)
{
    return a != NULL && b != NULL && lki_shape_equal(a, b);
}

lks_status lks_folder_make(const char *path)
{
    if (path == NULL) return LKI_FAIL_NULL(path);
    return lki_folder_make(path);
}

lks_status lks_recipe_line(lks_tensor **out, int64_t *samples, lks_recipe *recipe, lks_graph *graph,
                           const char *line)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (samples == NULL) return LKI_FAIL_NULL(samples);
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (graph == NULL) return LKI_FAIL_NULL(graph);
    if (line == NULL) return LKI_FAIL_NULL(line);
    return lki_layers_build_line(out, samples, &recipe->config->heap, graph, line);
}

lks_status lks_recipe_open_like(lks_recipe *recipe, const lks_dataset_info *info)
{
    if (info == NULL) return LKI_FAIL_NULL(info);
    LKI_TRY(lks_recipe_resolve(recipe));
    if (recipe->started) return LKI_FAIL(LKS_E_STATE, "the recipe has started its run already");
    lki_session_drop(&recipe->session);
    return lki_session_open_like(&recipe->session, recipe->config, info);
}

lks_status lks_recipe_open_table(lks_dataset **out, lks_recipe *recipe, const char *path)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (path == NULL) return LKI_FAIL_NULL(path);
    LKI_TRY(lks_recipe_resolve(recipe));
    lki_session *session = &recipe->session;
    if (recipe->started) return LKI_FAIL(LKS_E_STATE, "the recipe has started its run already");
    lki_session_drop(session);
    if (session->context == NULL) LKI_TRY(lki_session_begin(session, recipe->config));
    LKI_TRY(lki_table_source_open_new(out, recipe->config, session->context, path));
    const lks_dataset_info info = lks_dataset_get_info(*out);
    const lks_status status = lki_session_open_like(session, recipe->config, &info);
    session->vocabulary_hash = lks_tokenizer_hash(lks_dataset_tokenizer(*out));
    if (status == LKS_OK) return status;
    lks_dataset_destroy(*out);
    *out = NULL;
    return status;
}

lks_status lks_recipe_json(lks_recipe *recipe, char **out)
{
    lki_emit emit = {0};
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    lks_status status = lks_recipe_resolve(recipe);
    if (status != LKS_OK) return status;
    lki_config_emit(&emit, recipe->config);
    *out = lki_emit_take(&emit, "the configuration as JSON", &status);
    return status;
}

const char *lks_recipe_difference(const lks_recipe *a, const lks_recipe *b)
{
    if (a == NULL || b == NULL) return NULL;
    const lki_key key = lki_changes_first(a->config, b->config);
    return key != LKI_KEY_NONE ? lki_key_rows[key].spec.name : NULL;
}

void lks_recipe_clock(lks_recipe *recipe, double seconds, const char *from)
{
    if (recipe == NULL || from == NULL) return;
    recipe->began += lki_recipe_seconds(recipe) - seconds;
    recipe->counted_from = lki_heap_format(&recipe->config->heap, "%s", from);
}

const char *lks_recipe_weights(lks_recipe *recipe)
{
    return recipe != NULL ? lki_weights_file(recipe) : NULL;
}

const char *lks_recipe_record_file(const lks_recipe *recipe)
{
    return recipe != NULL ? recipe->record : NULL;
}

lks_status lks_recipe_save_record(const lks_recipe *recipe)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    if (recipe->record == NULL)
        return LKI_FAIL(LKS_E_STATE,
                        "neither log.record nor checkpoint.path is set, so the record has "
                        "no file");
    return lki_record_write(recipe, NULL, true);
}
