/* lockstep data */
#include "cli/data/data.h"
#include "cli/out/output.h"
#include "cli/out/text.h"
#include "cli/verbs/processes.h"

#include <string.h>
#include <unistd.h>

/* Both splits; files that are there already may be somebody's data. */
static lks_status write_digits(const cli_args *cli, lks_recipe *recipe, lks_context *context,
                               const char *folder)
{
    const char *path[LKI_IDX_FILES];
    for (int i = 0; i < LKI_IDX_FILES; i++) {
        path[i] = pool_format(cli->pool, "%s/%s", folder, lki_idx_names[i]);
        if (access(path[i], F_OK) == 0)
            return lks_fail(
                LKS_E_IO, "%.300s is there already; remove it, or choose another folder", path[i]);
    }
    lks_status status = lks_folder_make(folder);
    for (int test = 0; test < 2 && status == LKS_OK; test++) {
        lks_dataset *digits;
        status = lks_recipe_dataset(&digits, recipe, context, test == 1);
        if (status != LKS_OK) break;
        status = lks_dataset_write_idx(digits, path[2 * test], path[2 * test + 1]);
        if (status == LKS_OK)
            say("%s: %lld sample%s", path[2 * test],
                (long long)lks_dataset_get_info(digits).samples,
                TEXT_S(lks_dataset_get_info(digits).samples));
        lks_dataset_destroy(digits);
    }
    return status;
}

static lks_status get_digits(const cli_args *cli, lks_recipe *recipe, const char *folder)
{
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID, "data %s needs a folder to write to: give --out DIR",
                        cli->operand[0]);
    lks_context *context = NULL;
    lks_status status = output_alone();
    if (status == LKS_OK) status = lks_context_create(&context, &say_logged);
    if (status == LKS_OK) status = write_digits(cli, recipe, context, folder);
    lks_context_destroy(context);
    return status;
}

static lks_status get_known(const cli_args *cli, lks_recipe *recipe, const lki_published *known)
{
    const char *folder = cli->local[LOCAL_OUT];
    const lks_status status = lks_recipe_option(recipe, "data.name", known->name, "data");
    if (status != LKS_OK) return status;
    if (known->mirrors[0] == NULL) return get_digits(cli, recipe, folder);
    if (folder == NULL) folder = lks_recipe_folder(recipe);
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID,
                        "data %s has no folder to write to: neither XDG_DATA_HOME nor HOME is set; "
                        "give --out DIR",
                        cli->operand[0]);
    return data_download(cli, cli->pool, known, folder);
}

static lks_status get(const cli_args *cli, const lki_published *known)
{
    lks_recipe *recipe;
    lks_status status = cli_configure(&recipe, cli, NULL);
    if (status == LKS_OK) status = get_known(cli, recipe, known);
    lks_recipe_close(recipe);
    return status;
}

static const struct action {
    const char *name;
    int operands; /* behind the name */
    lks_status (*run)(const cli_args *cli, const char *what);
    const char *needs; /* where there are fewer; NULL: as of any data set */
} actions[] = {
    {"pack", 1, data_pack,
     "needs to know of what: give a folder with a folder of pictures for each class, or a CSV file "
     "of files and classes"},
    {"shard", 2, data_shard,
     "needs two arrays: lockstep data shard x.npy y.npy --out DIR, samples and their targets"},
    {"columns", 0, data_columns, ""},
    {"vocabulary", 1, data_vocabulary,
     "needs to know of what: give a text file, a folder with some, or a configuration"},
    {"show", 1, data_show, NULL},
    {"check", 1, data_check, NULL},
    {"stats", 1, data_stats, NULL}};
enum { ACTIONS = sizeof actions / sizeof *actions };

static lks_status unknown_action(const char *word)
{
    lki_nearest near = {.word = word};
    data_offer_names(&near);
    for (int i = 0; i < ACTIONS; i++) lki_nearest_offer(&near, actions[i].name);
    return lks_fail(LKS_E_INVALID,
                    "unknown data set '%.60s'%s%s; expected digits, mnist, fashion, cifar10 or "
                    "cifar100 to get one, show, check or stats to see one, pack for pictures of "
                    "your own, shard for large arrays, vocabulary for the tokens of a text, or "
                    "columns to draw some (other files need no command: give their folder with "
                    "--data)",
                    word, near.best != NULL ? "; the nearest is " : "",
                    near.best != NULL ? near.best : "");
}

static lks_status run_action(const struct action *action, const cli_args *cli)
{
    const bool shared = cli_is_shared(cli);
    const lks_status status = shared ? processes_start(cli) : LKS_OK;
    if (status != LKS_OK) return cli_refuse(status);
    if (!shared && cli->local[LOCAL_PROCESSES] != NULL)
        return lks_fail(LKS_E_INVALID,
                        "data %s is done by one process; --num-processes is for shard, columns and "
                        "stats",
                        action->name);
    return action->run(cli, action->operands > 0 ? cli->operand[1] : NULL);
}

lks_status verb_data(const cli_args *cli, int *code)
{
    const char *word = cli->operand[0];
    const lki_published *known = lki_published_find_word(word);
    (void)code;
    for (int i = 0; i < ACTIONS; i++) {
        const struct action *a = &actions[i];
        if (strcmp(a->name, word) != 0) continue;
        if (cli->operands == a->operands + 1) return run_action(a, cli);
        if (cli->operands <= a->operands && a->needs != NULL)
            return lks_fail(LKS_E_INVALID, "data %s %s", word, a->needs);
        if (cli->operands <= a->operands)
            return lks_fail(LKS_E_INVALID,
                            "data %s needs to know of what: lockstep data %s mnist, for example, "
                            "or a folder",
                            word, word);
        return lks_fail(LKS_E_INVALID, "data %s takes nothing more, found '%.60s'", word,
                        cli->operand[a->operands + 1]);
    }
    if (known == NULL) return unknown_action(word);
    if (cli->operands == 1) return get(cli, known);
    return lks_fail(LKS_E_INVALID,
                    "data %s takes nothing more, found '%.60s'; a folder is given "
                    "by --out",
                    word, cli->operand[1]);
}
