/* lockstep data */
#include "data.h"

#include <string.h>
#include <unistd.h>

static lks_status unknown_name(const char *name)
{
    cli_nearest near = {.word = name};
    for (int i = 0; i < dataset_table_count; i++) nearest_offer(&near, dataset_table[i].name);
    return lks_fail(LKS_E_INVALID,
                    "unknown data set '%.60s'%s%s; expected digits, mnist or fashion (other IDX "
                    "files need no command: give their folder with --data)",
                    name, near.best != NULL ? "; the nearest is " : "",
                    near.best != NULL ? near.best : "");
}

/* Both splits; files that are there already may be somebody's data. */
static lks_status write_digits(cli_config *config, lks_context *context, const char *folder)
{
    const char *path[DATASET_FILES];
    for (int i = 0; i < DATASET_FILES; i++) {
        path[i] = pool_format(&config->pool, "%s/%s", folder, dataset_names[i]);
        if (access(path[i], F_OK) == 0)
            return lks_fail(
                LKS_E_IO, "%.300s is there already; remove it, or choose another folder", path[i]);
    }
    lks_status status = dataset_make_folder(folder);
    for (int test = 0; test < 2 && status == LKS_OK; test++) {
        lks_dataset *digits;
        status = dataset_open(&digits, config, context, test == 1);
        if (status != LKS_OK) break;
        status = lks_dataset_write_idx(digits, path[2 * test], path[2 * test + 1]);
        if (status == LKS_OK)
            say("%s: %lld samples", path[2 * test],
                (long long)lks_dataset_get_info(digits).samples);
        lks_dataset_destroy(digits);
    }
    return status;
}

static lks_status get_digits(cli_config *config, const char *folder)
{
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID, "data digits needs a folder to write to: give --out DIR");
    lks_context *context;
    lks_status status = lks_context_create(&context, NULL);
    if (status == LKS_OK) status = write_digits(config, context, folder);
    lks_context_destroy(context);
    return status;
}

static lks_status get(const cli_args *cli, cli_config *config)
{
    const dataset_known *known = dataset_find_word(cli->operand[0]);
    const char *folder = cli->local[LOCAL_OUT];
    if (known == NULL) return unknown_name(cli->operand[0]);
    const lks_status status = config_set(config, KEY_DATA_NAME, known->name, "data");
    if (status != LKS_OK) return status;
    if (known->mirrors[0] == NULL) return get_digits(config, folder);
    if (folder == NULL) folder = dataset_folder(config);
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID,
                        "data %s has no folder to write to: neither XDG_DATA_HOME nor HOME is set; "
                        "give --out DIR",
                        cli->operand[0]);
    return data_download(cli, &config->pool, known, folder);
}

lks_status verb_data(const cli_args *cli, int *code)
{
    cli_config *config;
    (void)code;
    lks_status status = cli_configure(&config, cli, NULL);
    if (status == LKS_OK) status = get(cli, config);
    config_destroy(config);
    return status;
}
