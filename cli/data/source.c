/* What an action of `lockstep data` is about, opened. */
#include "cli/data/data.h"
#include "cli/out/output.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *data_shape_text(char text[64], const lks_shape *shape)
{
    return shape->ndim == 0 ? "1" : lks_shape_text(text, 64, shape);
}

lks_status data_threads(int *out, const cli_args *cli)
{
    enum { MOST_THREADS = 256 };
    const char *threads = cli->local[LOCAL_THREADS];
    int64_t count = 0;
    if (threads != NULL && (!lki_text_is_int(threads, &count) || count < 1 || count > MOST_THREADS))
        return lks_fail(LKS_E_INVALID, "--threads is '%.60s', expected an integer from 1 to %d",
                        threads, MOST_THREADS);
    *out = (int)count;
    return LKS_OK;
}

lks_status data_read_number(int64_t *out, const cli_args *cli, cli_local option, const char *name,
                            int64_t least, int64_t most)
{
    const char *text = cli->local[option];
    if (text == NULL || (lki_text_is_int(text, out) && *out >= least && *out <= most))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--%s is '%.60s', expected an integer from %lld to %lld", name,
                    text, (long long)least, (long long)most);
}

void data_offer_names(lki_nearest *near)
{
    for (int i = 0; i < lki_published_count; i++) {
        lki_nearest_offer(near, lki_published_table[i].name);
        if (lki_published_table[i].alias != NULL)
            lki_nearest_offer(near, lki_published_table[i].alias);
    }
}

/* Whether a file is a text or a table, by its name. */
static bool is_data_file(const char *path)
{
    static const char *const ends[] = {".txt", ".txt.gz", ".tokens", ".csv",
                                       ".tsv", ".csv.gz", ".tsv.gz"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t own = strlen(ends[i]);
        if (length > own && strcmp(path + length - own, ends[i]) == 0) return true;
    }
    return false;
}

/* The configuration of a name, a folder or a file. */
static lks_status configure(data_source *out, const cli_args *cli, const char *what)
{
    struct stat info;
    out->known = lki_published_find_word(what);
    bool there = out->known == NULL && stat(what, &info) == 0;
    const char *hash = strrchr(what, '#'); /* before the name of a configuration in a file */
    if (!there && hash != NULL)
        there = stat(pool_format(cli->pool, "%.*s", (int)(hash - what), what), &info) == 0;
    if (out->known == NULL && !there) {
        lki_nearest near = {.word = what};
        data_offer_names(&near);
        return lks_fail(LKS_E_INVALID,
                        "'%.200s' is neither a data set that is known (digits, mnist, fashion, "
                        "cifar10, cifar100, dummy), nor "
                        "a folder, nor a configuration%s%s",
                        what, near.best != NULL ? "; the nearest is " : "",
                        near.best != NULL ? near.best : "");
    }
    const bool regular = there && !S_ISDIR(info.st_mode) && !lks_dataset_folder_has(what, false) &&
                         !lks_dataset_folder_has(what, true);
    /* The file of a small network is called .txt, too. */
    const bool network = regular && is_data_file(what) &&
                         cli_configure(&out->recipe, cli, what) == LKS_OK;
    const bool file = network || (regular && !is_data_file(what));
    out->configured = file;
    lks_status status = network ? LKS_OK : cli_configure(&out->recipe, cli, file ? what : NULL);
    if (status == LKS_OK && out->known != NULL)
        status = lks_recipe_option(out->recipe, "data.name", out->known->name, "data");
    if (status == LKS_OK && there && !file)
        status = lks_recipe_option(out->recipe, "data.path", what, "data");
    if (status == LKS_OK) status = lks_recipe_name_data(out->recipe);
    if (status == LKS_OK && file)
        out->known = lki_published_find(lks_recipe_text(out->recipe, "data.name"));
    return status;
}

lks_status data_configure(data_source *out, const cli_args *cli, const char *what)
{
    lks_context_opts opts = say_logged;
    *out = (data_source){.split = cli->local[LOCAL_TEST] != NULL ? "test" : "training"};
    const lks_status status = configure(out, cli, what);
    if (status != LKS_OK) return status;
    opts.seed = (uint64_t)lks_recipe_int(out->recipe, "train.seed");
    return lks_context_create(&out->context, &opts);
}

lks_status data_reconfigure(data_source *source, const cli_args *cli, const char *what,
                            const char *setting)
{
    const cli_args with = cli_with_settings(cli, 1, &setting);
    data_close(source);
    return data_configure(source, &with, what);
}

lks_status data_open(data_source *out, const cli_args *cli, const char *what)
{
    const lks_status status = data_configure(out, cli, what);
    if (status != LKS_OK) return status;
    return lks_recipe_dataset(&out->data, out->recipe, out->context,
                              cli->local[LOCAL_TEST] != NULL);
}

void data_close(data_source *source)
{
    lks_dataset_destroy(source->data);
    lks_context_destroy(source->context);
    lks_recipe_close(source->recipe);
    *source = (data_source){0};
}
