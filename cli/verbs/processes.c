#include "cli/verbs/processes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch/launch.h"
#include "recipe/text/setting.h"

/* 0: it is not given. */
static lks_status take_processes(int64_t *out, const cli_args *cli, cli_local local,
                                 const char *name)
{
    const char *text = cli->local[local];
    *out = 0;
    if (text == NULL || (lki_text_is_int(text, out) && *out >= 1 && *out <= LAUNCH_RANKS))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID, "%s is '%.60s', expected a number from 1 to %d", name, text,
                    LAUNCH_RANKS);
}

/* 0: no option says it. */
static lks_status count_processes(int64_t *out, const cli_args *cli)
{
    int64_t each, nodes;
    lks_status status = take_processes(out, cli, LOCAL_PROCESSES, "--num-processes");
    if (status == LKS_OK) status = take_processes(&each, cli, LOCAL_GPUS, "--gpus");
    if (status == LKS_OK) status = take_processes(&nodes, cli, LOCAL_NUM_NODES, "--num-nodes");
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
    char self[PATH_MAX];
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
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char **words = pool_alloc(cli->pool, ((size_t)cli->argc + 4) * sizeof *words);
    words[0] = cli->argv[0];
    words[1] = pool_format(cli->pool, "launch");
    words[2] = pool_format(cli->pool, "-n");
    words[3] = pool_format(cli->pool, "%lld", (long long)count);
    memcpy(words + 4, cli->argv + 1, (size_t)cli->argc * sizeof *words); /* with the NULL */
    fflush(stdout);
    execv(length > 0 ? self : cli->argv[0], words);
    return lks_fail(LKS_E_IO, "'%.300s' cannot be started", self);
}
