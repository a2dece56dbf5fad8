/* The records of two checkpoints. */
#include "cli/verbs/compare.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/cli.h"
#include "cli/out/say.h"
#include "cli/out/text.h"
#include "cli/verbs/checkpoint_path.h"

/* What a record says of how and where it was made, not of the run. How long the run was asked to be
 * (finished) belongs to the command, the configuration is compared key by key, the tensors in their
 * file. */
static bool is_circumstance(const char *key)
{
    static const char *const keys[] = {"version", "build",          "fingerprint",
                                       "config",  "so_far_seconds", "finished",
                                       "tensors", "checksum",       "seconds"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* What a record says may come from anywhere: it is cleaned for the terminal, and cut between
 * characters. */
static void say_difference(const char *path, const json_t *a, const json_t *b)
{
    enum { SHOWN = 100 };
    cli_pool pool = {0};
    char *x = text_json(a), *y = text_json(b);
    if (x != NULL && y != NULL) {
        const char *one = text_clean(&pool, x), *other = text_clean(&pool, y);
        say("record: %s is %.*s and %.*s", text_clean(&pool, path), text_bytes(one, SHOWN), one,
            text_bytes(other, SHOWN), other);
    }
    free(x);
    free(y);
    pool_clear(&pool);
}

/* The deepest key that differs; says it. One that only one of them has is of another version, as a
 * record that lacks what it must have is not read. */
static bool same_json(cli_pool *pool, const char *path, const json_t *a, const json_t *b)
{
    const char *key;
    json_t *x;
    size_t i;
    if (json_is_object(a) && json_is_object(b)) {
        const char *dot = *path != '\0' ? "." : "";
        json_object_foreach((json_t *)a, key, x)
        {
            const json_t *y = json_object_get(b, key);
            if (is_circumstance(key) || y == NULL) continue;
            if (!same_json(pool, pool_format(pool, "%s%s%s", path, dot, key), x, y)) return false;
        }
        return true;
    }
    if (json_is_array(a) && json_is_array(b) && json_array_size(a) == json_array_size(b)) {
        json_array_foreach(a, i, x)
        {
            const char *below = pool_format(pool, "%s[%zu]", path, i);
            if (!same_json(pool, below, x, json_array_get(b, i))) return false;
        }
        return true;
    }
    if (json_equal(a, b)) return true;
    if (json_is_array(a) && json_is_array(b))
        say("record: %s has %zu entr%s and %zu", text_clean(pool, path), json_array_size(a),
            json_array_size(a) == 1 ? "y" : "ies", json_array_size(b));
    else
        say_difference(path, a, b);
    return false;
}

/* "optimizer.lr" of what a recipe has. */
static const json_t *recorded_value(const json_t *config, const char *key)
{
    char section[64];
    const size_t length = strcspn(key, ".");
    snprintf(section, sizeof section, "%.*s", (int)length, key);
    return json_object_get(json_object_get(config, section), key + length + 1);
}

static lks_status open_config(lks_recipe **out, const char *config)
{
    const lks_status status = lks_recipe_open_text(out, "config", config);
    return status == LKS_OK ? lks_recipe_resolve(*out) : status;
}

/* Only the keys that make a run what it is; the others are those of the commands. */
static bool same_config(const json_t *a, const json_t *b)
{
    const char *x = json_string_value(json_object_get(a, "config"));
    const char *y = json_string_value(json_object_get(b, "config"));
    lks_recipe *p = NULL, *q = NULL;
    const char *key = NULL;
    if (x == NULL || y == NULL || strcmp(x, y) == 0) return true;
    if (open_config(&p, x) == LKS_OK && open_config(&q, y) == LKS_OK)
        key = lks_recipe_difference(p, q);
    if (key != NULL) {
        json_t *u = cli_recipe_json(p), *v = cli_recipe_json(q);
        say_difference(key, recorded_value(u, key), recorded_value(v, key));
        json_decref(u);
        json_decref(v);
    }
    lks_recipe_close(p);
    lks_recipe_close(q);
    return key == NULL;
}

/* The record of a checkpoint that is whole. */
static lks_status read_checkpoint(json_t **out, cli_pool *pool, lks_context *context,
                                  const checkpoint_path *path)
{
    lks_run run;
    const char *file = checkpoint_record(pool, path->folder, path->step);
    *out = NULL;
    const lks_status status = lks_checkpoint_load(context, NULL, &run, path->folder, path->step);
    if (status != LKS_OK) return status;
    lks_run_clear(&run);
    *out = json_load_file(file, 0, NULL);
    if (*out != NULL) return LKS_OK;
    return lks_fail(LKS_E_IO, "%.300s cannot be read", file);
}

lks_status compare_checkpoints(bool *equal, lks_context *context, const checkpoint_path *path_a,
                               const checkpoint_path *path_b)
{
    cli_pool pool = {0};
    json_t *a = NULL, *b = NULL;
    bool same = false;
    lks_status status = read_checkpoint(&a, &pool, context, path_a);
    if (status == LKS_OK) status = read_checkpoint(&b, &pool, context, path_b);
    if (status == LKS_OK)
        status = compare_tensors(&same, context, path_a->tensors, path_b->tensors);
    if (status == LKS_OK) *equal = (same_config(a, b) && same_json(&pool, "", a, b)) && same;
    json_decref(a);
    json_decref(b);
    pool_clear(&pool);
    return status;
}
