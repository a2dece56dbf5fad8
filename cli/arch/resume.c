/* `--resume EPOCH`: a training goes on from the checkpoint of that epoch. Those of later ones are put aside, so that it is
 * the newest, and nothing is lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/arch/arch.h"
#include "cli/out/say.h"
#include "cli/verbs/checkpoint_path.h"

lks_status arch_resume_epoch(int64_t *out, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_RESUME_FROM];
    *out = -1;
    if (text == NULL || strcmp(text, "latest") == 0 || (lki_text_is_int(text, out) && *out >= 0))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--resume is '%.60s', expected latest or the number of an epoch",
                    text);
}

static lks_status move(int64_t epoch, const char *from, const char *to)
{
    if (rename(from, to) == 0 || errno == ENOENT) return LKS_OK; /* not there: it has been moved */
    return lks_fail(LKS_E_IO, "--resume %lld: %.300s could not be put aside: %s", (long long)epoch,
                    from, strerror(errno));
}

/* A checkpoint, into the first folder that has none of this step. Tensors go before their record: whoever is killed between
 * them gives the same command again. */
static lks_status put_aside(const char **aside, const cli_args *cli, const char *folder,
                            int64_t epoch, int64_t step)
{
    int n = 0;
    do {
        n++;
        *aside = pool_format(cli->pool,
                             n == 1 ? "%s/later-than-epoch-%lld" : "%s/later-than-epoch-%lld-%d",
                             folder, (long long)epoch, n);
        if (mkdir(*aside, 0777) != 0 && errno != EEXIST)
            return lks_fail(LKS_E_IO, "--resume %lld: the folder '%.300s' could not be made: %s",
                            (long long)epoch, *aside, strerror(errno));
    } while (access(checkpoint_record(cli->pool, *aside, step), F_OK) == 0);
    const lks_status status = move(epoch, checkpoint_tensors(cli->pool, folder, step),
                                   checkpoint_tensors(cli->pool, *aside, step));
    if (status != LKS_OK) return status;
    return move(epoch, checkpoint_record(cli->pool, folder, step),
                checkpoint_record(cli->pool, *aside, step));
}

/* By the first rank: what is in the folder becomes what was there behind that epoch. */
static lks_status go_back(const cli_args *cli, lks_recipe *recipe, int64_t epoch)
{
    const char *folder = lks_recipe_text(recipe, "checkpoint.path"), *aside = NULL;
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const int64_t batch = lks_recipe_int(recipe, "train.batch_size");
    const int64_t samples = lks_dataset_get_info(parts.train).samples;
    const int64_t batches = (samples + batch - 1) / batch;
    int64_t newest, *steps;
    int count = 0;
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
    status = checkpoint_steps(&steps, &count, cli->pool, folder);
    for (int i = 0; i < count && status == LKS_OK; i++)
        if (steps[i] > epoch * batches) status = put_aside(&aside, cli, folder, epoch, steps[i]);
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
