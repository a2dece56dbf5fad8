/* `--resume EPOCH`: a training goes on from the checkpoint of that epoch. Those of later ones are put aside, so that it is
 * the newest, and nothing is lost. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/arch/arch.h"
#include "cli/out/say.h"

lks_status arch_resume_epoch(int64_t *out, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_RESUME_FROM];
    *out = -1;
    if (text == NULL || strcmp(text, "latest") == 0 || (lki_text_is_int(text, out) && *out >= 0))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--resume is '%.60s', expected latest or the number of an epoch",
                    text);
}

/* The step whose checkpoint this file is a half of, or -1. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0) return -1;
    const long long step = strtoll(name + 5, &end, 10);
    return strcmp(end, ".json") == 0 || strcmp(end, ".safetensors") == 0 ? step : -1;
}

/* A folder in which there is no such file yet. */
static lks_status aside_for(const char **out, const cli_args *cli, const char *folder,
                            int64_t epoch, const char *name)
{
    for (int n = 1;; n++) {
        *out = pool_format(cli->pool,
                           n == 1 ? "%s/later-than-epoch-%lld" : "%s/later-than-epoch-%lld-%d",
                           folder, (long long)epoch, n);
        if (mkdir(*out, 0777) != 0 && errno != EEXIST)
            return lks_fail(LKS_E_IO, "--resume %lld: the folder '%.300s' could not be made: %s",
                            (long long)epoch, *out, strerror(errno));
        if (access(pool_format(cli->pool, "%s/%s", *out, name), F_OK) != 0) return LKS_OK;
    }
}

/* Tensors go before their record: whoever is killed between them gives the same command again. */
static lks_status put_aside(const cli_args *cli, const char *folder, int64_t epoch, int64_t step,
                            const char *extension, const char **aside)
{
    DIR *open = opendir(folder);
    lks_status status = LKS_OK;
    if (open == NULL)
        return lks_fail(LKS_E_IO, "folder '%.300s' cannot be read: %s", folder, strerror(errno));
    for (const struct dirent *entry; status == LKS_OK && (entry = readdir(open)) != NULL;) {
        const char *name = entry->d_name, *dot = strrchr(name, '.');
        if (step_of(name) <= step || strcmp(dot, extension) != 0) continue;
        status = aside_for(aside, cli, folder, epoch, name);
        if (status == LKS_OK && rename(pool_format(cli->pool, "%s/%s", folder, name),
                                       pool_format(cli->pool, "%s/%s", *aside, name)) != 0)
            status = lks_fail(LKS_E_IO, "--resume %lld: %.300s/%.100s could not be put aside: %s",
                              (long long)epoch, folder, name, strerror(errno));
    }
    closedir(open);
    return status;
}

/* By the first rank: what is in the folder becomes what was there behind that epoch. */
static lks_status go_back(const cli_args *cli, lks_recipe *recipe, int64_t epoch)
{
    const char *folder = lks_recipe_text(recipe, "checkpoint.path"), *aside = NULL;
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const int64_t batch = lks_recipe_int(recipe, "train.batch_size");
    const int64_t samples = lks_dataset_get_info(parts.train).samples;
    const int64_t batches = (samples + batch - 1) / batch;
    int64_t newest;
    lks_status status = lks_checkpoint_find(folder, &newest);
    if (status != LKS_OK || newest == epoch * batches) return status;
    if (newest < 0)
        return lks_fail(LKS_E_IO, "--resume %lld: there is no checkpoint in %.200s",
                        (long long)epoch, folder);
    if (lks_checkpoint_check(parts.context, folder, epoch * batches) != LKS_OK)
        return lks_fail(LKS_E_MISMATCH,
                        "--resume %lld: %.200s has no whole checkpoint of step %lld, where that "
                        "epoch ends (checkpoint.keep is %lld); the newest is of step %lld, epoch "
                        "%.6g: --resume latest",
                        (long long)epoch, folder, (long long)(epoch * batches),
                        (long long)lks_recipe_int(recipe, "checkpoint.keep"), (long long)newest,
                        (double)newest / (double)batches);
    if (lks_recipe_bool(recipe, "train.dry_run")) return LKS_OK; /* it leaves the folder alone */
    status = put_aside(cli, folder, epoch, epoch * batches, ".safetensors", &aside);
    if (status == LKS_OK) status = put_aside(cli, folder, epoch, epoch * batches, ".json", &aside);
    if (status == LKS_OK) say_error("checkpoints of later epochs are in %s", aside);
    return status;
}

lks_status arch_check_resume(const cli_args *cli, lks_recipe *recipe)
{
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    int64_t epoch;
    lks_status status = arch_resume_epoch(&epoch, cli);
    if (status != LKS_OK || epoch < 0 || parts.train == NULL ||
        lks_recipe_text(recipe, "checkpoint.path") == NULL)
        return status;
    return lks_comm_agree(parts.comm,
                          lks_comm_rank(parts.comm) == 0 ? go_back(cli, recipe, epoch) : LKS_OK);
}
