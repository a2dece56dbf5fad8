/* lockstep data */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "dataset.h"

static const char *const files[2][2] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
    {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
};

/* The commands that get a data set: Lockstep itself does not download. */
static void print_commands(const dataset_known *known, const char *folder)
{
    say("# Lockstep does not download; these commands get %s for 'data.name: %s':", known->name,
        known->name);
    say("mkdir -p '%s' && cd '%s'", folder, folder);
    for (int i = 0; i < 4; i++) say("curl -fLO %s/%s.gz", known->source, files[i / 2][i % 2]);
}

static lks_status unknown_name(const char *name)
{
    cli_nearest near = {.word = name};
    for (int i = 0; i < dataset_table_count; i++) nearest_offer(&near, dataset_table[i].name);
    return lks_fail(LKS_E_INVALID,
                    "unknown data set '%.60s'%s%s; expected digits, mnist or fashion_mnist (other "
                    "IDX files need no command: give their folder with --data)",
                    name, near.best != NULL ? "; the nearest is " : "",
                    near.best != NULL ? near.best : "");
}

static lks_status make_folder(cli_pool *pool, const char *path)
{
    char *part = pool_format(pool, "%s", path);
    for (char *c = part + 1;; c++) {
        if (*c != '/' && *c != '\0') continue;
        const char rest = *c;
        *c = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return lks_fail(LKS_E_IO, "folder %.300s cannot be made: %s", part, strerror(errno));
        *c = rest;
        if (rest == '\0') return LKS_OK;
    }
}

/* Both splits; files that are there already may be somebody's data. */
static lks_status write_digits(cli_config *config, lks_context *context, const char *folder)
{
    const char *path[2][2];
    for (int i = 0; i < 4; i++) {
        path[i / 2][i % 2] = pool_format(&config->pool, "%s/%s", folder, files[i / 2][i % 2]);
        if (access(path[i / 2][i % 2], F_OK) == 0)
            return lks_fail(LKS_E_IO,
                            "%.300s is there already; remove it, or choose another folder",
                            path[i / 2][i % 2]);
    }
    lks_status status = make_folder(&config->pool, folder);
    for (int test = 0; test < 2 && status == LKS_OK; test++) {
        lks_dataset *digits;
        status = dataset_open(&digits, config, context, test == 1);
        if (status != LKS_OK) break;
        status = lks_dataset_write_idx(digits, path[test][0], path[test][1]);
        if (status == LKS_OK)
            say("%s: %lld samples", path[test][0], (long long)lks_dataset_get_info(digits).samples);
        lks_dataset_destroy(digits);
    }
    return status;
}

static lks_status run(cli_config *config, const char *name)
{
    const dataset_known *known = dataset_find(name);
    const char *folder = config_text(config, KEY_DATA_PATH);
    lks_status status = config_set(config, KEY_DATA_NAME, name, "data");
    if (known == NULL) return unknown_name(name);
    if (status != LKS_OK) return status;
    if (known->source != NULL) {
        if (folder == NULL) folder = dataset_folder(config);
        print_commands(known, folder != NULL ? folder : name);
        return LKS_OK;
    }
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID, "data %s needs a folder to write to: give --out DIR", name);
    config->value[KEY_DATA_PATH].set = false; /* else the digits would be read from there */
    lks_context *context;
    status = lks_context_create(&context, NULL);
    if (status == LKS_OK) status = write_digits(config, context, folder);
    lks_context_destroy(context);
    return status;
}

lks_status verb_data(const cli_args *cli, int *code)
{
    cli_config *config;
    (void)code;
    lks_status status = cli_configure(&config, cli, NULL);
    if (status == LKS_OK) status = run(config, cli->operand[0]);
    config_destroy(config);
    return status;
}
