/* Processes that train together compare what they were started with, before the first step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recipe/recipe.h"

#include "base/check.h"

/* Each process may have its own, and the run is the same. */
static bool own_to_each(lki_key key)
{
    switch ((int)key) {
    case LKI_KEY_TRAIN_WORKERS:
    case LKI_KEY_DATA_PATH: /* a disk of each host's; samples are compared */
    case LKI_KEY_DATA_THREADS:
    case LKI_KEY_DATA_AHEAD:
        return true;
    default:
        return strncmp(lki_key_rows[key].spec.name, "log.", 4) == 0;
    }
}

/* A line for each key that all have in common; free() it. */
static lks_status print_keys(const lki_config *config, char **out)
{
    lki_emit emit = {.yaml = true};
    lks_status status = LKS_OK;
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const char *name = lki_key_rows[key].spec.name;
        if (own_to_each((lki_key)key)) continue;
        lki_emit_raw(&emit, name, strlen(name));
        lki_emit_raw(&emit, " ", 1);
        lki_emit_setting(&emit, &config->value[key], lki_key_rows[key].spec.type);
        lki_emit_raw(&emit, "\n", 1);
    }
    *out = lki_emit_take(&emit, "the configuration for other processes", &status);
    return status;
}

lks_status lki_ranks_compare_config(const lks_recipe *recipe)
{
    lks_comm *comm = recipe->session.comm;
    char number[32], *keys = NULL;
    if (lks_comm_size(comm) == 1) return LKS_OK;
    snprintf(number, sizeof number, "%d", lks_numerics());
    LKI_TRY(lks_comm_same(comm, "version of the numerics", number));
    lks_status status = lki_recipe_agree(recipe, print_keys(recipe->config, &keys));
    if (status == LKS_OK) status = lks_comm_same(comm, "configuration", keys);
    free(keys);
    return status;
}

/* Enough samples of either end to tell one data set from another; all would be read by every process. */
enum { LOOKED_AT = 128 };

static lks_status hash_part(lks_dataset *dataset, int64_t first, int64_t count, uint64_t *hash)
{
    lks_dataset *part;
    LKI_TRY(lks_dataset_slice(&part, dataset, first, count));
    const lks_status status = lks_dataset_hash(part, hash);
    lks_dataset_destroy(part);
    return status;
}

static lks_status look_at(lks_dataset *dataset, char *text, size_t size)
{
    const int64_t samples = lks_dataset_get_info(dataset).samples;
    const int64_t some = samples < LOOKED_AT ? samples : LOOKED_AT;
    uint64_t begin, end;
    LKI_TRY(hash_part(dataset, 0, some, &begin));
    LKI_TRY(hash_part(dataset, samples - some, some, &end));
    snprintf(text, size, "%" PRId64 " samples, hashes of their ends %016" PRIx64 " %016" PRIx64,
             samples, begin, end);
    return LKS_OK;
}

lks_status lki_ranks_compare_data(const lks_recipe *recipe)
{
    const lki_session *s = &recipe->session;
    const struct {
        const char *what;
        lks_dataset *dataset;
    } parts[] = {
        {"training data", s->train}, {"validation data", s->valid}, {"test data", s->test}};
    if (lks_comm_size(s->comm) == 1) return LKS_OK;
    for (int i = 0; i < 3; i++) {
        char text[200] = "none";
        lks_status status = LKS_OK;
        if (parts[i].dataset != NULL) status = look_at(parts[i].dataset, text, sizeof text);
        LKI_TRY(lki_recipe_agree(recipe, status));
        LKI_TRY(lks_comm_same(s->comm, parts[i].what, text));
    }
    return LKS_OK;
}

lks_status lki_ranks_compare_model(const lks_recipe *recipe)
{
    const lki_session *s = &recipe->session;
    char text[32];
    uint64_t hash = 0;
    if (lks_comm_size(s->comm) == 1) return LKS_OK;
    LKI_TRY(lki_recipe_agree(recipe, lks_model_hash(s->model, &hash)));
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return lks_comm_same(s->comm, "hash of the parameters", text);
}
