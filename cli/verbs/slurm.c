/* lockstep slurm: the script of a batch job */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "cli/out/text.h"

enum { WARNING_S = 90 }; /* before the time is up */

typedef struct batch {
    const cli_args *cli;
    const char *name, *out, *time, *partition, *account;
    bool own_folder, resumes; /* the training has --out, --resume by itself */
    int64_t nodes, tasks, cpus;
} batch;

/* As Slurm takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]. */
static bool is_time(const char *text)
{
    int colons = 0, dashes = 0;
    bool digit = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (isdigit((unsigned char)*c)) {
            digit = true;
            continue;
        }
        if (!digit || (*c != ':' && *c != '-') || (*c == '-' && (dashes > 0 || colons > 0)))
            return false;
        colons += *c == ':';
        dashes += *c == '-';
        digit = false;
    }
    return digit && colons <= 2;
}

/* A word of a line that sbatch reads, where no quotes help. */
static lks_status batch_word(const char *name, const char *text)
{
    for (const char *c = text; c != NULL && *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-_.,:+@", *c) == NULL)
            return lks_fail(LKS_E_INVALID,
                            "--%s is '%.60s', expected letters, digits and any of -_.,:+@", name,
                            text);
    return LKS_OK;
}

/* The configuration's file without folder and ending. */
static const char *name_of(cli_pool *pool, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    char *name = pool_copy(pool, base, dot != NULL ? (size_t)(dot - base) : strlen(base));
    for (char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-_.", *c) == NULL) *c = '_';
    return name;
}

/* Where no worker can have a replica of its own, whoever asked for so many cores wants to know now. */
static lks_status check_workers(batch *b, lks_recipe *recipe)
{
    const int64_t ranks = b->nodes * b->tasks;
    const int64_t replicas = lks_recipe_int(recipe, "train.replicas") *
                             lks_recipe_int(recipe, "train.accumulate");
    if (b->cpus == 0)
        b->cpus = lks_recipe_has(recipe, "train.workers") ? lks_recipe_int(recipe, "train.workers")
                                                          : 1;
    if (ranks > replicas)
        return lks_fail(
            LKS_E_INVALID,
            "%" PRId64 " node%s with %" PRId64 " task%s each are %" PRId64
            " ranks, but there are %" PRId64
            " replicas, and a rank needs one; use fewer, or replicas: %" PRId64 " (other bits)",
            b->nodes, TEXT_S(b->nodes), b->tasks, TEXT_S(b->tasks), ranks, replicas, ranks);
    if (ranks * b->cpus > replicas)
        say_error("%" PRId64 " ranks with %" PRId64 " cores each are more than the %" PRId64
                  " replicas, and a core needs one: some will be idle",
                  ranks, b->cpus, replicas);
    return LKS_OK;
}

static lks_status read_training(batch *b)
{
    const cli_args *cli = b->cli;
    cli_args inner;
    char **words = pool_alloc(cli->pool, ((size_t)cli->operands + 3) * sizeof *words);
    words[0] = cli->argv[0];
    words[1] = pool_format(cli->pool, "train");
    for (int i = 0; i < cli->operands; i++) words[2 + i] = cli->operand[i];
    lks_status status = cli_parse(&inner, cli->pool, cli->operands + 2, words);
    if (status != LKS_OK) return status;
    lks_recipe *recipe;
    status = cli_configure(&recipe, &inner, inner.operand[0]);
    if (status != LKS_OK) return status;
    const char *folder = lks_recipe_text(recipe, "checkpoint.path");
    b->name = name_of(cli->pool, inner.operand[0]);
    b->own_folder = folder != NULL;
    b->out = folder != NULL ? pool_copy(cli->pool, folder, strlen(folder)) : b->name;
    b->resumes = lks_recipe_bool(recipe, "checkpoint.resume");
    status = check_workers(b, recipe);
    lks_recipe_close(recipe);
    return status;
}

static lks_status read_options(batch *b)
{
    const cli_args *cli = b->cli;
    lks_status status = cli_count(&b->nodes, cli, LOCAL_NODES, "--nodes", LAUNCH_RANKS);
    if (status == LKS_OK)
        status = cli_count(&b->tasks, cli, LOCAL_TASKS, "--ntasks-per-node", LAUNCH_RANKS);
    if (status == LKS_OK)
        status = cli_count(&b->cpus, cli, LOCAL_CPUS, "--cpus-per-task", LAUNCH_RANKS);
    if (status == LKS_OK) status = batch_word("partition", b->partition);
    if (status == LKS_OK) status = batch_word("account", b->account);
    if (status != LKS_OK) return status;
    if (is_time(b->time)) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "--time is '%.60s', expected minutes, or days-hours:minutes:seconds as 20, "
                    "4:00:00 or 1-12",
                    b->time);
}

static void print_head(const batch *b)
{
    printf("#!/bin/bash\n"
           "#SBATCH --job-name=%s\n"
           "#SBATCH --nodes=%" PRId64 "\n"
           "#SBATCH --ntasks-per-node=%" PRId64 "\n"
           "#SBATCH --cpus-per-task=%" PRId64 "\n"
           "#SBATCH --hint=nomultithread\n"
           "#SBATCH --time=%s\n",
           b->name, b->nodes, b->tasks, b->cpus, b->time);
    if (b->partition != NULL) printf("#SBATCH --partition=%s\n", b->partition);
    if (b->account != NULL) printf("#SBATCH --account=%s\n", b->account);
    printf("#SBATCH --output=%s-%%j.out\n"
           "#SBATCH --open-mode=append\n"
           "#SBATCH --signal=SIGUSR1@%d\n"
           "#SBATCH --requeue\n\n",
           b->name, WARNING_S);
}

static void print_body(const batch *b)
{
    cli_pool *pool = b->cli->pool;
    char **words = pool_alloc(pool, ((size_t)b->cli->operands + 12) * sizeof *words);
    int count = 0;
    words[count++] = cli_program(b->cli);
    static const char *const launch[] = {"launch", "--by", "srun", "--", "train"};
    for (size_t i = 0; i < sizeof launch / sizeof *launch; i++)
        words[count++] = pool_format(pool, "%s", launch[i]);
    for (int i = 0; i < b->cli->operands; i++) words[count++] = b->cli->operand[i];
    if (!b->own_folder) {
        words[count++] = pool_format(pool, "--out");
        words[count++] = pool_format(pool, "%s", b->out);
    }
    if (!b->resumes) words[count++] = pool_format(pool, "--resume");
    words[count] = NULL;
    printf("# Each task is a rank with the cores of --cpus-per-task, to which launch binds it. %d "
           "seconds\n"
           "# before the time is up Slurm sends SIGUSR1 to the ranks: they save and end with 138. "
           "Then the\n"
           "# job is queued again and goes on where it was, to the hash that it would have had in "
           "one go.\n"
           "%s\n"
           "code=$?\n"
           "if [ \"$code\" = 138 ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n"
           "exit \"$code\"\n",
           WARNING_S, cli_words(pool, words));
}

lks_status verb_slurm(const cli_args *cli, int *code)
{
    batch b = {.cli = cli, .nodes = 1, .tasks = 1};
    (void)code;
    b.time = cli->local[LOCAL_TIME] != NULL ? cli->local[LOCAL_TIME] : "60";
    b.partition = cli->local[LOCAL_PARTITION];
    b.account = cli->local[LOCAL_ACCOUNT];
    lks_status status = read_options(&b);
    if (status == LKS_OK) status = read_training(&b);
    if (status != LKS_OK) return status;
    print_head(&b);
    print_body(&b);
    return LKS_OK;
}
