/* lockstep data */
#include "cli/data/data.h"
#include "cli/out/output.h"
#include "cli/out/text.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both splits; files that are there already may be somebody's data. */
static lks_status write_digits(lki_config *config, lks_context *context, const char *folder)
{
    const char *path[LKI_IDX_FILES];
    for (int i = 0; i < LKI_IDX_FILES; i++) {
        path[i] = pool_format(&config->heap, "%s/%s", folder, lki_idx_names[i]);
        if (access(path[i], F_OK) == 0)
            return lks_fail(
                LKS_E_IO, "%.300s is there already; remove it, or choose another folder", path[i]);
    }
    lks_status status = lki_folder_create(folder);
    for (int test = 0; test < 2 && status == LKS_OK; test++) {
        lks_dataset *digits;
        status = lki_source_open(&digits, config, context, test == 1);
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

static lks_status get_digits(lki_config *config, const char *folder)
{
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID, "data digits needs a folder to write to: give --out DIR");
    lks_context *context = NULL;
    lks_status status = output_alone();
    if (status == LKS_OK) status = lks_context_create(&context, &say_logged);
    if (status == LKS_OK) status = write_digits(config, context, folder);
    lks_context_destroy(context);
    return status;
}

static lks_status get_known(const cli_args *cli, lki_config *config, const lki_published *known)
{
    const char *folder = cli->local[LOCAL_OUT];
    const lks_status status = lki_config_set(config, LKI_KEY_DATA_NAME, known->name, "data");
    if (status != LKS_OK) return status;
    if (known->mirrors[0] == NULL) return get_digits(config, folder);
    if (folder == NULL) folder = lki_source_folder(config);
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID,
                        "data %s has no folder to write to: neither XDG_DATA_HOME nor HOME is set; "
                        "give --out DIR",
                        cli->operand[0]);
    return data_download(cli, &config->heap, known, folder);
}

static lks_status get(const cli_args *cli, const lki_published *known)
{
    lki_config *config;
    lks_status status = cli_configure(&config, cli, NULL);
    if (status == LKS_OK) status = get_known(cli, config, known);
    lki_config_destroy(config);
    return status;
}

/* ---------------------------------------------------------------- for show, check and stats */

const char *data_shape_text(char text[64], const lks_shape *shape)
{
    int used = snprintf(text, 64, "%s", shape->ndim == 0 ? "1" : "");
    for (int i = 0; i < shape->ndim && used < 64; i++)
        used += snprintf(text + used, 64 - (size_t)used, "%s%lld", i > 0 ? "x" : "",
                         (long long)shape->dim[i]);
    return text;
}

static void offer_names(lki_nearest *near)
{
    for (int i = 0; i < lki_published_count; i++) {
        lki_nearest_offer(near, lki_published_table[i].name);
        if (lki_published_table[i].alias != NULL)
            lki_nearest_offer(near, lki_published_table[i].alias);
    }
}

/* The configuration of a name, a folder or a file. */
static lks_status configure(data_source *out, const cli_args *cli, const char *what)
{
    struct stat info;
    out->known = lki_published_find_word(what);
    const bool there = out->known == NULL && stat(what, &info) == 0;
    if (out->known == NULL && !there) {
        lki_nearest near = {.word = what};
        offer_names(&near);
        return lks_fail(
            LKS_E_INVALID,
            "'%.200s' is neither a data set that is known (digits, mnist, fashion), nor "
            "a folder, nor a configuration%s%s",
            what, near.best != NULL ? "; the nearest is " : "", near.best != NULL ? near.best : "");
    }
    const bool file = there && !S_ISDIR(info.st_mode);
    lks_status status = cli_configure(&out->config, cli, file ? what : NULL);
    if (status == LKS_OK && out->known != NULL)
        status = lki_config_set(out->config, LKI_KEY_DATA_NAME, out->known->name, "data");
    if (status == LKS_OK && there && !file)
        status = lki_config_set(out->config, LKI_KEY_DATA_PATH, what, "data");
    if (status == LKS_OK) status = lki_config_name_data(out->config);
    if (status == LKS_OK && file)
        out->known = lki_published_find(lki_config_text(out->config, LKI_KEY_DATA_NAME));
    return status;
}

lks_status data_open(data_source *out, const cli_args *cli, const char *what)
{
    const bool test = cli->local[LOCAL_TEST] != NULL;
    *out = (data_source){.split = test ? "test" : "training"};
    lks_status status = configure(out, cli, what);
    if (status == LKS_OK) status = lks_context_create(&out->context, &say_logged);
    if (status == LKS_OK) status = lki_source_open(&out->data, out->config, out->context, test);
    return status;
}

void data_close(data_source *source)
{
    lks_dataset_destroy(source->data);
    lks_context_destroy(source->context);
    lki_config_destroy(source->config);
}

/* ---------------------------------------------------------------- the verb */

static const struct action {
    const char *name;
    lks_status (*run)(const cli_args *cli, const char *what);
} actions[] = {{"show", data_show}, {"check", data_check}, {"stats", data_stats}};
enum { ACTIONS = sizeof actions / sizeof *actions };

static lks_status unknown_action(const char *word)
{
    lki_nearest near = {.word = word};
    offer_names(&near);
    for (int i = 0; i < ACTIONS; i++) lki_nearest_offer(&near, actions[i].name);
    return lks_fail(
        LKS_E_INVALID,
        "unknown data set '%.60s'%s%s; expected digits, mnist or fashion to get one, or "
        "show, check or stats to see one (other IDX files need no command: give "
        "their folder with --data)",
        word, near.best != NULL ? "; the nearest is " : "", near.best != NULL ? near.best : "");
}

lks_status verb_data(const cli_args *cli, int *code)
{
    const char *word = cli->operand[0];
    const lki_published *known = lki_published_find_word(word);
    (void)code;
    for (int i = 0; i < ACTIONS; i++) {
        if (strcmp(actions[i].name, word) != 0) continue;
        if (cli->operands == 2) return actions[i].run(cli, cli->operand[1]);
        return lks_fail(LKS_E_INVALID,
                        "data %s needs to know of what: lockstep data %s mnist, for example, or a "
                        "folder",
                        word, word);
    }
    if (known == NULL) return unknown_action(word);
    if (cli->operands == 1) return get(cli, known);
    return lks_fail(LKS_E_INVALID,
                    "data %s takes nothing more, found '%.60s'; a folder is given "
                    "by --out",
                    word, cli->operand[1]);
}
