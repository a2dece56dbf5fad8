/* lockstep launch */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "cli/meet/meet.h"
#include "cli/out/text.h"
#include "recipe/text/setting.h"

static lks_status take_count(int *out, const cli_args *cli, cli_local local, const char *name)
{
    int64_t count = *out;
    const lks_status status = cli_count(&count, cli, local, name, LAUNCH_RANKS);
    *out = (int)count;
    return status;
}

/* -n, or the hosts' sum, or what Slurm was asked for. */
static lks_status take_ranks(launch_plan *plan, const cli_args *cli)
{
    int slots = 0;
    lks_status status = take_count(&plan->ranks, cli, LOCAL_RANKS, "-n");
    if (status != LKS_OK) return status;
    if (cli->local[LOCAL_HOSTS] != NULL)
        status = launch_hosts(&plan->host, &plan->hosts, &slots, cli->pool,
                              cli->local[LOCAL_HOSTS]);
    if (status != LKS_OK) return status;
    if (plan->ranks == 0) plan->ranks = slots;
    if (slots > 0 && plan->ranks > slots)
        return lks_fail(LKS_E_INVALID,
                        "-n is %d, but --hosts has room for %d; write more behind the colons (a:2)",
                        plan->ranks, slots);
    const char *tasks = getenv("SLURM_NTASKS");
    int64_t count;
    if (plan->ranks == 0 && tasks != NULL) {
        if (!lki_text_is_int(tasks, &count) || count < 1 || count > LAUNCH_RANKS)
            return lks_fail(LKS_E_INVALID,
                            "SLURM_NTASKS is '%.60s', expected the number of ranks, from 1 to %d; "
                            "put it right, or give -n N",
                            tasks, LAUNCH_RANKS);
        plan->ranks = (int)count;
    }
    if (plan->ranks == 0)
        return lks_fail(LKS_E_INVALID,
                        "launch needs the number of ranks: -n N, or --hosts a:2,b:2");
    return LKS_OK;
}

static lks_status take_restarts(launch_plan *plan, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_MAX_RESTARTS];
    int64_t count = 0;
    if (text != NULL && (!lki_text_is_int(text, &count) || count < 0 || count > LAUNCH_RANKS))
        return lks_fail(LKS_E_INVALID, "--max-restarts is '%.60s', expected a number from 0 to %d",
                        text, LAUNCH_RANKS);
    plan->restarts = (int)count;
    return LKS_OK;
}

static lks_status take_bind(launch_plan *plan, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_BIND];
    plan->bind = text == NULL || strcmp(text, "cores") == 0;
    if (plan->bind || strcmp(text, "none") == 0) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--bind is '%.60s', expected cores or none", text);
}

/* "host:port", or "[address]:port". */
static lks_status take_endpoint(meet_plan *meet, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_RDZV_ENDPOINT];
    if (text == NULL)
        return lks_fail(
            LKS_E_INVALID,
            "--nnodes is %d, but there is no --rdzv-endpoint; give an address of one of "
            "the hosts, and a port: node0:48123",
            meet->nodes);
    char *host = pool_copy(cli->pool, text, strlen(text)), *end = strchr(host, ']');
    const bool bracketed = *host == '[' && end != NULL;
    char *colon = strrchr(bracketed ? end : host, ':');
    meet->port = "29400";
    if (colon != NULL) {
        *colon = '\0';
        meet->port = colon + 1;
    }
    if (bracketed) *end = '\0';
    meet->host = host + bracketed;
    int64_t port;
    if (*meet->host != '\0' && lki_text_is_int(meet->port, &port) && port > 0 && port < 65536)
        return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "--rdzv-endpoint is '%.200s', expected HOST:PORT, as node0:48123", text);
}

/* --nnodes N, or MIN:MAX as torchrun has it. */
static lks_status take_nodes(meet_plan *meet, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_NNODES];
    const char *colon = text != NULL ? strchr(text, ':') : NULL;
    const bool elastic = cli->local[LOCAL_ELASTIC] != NULL;
    int64_t least = 0, most = 1;
    bool good = text == NULL || lki_text_is_int(colon != NULL ? colon + 1 : text, &most);
    if (colon != NULL)
        good &= lki_text_is_int(pool_copy(cli->pool, text, (size_t)(colon - text)), &least);
    else
        least = elastic ? 1 : most;
    if (!good || least < 1 || most < least || most > MEET_NODES)
        return lks_fail(LKS_E_INVALID,
                        "--nnodes is '%.60s', expected a number from 1 to %d, or two, the least "
                        "and the most: 1:4",
                        text != NULL ? text : "", MEET_NODES);
    if (cli->local[LOCAL_STANDALONE] != NULL) least = most = 1;
    if (elastic && most == 1)
        return lks_fail(LKS_E_INVALID, "--elastic is for hosts that meet; give --nnodes and "
                                       "--rdzv-endpoint too");
    meet->least = (int)least;
    meet->nodes = (int)most;
    return LKS_OK;
}

/* What of torchrun's options is given; meet->nodes is 1 where this host is alone. */
static lks_status take_meeting(meet_plan *meet, const cli_args *cli)
{
    const char *rank = cli->local[LOCAL_NODE_RANK], *id = cli->local[LOCAL_RDZV_ID];
    const char *timeout = cli->local[LOCAL_RDZV_TIMEOUT];
    lks_status status = take_nodes(meet, cli);
    if (status == LKS_OK) status = take_count(&meet->ranks, cli, LOCAL_NPROC, "--nproc-per-node");
    if (status != LKS_OK) return status;
    meet->id = id != NULL ? id : "";
    meet->secret_file = cli->local[LOCAL_RDZV_SECRET];
    int64_t node;
    if (rank != NULL && (!lki_text_is_int(rank, &node) || node < 0 || node >= meet->nodes))
        return lks_fail(LKS_E_INVALID, "--node-rank is '%.60s', expected 0 to %d", rank,
                        meet->nodes - 1);
    if (rank != NULL) meet->node = (int)node;
    if (timeout != NULL && (!lki_text_is_float(timeout, &meet->timeout) ||
                            !(meet->timeout > 0 && meet->timeout < 1e6)))
        return lks_fail(LKS_E_INVALID, "--rdzv-timeout is '%.60s', expected seconds above 0",
                        timeout);
    return meet->nodes > 1 ? take_endpoint(meet, cli) : LKS_OK;
}

/* What a rank runs: this program with the words behind the options, or that of --program. */
static void take_command(launch_plan *plan, const cli_args *cli, bool own)
{
    char **words = pool_alloc(cli->pool, ((size_t)cli->operands + 4) * sizeof *words);
    int count = 0;
    words[count++] = pool_format(cli->pool, "%s", own ? cli->local[LOCAL_PROGRAM] : plan->self);
    for (int i = 0; i < cli->operands; i++) {
        words[count++] = cli->operand[i];
        if (i > 0 || own || plan->workers == 0) continue;
        words[count++] = "--workers";
        words[count++] = pool_format(cli->pool, "%d", plan->workers);
    }
    plan->rank = words;
}

/* After a restart it goes on where it has saved; but not where it is to be refused, as checkpoints of
 * another training are there. */
static void resume_later(launch_plan *plan, cli_pool *pool, int count, const char *folder,
                         bool resumes)
{
    int64_t step = -1;
    const bool fresh = lks_checkpoint_find(folder, &step) != LKS_OK || step < 0;
    plan->saves = true;
    if (resumes || !fresh) return;
    char **words = pool_alloc(pool, ((size_t)count + 2) * sizeof *words);
    memcpy(words, plan->rank, 2 * sizeof *words);
    words[2] = pool_format(pool, "--resume");
    memcpy(words + 3, plan->rank + 2, ((size_t)count - 1) * sizeof *words); /* with the NULL */
    plan->resumed = words;
}

/* As each rank would say it, behind the start of all. */
static lks_status check_replicas(const launch_plan *plan, const lks_recipe *recipe)
{
    const int64_t replicas = lks_recipe_int(recipe, "train.replicas") *
                             lks_recipe_int(recipe, "train.accumulate"),
                  each = lks_recipe_has(recipe, "train.workers")
                             ? lks_recipe_int(recipe, "train.workers")
                             : 1,
                  workers = plan->ranks * each;
    if (workers <= replicas || plan->meets) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "%lld workers of %d ranks cannot share %lld replica%s: a worker runs whole "
                    "replicas; use fewer ranks or workers, or replicas: %lld (other bits)",
                    (long long)workers, plan->ranks, (long long)replicas, TEXT_S(replicas),
                    (long long)workers);
}

/* Reads the command of the ranks once here, so that what is wrong with it is said once; finds out where
 * their logs belong. */
static lks_status check_command(launch_plan *plan, const cli_args *cli, bool *alone)
{
    cli_args inner;
    int count = 0;
    while (plan->rank[count] != NULL) count++;
    lks_status status = cli_parse(&inner, cli->pool, count, plan->rank);
    if (status != LKS_OK) return status;
    *alone = inner.verb == NULL || inner.local[LOCAL_HELP] != NULL ||
             inner.local[LOCAL_PRINT_CONFIG] != NULL || inner.local[LOCAL_VERSION] != NULL;
    if (*alone || (inner.verb_bit & VERB_TRAIN) == 0) return LKS_OK;
    lks_recipe *recipe;
    status = cli_configure(&recipe, &inner, inner.operand[0]);
    if (status != LKS_OK) return status;
    const char *folder = lks_recipe_text(recipe, "checkpoint.path");
    if (folder != NULL && !lks_recipe_bool(recipe, "train.dry_run")) {
        if (plan->logs == NULL) plan->logs = pool_format(cli->pool, "%s/ranks", folder);
        resume_later(plan, cli->pool, count, folder, lks_recipe_bool(recipe, "checkpoint.resume"));
    }
    if (cli->local[LOCAL_DRY_RUN] == NULL) status = check_replicas(plan, recipe);
    lks_recipe_close(recipe);
    return status;
}

/* Of this host, where no ranks will say it themselves; on others their watchers do. */
static void say_crowd(launch_plan *plan, bool own)
{
    const int cores = lks_cores(), workers = plan->workers > 0 ? plan->workers : 1;
    if (plan->hosts > 0 || strcmp(plan->starter->name, "srun") == 0) return;
    plan->crowded = (int64_t)plan->ranks * workers > cores;
    if (plan->crowded && own)
        say_error("%d rank%s with %d worker%s each share %d core%s, so they wait for each other; "
                  "give fewer",
                  plan->ranks, TEXT_S(plan->ranks), workers, TEXT_S(workers), cores, TEXT_S(cores));
}

static lks_status run_alone(const launch_plan *plan)
{
    fflush(stdout);
    execvp(plan->rank[0], plan->rank);
    return lks_fail(LKS_E_IO, "'%.300s' cannot be started", plan->rank[0]);
}

static lks_status start(launch_plan *plan, const cli_args *cli, int *code)
{
    const bool own = cli->local[LOCAL_PROGRAM] != NULL, dry = cli->local[LOCAL_DRY_RUN] != NULL;
    launch_place place;
    bool alone = false;
    meet_plan meet = {.launch = plan, .nodes = 1, .ranks = 1, .node = -1, .timeout = 600};
    plan->own = own;
    lks_status status = take_meeting(&meet, cli);
    if (status != LKS_OK) return status;
    plan->meets = meet.nodes > 1;
    if (plan->meets || cli->local[LOCAL_NPROC] != NULL) {
        if (cli->local[LOCAL_RANKS] != NULL || cli->local[LOCAL_HOSTS] != NULL)
            return lks_fail(LKS_E_INVALID, "--nnodes and --nproc-per-node say how many ranks there "
                                           "are; drop -n and --hosts");
        plan->ranks = meet.ranks;
    }
    if (!plan->meets) status = take_ranks(plan, cli);
    if (status != LKS_OK) return status;
    take_command(plan, cli, own);
    if (!own) status = check_command(plan, cli, &alone);
    if (status != LKS_OK) return status;
    if (launch_get_place(&place) && place.ranks > 1)
        return lks_fail(
            LKS_E_INVALID,
            "launch itself was started %d times, by mpirun or srun; start one, or leave "
            "launch out: mpirun -n %d lockstep train CONFIG",
            place.ranks, place.ranks);
    const char *by = cli->local[LOCAL_BY];
    if ((plan->ranks == 1 && plan->hosts == 0 && by == NULL && !plan->meets &&
         plan->restarts == 0) ||
        alone) {
        if (!dry) return run_alone(plan);
        say("%s", cli_words(cli->pool, plan->rank));
        return LKS_OK;
    }
    status = launch_choose(plan, by, own);
    if (status != LKS_OK) return status;
    say_crowd(plan, own || dry);
    setenv(CLI_LAUNCHED, own ? "" : cli_words(cli->pool, cli->argv), 1); /* for what ranks say */
    if (plan->meets && !dry) return meet_run(&meet, code);
    if (!dry) return launch_run(plan, code);
    say("%s", cli_words(cli->pool, launch_command(plan)));
    return LKS_OK;
}

lks_status verb_launch(const cli_args *cli, int *code)
{
    launch_plan plan = {.pool = cli->pool, .agent = cli->local[LOCAL_AGENT], .orders = -1};
    plan.self = cli_program(cli);
    plan.logs = cli->local[LOCAL_LOG_DIR];
    lks_status status = take_count(&plan.workers, cli, LOCAL_WORKERS, "--workers");
    if (status == LKS_OK) status = take_bind(&plan, cli);
    if (status == LKS_OK) status = take_restarts(&plan, cli);
    if (status != LKS_OK) return status;
    snprintf(plan.token, sizeof plan.token, "%016d", 0); /* of a dry run */
    if (cli->local[LOCAL_WATCH] == NULL) return start(&plan, cli, code);
    plan.rank = cli->operand; /* argv ends with NULL */
    snprintf(plan.token, sizeof plan.token, "%s", cli->local[LOCAL_WATCH]);
    status = launch_name_starter(&plan, cli->local[LOCAL_BY]);
    return status == LKS_OK ? launch_watch(&plan, code) : status;
}
