#include "cli/verbs/processes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch/launch.h"

/* 0: no option says it. */
static lks_status count_processes(int64_t *out, const cli_args *cli)
{
    int64_t each = 0, nodes = 0;
    *out = 0;
    lks_status status = cli_count(out, cli, LOCAL_PROCESSES, "--num-processes", LAUNCH_RANKS);
    if (status == LKS_OK) status = cli_count(&each, cli, LOCAL_GPUS, "--gpus", LAUNCH_RANKS);
    if (status == LKS_OK)
        status = cli_count(&nodes, cli, LOCAL_NUM_NODES, "--num-nodes", LAUNCH_RANKS);
    if (status != LKS_OK || (each == 0 && nodes == 0)) return status;
    if (*out > 0)
        return lks_fail(LKS_E_INVALID, "--num-processes says how many processes there are; drop "
                                       "--gpus and --num-nodes");
    *out = (each > 0 ? each : 1) * (nodes > 0 ? nodes : 1);
    if (*out <= LAUNCH_RANKS) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--gpus times --num-nodes is %lld, expected at most %d",
                    (long long)*out, LAUNCH_RANKS);
}

static bool prints_alone(const cli_args *cli)
{
    const char *config = cli->local[LOCAL_CONFIG];
    return cli->local[LOCAL_PRINT_CONFIG] != NULL ||
           (config != NULL && strcmp(config, "list") == 0);
}

lks_status processes_start(const cli_args *cli)
{
    int64_t count;
    const lks_launch launch = lks_launch_get();
    const lks_status status = count_processes(&count, cli);
    if (status != LKS_OK || count == 0 || prints_alone(cli)) return status;
    if (launch.size > 1 && launch.size != count)
        return lks_fail(LKS_E_INVALID,
                        "the options say %lld process%s, but %s started %lld; say it in one place",
                        (long long)count, count == 1 ? "" : "es", launch.launcher,
                        (long long)launch.size);
    if (launch.size > 1 || count == 1) return LKS_OK;
    char **words = pool_alloc(cli->pool, ((size_t)cli->argc + 4) * sizeof *words);
    words[0] = cli->argv[0];
    words[1] = pool_format(cli->pool, "launch");
    words[2] = pool_format(cli->pool, "-n");
    words[3] = pool_format(cli->pool, "%lld", (long long)count);
    memcpy(words + 4, cli->argv + 1, (size_t)cli->argc * sizeof *words); /* with the NULL */
    fflush(stdout);
    execv(cli_program(cli), words);
    return lks_fail(LKS_E_IO, "'%.300s' cannot be started", cli_program(cli));
}
