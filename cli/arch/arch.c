#include "cli/arch/arch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/out/text.h"
#include "cli/report/report.h"
#include "cli/report/scores.h"

enum { EPOCHS = 60, CLASSES = 10, BATCH = 16 };

static const char *arch_of(const cli_args *cli)
{
    const char *name = cli->local[LOCAL_ARCH];
    return name != NULL ? name : "alexnet";
}

static const char *dataset_of(const cli_args *cli)
{
    const char *name = cli->local[LOCAL_DATASET];
    return name != NULL ? name : "dummy";
}

bool arch_is_asked(const cli_args *cli)
{
    return cli->local[LOCAL_ARCH] != NULL || cli->local[LOCAL_DATASET] != NULL;
}

static int64_t processes(void)
{
    const lks_launch launch = lks_launch_get();
    return launch.size > 1 ? launch.size : 1;
}

/* A word that can stand in YAML as it is. */
static bool is_plain(const char *word)
{
    return *word != '\0' &&
           word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] ==
               '\0';
}

/* Options that mean nothing without --arch. */
static lks_status refuse_alone(const cli_args *cli)
{
    static const struct {
        cli_local local;
        const char *name;
    } own[] = {{LOCAL_EVALUATE, "evaluate"},
               {LOCAL_MODEL_NAME, "model-name"},
               {LOCAL_EXP_NAME, "exp-name"},
               {LOCAL_NO_CHECKPOINT, "no-checkpoint"}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (cli->local[own[i].local] != NULL)
            return lks_fail(LKS_E_INVALID,
                            "--%s is for a training by --arch or --dataset, without a "
                            "configuration; %.200s is one",
                            own[i].name, cli->operand[0]);
    return LKS_OK;
}

lks_status arch_open(lks_recipe **out, const cli_args *cli)
{
    const char *arch = arch_of(cli), *dataset = dataset_of(cli);
    const bool dummy = strcmp(dataset, "dummy") == 0;
    if (!dummy && strcmp(dataset, "tiny-imagenet") != 0)
        return lks_fail(LKS_E_INVALID, "--dataset is '%.60s', expected dummy or tiny-imagenet",
                        dataset);
    if (!is_plain(arch))
        return lks_fail(LKS_E_INVALID,
                        "--arch is '%.60s', expected a network by name (lockstep info --models)",
                        arch);
    const char *data = dummy ? pool_format(cli->pool,
                                           "{name: dummy, shape: [224, 224, 3], samples: 100, "
                                           "test_samples: 300, classes: %d}",
                                           CLASSES)
                             : "{name: tiny-imagenet}";
    const char *yaml = pool_format(
        cli->pool,
        "data: %s\nmodel: {name: %s}\ntrain: {epochs: %d, batch_size: %lld, seed: 42}\n"
        "optimizer: {name: adam, lr: 1.0e-4, eps: 1.0e-9}\n"
        "schedule: {name: step, step_size: 30, gamma: 0.1}\n"
        "checkpoint: {path: checkpoints/%s-%s, resume: true}\nlog: {format: ddp}\n",
        data, arch, EPOCHS, (long long)(BATCH * processes()), arch, dataset);
    return lks_recipe_open_text(out, pool_format(cli->pool, "--arch %s", arch), yaml);
}

static const cli_setting *given(const cli_args *cli, lki_key key)
{
    const cli_setting *found = NULL;
    for (int i = 0; i < cli->settings; i++)
        if (cli->setting[i].option->key == key) found = &cli->setting[i];
    return found;
}

lks_status arch_settle(lks_recipe *recipe, const cli_args *cli)
{
    int64_t epoch;
    bool evaluates;
    lks_status status = LKS_OK;
    if (!arch_is_asked(cli)) return refuse_alone(cli);
    status = arch_resume_epoch(&epoch, cli);
    if (status == LKS_OK) status = arch_evaluates(&evaluates, cli);
    /* That of a process, as their script has it. */
    if (status == LKS_OK && given(cli, LKI_KEY_TRAIN_BATCH_SIZE) != NULL && processes() > 1)
        status = lks_recipe_option(
            recipe, "train.batch_size",
            pool_format(cli->pool, "%lld",
                        (long long)(lks_recipe_int(recipe, "train.batch_size") * processes())),
            "--batch-size");
    if (status == LKS_OK && cli->local[LOCAL_NO_CHECKPOINT] != NULL) {
        if (given(cli, LKI_KEY_CHECKPOINT_PATH) != NULL || cli->local[LOCAL_RESUME_FROM] != NULL)
            return lks_fail(LKS_E_INVALID, "--no-checkpoint writes and reads none; drop "
                                           "--checkpoint-dir and --resume");
        status = lks_recipe_set(recipe, "checkpoint.resume=false");
        if (status == LKS_OK) status = lks_recipe_set(recipe, "checkpoint.path=null");
    }
    if (status == LKS_OK && strcmp(dataset_of(cli), "dummy") != 0 &&
        lks_recipe_text(recipe, "data.path") == NULL)
        return lks_fail(LKS_E_INVALID,
                        "--dataset tiny-imagenet needs --data DIR, the folder that 'lockstep data "
                        "pack tiny-imagenet-200 --size 64' wrote");
    return status;
}

static void say_setting(const char *key, const char *value)
{
    say("%20s: %s", key, value);
}

static const char *number(const cli_args *cli, lks_recipe *recipe, const char *key)
{
    return pool_format(cli->pool, "%lld", (long long)lks_recipe_int(recipe, key));
}

static void say_configuration(const cli_args *cli, lks_recipe *recipe)
{
    char rate[TEXT_NUMBER_SIZE];
    const char *folder = lks_recipe_text(recipe, "checkpoint.path");
    const char *resume = cli->local[LOCAL_RESUME_FROM], *model = cli->local[LOCAL_MODEL_NAME],
               *experiment = cli->local[LOCAL_EXP_NAME];
    bool evaluates = false;
    if (arch_evaluates(&evaluates, cli) != LKS_OK) return;
    say("Configuration:");
    say_setting("arch", arch_of(cli));
    say_setting("batch_size",
                pool_format(cli->pool, "%lld",
                            (long long)(lks_recipe_int(recipe, "train.batch_size") / processes())));
    say_setting("num_epochs", number(cli, recipe, "train.epochs"));
    say_setting("lr", lks_text_number(rate, lks_recipe_float(recipe, "optimizer.lr")));
    say_setting("checkpoint_dir", folder != NULL ? folder : "none");
    say_setting("model_name", model != NULL ? model : "step-N, every epoch; the best stays");
    say_setting("seed", number(cli, recipe, "train.seed"));
    say_setting("evaluate", evaluates ? "True" : "False");
    say_setting("dataset", dataset_of(cli));
    say_setting("resume", folder == NULL ? "none" : resume != NULL ? resume : "latest");
    say_setting("exp_name", experiment != NULL ? experiment : "none");
    say_setting("num_classes", lks_recipe_has(recipe, "data.classes")
                                   ? number(cli, recipe, "data.classes")
                                   : "as the data has");
    say_setting("no_checkpoint", folder == NULL ? "True" : "False");
}

/* Which of the ranks on its host each one is. */
static lks_status say_ranks(lks_comm *comm)
{
    enum { HOST = 256 };
    const int size = lks_comm_size(comm);
    char own[HOST] = "", *all = calloc((size_t)size, HOST);
    (void)gethostname(own, sizeof own - 1);
    lks_status status = lks_comm_agree(
        comm, all != NULL ? LKS_OK : lks_fail(LKS_E_NOMEM, "out of memory for names of hosts"));
    if (status == LKS_OK && size > 1) status = lks_comm_all_gather(comm, own, HOST, all);
    for (int r = 0; r < size && status == LKS_OK && lks_comm_rank(comm) == 0; r++) {
        int local = 0;
        for (int i = 0; i < r; i++)
            local += strcmp(all + (size_t)i * HOST, all + (size_t)r * HOST) == 0;
        say("Rank %d/%d (local rank %d) connected.", r, size, local);
    }
    free(all);
    return status;
}

lks_status arch_print_head(const cli_args *cli, lks_recipe *recipe)
{
    lks_comm *comm = lks_recipe_get_parts(recipe).comm;
    if (lks_recipe_bool(recipe, "log.quiet") ||
        strcmp(lks_recipe_text(recipe, "log.format"), "ddp") != 0)
        return LKS_OK;
    if (lks_comm_rank(comm) == 0) say_configuration(cli, recipe);
    return say_ranks(comm);
}

void arch_print_results(const lks_metrics *sum, const lks_rates *rates)
{
    say("\nValidation Results:");
    say("%10s: %.4f", "val_loss", lks_metrics_loss(sum));
    say("%10s: %.4f", "accuracy", (double)sum->correct / (double)sum->counted);
    say("%10s: %.4f", "precision", rates->precision);
    say("%10s: %.4f", "recall", rates->recall);
    say("%10s: %.4f", "f1", rates->f1);
    say("(precision, recall, f1: means over classes; over samples each is the accuracy)");
}

lks_status arch_evaluates(bool *out, const cli_args *cli)
{
    static const char *const words[2][3] = {{"False", "false", "0"}, {"True", "true", "1"}};
    const char *text = cli->local[LOCAL_EVALUATE];
    *out = false;
    for (int i = 0; i < 2 && text != NULL; i++)
        for (int k = 0; k < 3; k++) {
            if (strcmp(words[i][k], text) != 0) continue;
            *out = i == 1;
            return LKS_OK;
        }
    if (text == NULL) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--evaluate is '%.60s', expected True or False", text);
}

lks_status arch_evaluate(const cli_args *cli, lks_recipe *recipe, int *code)
{
    lks_metrics sum;
    scores found = {0};
    int64_t step;
    (void)code;
    lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_TEST);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = arch_print_head(cli, recipe);
    if (status == LKS_OK) status = lks_recipe_load(recipe, LKS_WHICH_RUN, &step);
    if (status != LKS_OK) return status;
    status = scores_count(&found, &sum, recipe, lks_recipe_get_parts(recipe).test, 0);
    const lks_rates rates = lks_rates_of(found.of.classes, found.of.right, found.of.given,
                                         found.of.there);
    if (status == LKS_OK) {
        if (step >= 0) say("Checkpoint of step %lld", (long long)step);
        arch_print_results(&sum, &rates);
    }
    scores_free(&found);
    return status;
}
