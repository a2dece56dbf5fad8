/* What verbs do with the configuration of a command. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "cli/process.h"

lks_status cli_configure(lks_recipe **out, const cli_args *cli, const char *path)
{
    const char *from;
    const double seconds = process_seconds(&from);
    lks_status status = lks_recipe_open(out, path);
    if (status != LKS_OK) return status;
    lks_recipe *recipe = *out;
    lks_recipe_log(recipe, say_log, NULL);
    lks_recipe_clock(recipe, seconds, from);
    for (int i = 0; i < cli->settings && status == LKS_OK; i++) {
        const cli_setting *setting = &cli->setting[i];
        const lki_key key = setting->option->key;
        if (setting->option->local == LOCAL_SET) {
            status = lks_recipe_set(recipe, setting->text);
            continue;
        }
        if (key == LKI_KEY_NONE) continue;
        const char *where = pool_format(cli->pool, "--%s", setting->option->name);
        status = lks_recipe_option(recipe, lki_key_rows[key].spec.name, setting->text, where);
    }
    if (status == LKS_OK && path != NULL) status = lks_recipe_resolve(recipe);
    const bool has_csv = (cli->verb_bit & (VERB_TRAIN | VERB_PREDICT)) != 0;
    if (status == LKS_OK && !has_csv && lks_recipe_given(recipe, "log.format") &&
        strcmp(lks_recipe_text(recipe, "log.format"), "csv") == 0)
        status = lks_recipe_fail(recipe, "log.format", "is csv, expected text or json of %s",
                                 cli->verb->name);
    if (status == LKS_OK) return LKS_OK;
    lks_recipe_close(recipe);
    *out = NULL;
    return status;
}

lks_status cli_with_recipe(const cli_args *cli, int *code,
                           lks_status (*body)(const cli_args *cli, lks_recipe *recipe, int *code))
{
    lks_recipe *recipe;
    const char *yaml;
    lks_status status = cli_configure(&recipe, cli, cli->operand[0]);
    if (status == LKS_OK && cli->local[LOCAL_PRINT_CONFIG] != NULL) {
        status = lks_recipe_yaml(recipe, &yaml);
        if (status == LKS_OK) fputs(yaml, stdout);
    } else if (status == LKS_OK) {
        status = body(cli, recipe, code);
    }
    lks_recipe_close(recipe);
    return status;
}

json_t *cli_recipe_json(lks_recipe *recipe)
{
    char *text;
    if (lks_recipe_json(recipe, &text) != LKS_OK) return NULL;
    json_t *json = json_loads(text, 0, NULL);
    free(text);
    return json;
}

lks_status cli_load(const cli_args *cli, lks_recipe *recipe, int64_t *step)
{
    const bool best = cli->local[LOCAL_BEST] != NULL, last = cli->local[LOCAL_LAST] != NULL;
    if (best && last)
        return lks_fail(LKS_E_INVALID, "--best and --last name two checkpoints; drop one");
    return lks_recipe_load(recipe,
                           best   ? LKS_WHICH_BEST
                           : last ? LKS_WHICH_LAST
                                  : LKS_WHICH_RUN,
                           step);
}
