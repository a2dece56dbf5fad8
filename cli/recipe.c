/* What verbs do with the configuration of a command. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/arch/arch.h"
#include "cli/verbs/checkpoint_path.h"
#include "cli/verbs/record.h"

/* What stands in the place of a configuration, where it is known, and which option takes it. */
static lks_status not_a_configuration(const char *path, lks_status status)
{
    const lks_error said = *lks_last_error();
    const checkpoint_kind kind = checkpoint_kind_of(path);
    int64_t step = -1;
    json_t *record;
    if (kind == PATH_FOLDER && lks_checkpoint_find(path, &step) == LKS_OK && step >= 0)
        return lks_fail(status,
                        "%.300s is a folder of checkpoints, expected the YAML file of a "
                        "configuration; train, eval and predict take the folder as --out",
                        path);
    if (kind == PATH_STEP)
        return lks_fail(status,
                        "%.300s is a file of a checkpoint, expected the YAML file of a "
                        "configuration; train, eval and predict take its folder as --out",
                        path);
    if (kind == PATH_TENSORS)
        return lks_fail(status,
                        "%.300s is a file of saved weights, expected the YAML file of a "
                        "configuration; train, eval and predict take the weights as --init",
                        path);
    if (kind == PATH_OTHER && record_read(&record, path) == LKS_OK) {
        json_decref(record);
        return lks_fail(status,
                        "%.300s is the record of a training, expected the YAML file of a "
                        "configuration; report and compare take records",
                        path);
    }
    return lks_fail(status, "%s", said.message);
}

/* --strategy, which is train.average_every by another name. */
static lks_status take_strategy(const cli_args *cli, lks_recipe *recipe)
{
    const char *name = cli->local[LOCAL_STRATEGY];
    if (name == NULL) return LKS_OK;
    if (strcmp(name, "ddp") == 0 || strcmp(name, "horovod") == 0)
        return lks_recipe_set(recipe, "train.average_every=null");
    if (strcmp(name, "average") != 0)
        return lks_fail(LKS_E_INVALID, "--strategy is '%.60s', expected ddp, horovod or average",
                        name);
    if (lks_recipe_has(recipe, "train.average_every")) return LKS_OK;
    return lks_recipe_option(recipe, "train.average_every", "1", "--strategy");
}

/* Which configuration of the file is asked for, or which variant of a network's file; NULL: the usual one. */
static const char *config_name(const cli_args *cli)
{
    const char *const names[] = {cli->local[LOCAL_CONFIG],
                                 cli->local[LOCAL_BIAS] != NULL ? "bias" : NULL,
                                 cli->local[LOCAL_FC_RELU] != NULL ? "fc_relu" : NULL};
    const char *all = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] != NULL)
            all = all != NULL ? pool_format(cli->pool, "%s,%s", all, names[i]) : names[i];
    return all;
}

lks_status cli_configure(lks_recipe **out, const cli_args *cli, const char *path)
{
    const char *from;
    const double seconds = process_seconds(&from);
    const char *name = config_name(cli);
    *out = NULL;
    if (name != NULL && path == NULL)
        return lks_fail(LKS_E_INVALID,
                        "--config, --bias and --fc-relu are for a file, and none is given");
    const bool by_arch = arch_is_asked(cli);
    lks_status status = by_arch
                            ? arch_open(out, cli)
                            : lks_recipe_open(out, name != NULL
                                                       ? pool_format(cli->pool, "%s#%s", path, name)
                                                       : path);
    if (by_arch && status != LKS_OK) return status;
    if (status == LKS_E_IO || status == LKS_E_INVALID) status = not_a_configuration(path, status);
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
    if (status == LKS_OK) status = take_strategy(cli, recipe);
    if (status == LKS_OK && path != NULL) status = arch_settle(recipe, cli);
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

cli_args cli_with_settings(const cli_args *cli, int count, const char *const *setting)
{
    cli_args with = *cli;
    const cli_option *set = NULL;
    for (int i = 0; i < cli_option_count; i++)
        if (cli_options[i].local == LOCAL_SET) set = &cli_options[i];
    with.setting = pool_alloc(cli->pool, (size_t)(cli->settings + count) * sizeof *with.setting);
    if (cli->settings > 0)
        memcpy(with.setting, cli->setting, (size_t)cli->settings * sizeof *with.setting);
    for (int i = 0; i < count; i++) with.setting[with.settings++] = (cli_setting){set, setting[i]};
    return with;
}

static lks_status print_names(const char *path)
{
    char *names;
    const lks_status status = lks_recipe_names(path, &names);
    if (status != LKS_OK) return status;
    if (*names == '\0')
        say_error("%s is one configuration, without names", path);
    else
        fputs(names, stdout);
    free(names);
    return LKS_OK;
}

lks_status cli_with_recipe(const cli_args *cli, int *code, lks_comm *comm,
                           lks_status (*body)(const cli_args *cli, lks_recipe *recipe, int *code))
{
    lks_recipe *recipe;
    const char *yaml, *name = cli->local[LOCAL_CONFIG];
    if (name != NULL && strcmp(name, "list") == 0)
        return lks_comm_agree(comm, print_names(cli->operand[0]));
    lks_status status = cli_configure(&recipe, cli, cli->operand[0]);
    status = lks_comm_agree(comm, status);
    lks_recipe_comm(recipe, comm);
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

static const cli_split splits[] = {
    {"test", "Test", "test"}, {"validation", "Validation", "valid"}, {"train", "Train", "train"}};
enum { SPLITS = sizeof splits / sizeof *splits };
const char cli_split_words[] = "test validation train";

/* A folder for training alone: what can be looked at instead. */
static lks_status no_test(lks_recipe *recipe, lks_status status)
{
    const char *folder = lks_recipe_folder(recipe);
    if (status != LKS_E_IO || folder == NULL || lks_dataset_folder_has(folder, true) ||
        !lks_dataset_folder_has(folder, false))
        return status;
    return lks_fail(LKS_E_IO,
                    "there are no test samples in %.200s; --split validation takes those that the "
                    "training held back, --split train those that it trained on",
                    folder);
}

lks_status cli_split_open(const cli_split **out, const cli_args *cli, lks_recipe *recipe)
{
    const char *wanted = cli->local[LOCAL_SPLIT];
    *out = &splits[0];
    for (int i = 0; i < SPLITS && wanted != NULL; i++)
        if (strcmp(splits[i].name, wanted) == 0) *out = &splits[i];
    if (wanted != NULL && strcmp((*out)->name, wanted) != 0)
        return lks_fail(LKS_E_INVALID, "--split is '%.60s', expected test, validation or train",
                        wanted);
    if (*out != &splits[0]) return lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    return no_test(recipe, lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
}

lks_status cli_split_data(lks_dataset **out, const cli_split *split, lks_recipe *recipe,
                          int64_t step)
{
    const lks_status status = lks_recipe_check_samples(recipe, step);
    if (status != LKS_OK) return status;
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_dataset *const sets[SPLITS] = {parts.test, parts.valid, parts.train};
    *out = sets[split - splits];
    if (*out != NULL) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "no samples are held back: neither validation.samples nor validation.fraction "
                    "is set; give the one that the training had");
}

double cli_in_units(const lks_unit *unit, float number)
{
    return unit->standardised ? unit->mean + unit->deviation * (double)number : (double)number;
}

double cli_shortened(const lks_unit *unit, float number)
{
    const double value = cli_in_units(unit, number);
    for (int digits = 6; digits < 17; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, value);
        const double found = strtod(text, NULL);
        const double again = unit->standardised ? (found - unit->mean) / unit->deviation : found;
        if ((float)again == number) return found;
    }
    return value;
}

const char *const *cli_class_names(cli_pool *pool, const lks_dataset *data)
{
    const int64_t classes = lks_dataset_get_info(data).classes;
    if (lks_dataset_class(data, 0) == NULL) return NULL;
    const char **name = pool_alloc(pool, (size_t)classes * sizeof *name);
    for (int64_t i = 0; i < classes; i++) {
        const char *given = lks_dataset_class(data, i);
        name[i] = given != NULL ? text_clean(pool, given) : pool_format(pool, "%lld", (long long)i);
    }
    return name;
}
