/* What verbs do that several processes may do together. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/crowd.h"
#include "cli/exit_code.h"
#include "cli/launch/launch.h"
#include "cli/launch/report.h"
#include "cli/running/joining.h"
#include "recipe/text/setting.h"

enum { PATIENCE_S = 600 }; /* without --comm-timeout */

/* `lockstep launch` says what any rank tells it so; false: it is not there. */
static bool tell_launcher(const lks_comm *comm, const char *sentence)
{
    char line[REPORT_LINE];
    const char *token = getenv("LKS_LAUNCH");
    launch_report report = {.news = LAUNCH_MISSES,
                            .rank = lks_comm_rank(comm),
                            .other = lks_comm_lost(comm),
                            .process = (long)getpid()};
    if (token == NULL || strlen(token) != REPORT_TOKEN) return false;
    snprintf(report.host, sizeof report.host, "%s", lks_comm_host(comm, report.rank));
    snprintf(report.text, sizeof report.text, "%s", sentence);
    const size_t length = launch_report_print(line, token, &report);
    return write(STDERR_FILENO, line, length) == (ssize_t)length;
}

/* A process of the training is lost. The first one that is left says so at once, as a launcher may end all
 * as soon as one has ended; and a process that does not come out of what it does, ends. */
static void on_lost(void *user, const lks_comm *comm, const char *sentence, bool late)
{
    const int first = lks_comm_lost(comm) == 0 ? 1 : 0;
    if (late) _exit(exit_code_of(LKS_E_COMM));
    if (lks_comm_rank(comm) != first) return;
    if (!tell_launcher(comm, sentence)) say_urgent(sentence);
    atomic_store((atomic_bool *)user, true);
}

static lks_status watch_seconds(double *out)
{
    const char *text = getenv("LKS_WATCH");
    *out = 0;
    if (text == NULL || *text == '\0') return LKS_OK;
    if (!lki_text_is_float(text, out) || !(*out >= 0 && *out <= 3600))
        return lks_fail(LKS_E_INVALID,
                        "LKS_WATCH is '%.60s', expected seconds, or 0 for not to watch", text);
    if (*out == 0) *out = -1;
    return LKS_OK;
}

lks_status cli_comm_timeout(double *out, const cli_args *cli)
{
    const char *timeout = cli->local[LOCAL_COMM_TIMEOUT];
    if (timeout == NULL || (lki_text_is_float(timeout, out) && *out > 0 && *out <= 1e6))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "--comm-timeout is '%.60s', expected seconds, more than 0 and at most 1e6",
                    timeout);
}

/* Verbs that processes which were started together do together; launch and its watchers know what they do. */
enum { TOGETHER = VERB_TRAIN | VERB_EVAL | VERB_BENCH | VERB_FIND | VERB_DOCTOR | VERB_LAUNCH };

bool cli_is_shared(const cli_args *cli)
{
    static const char *const actions[] = {"shard", "columns", "stats"};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (cli->verb_bit == VERB_DATA && cli->operands > 0 &&
            strcmp(cli->operand[0], actions[i]) == 0)
            return true;
    return (cli->verb_bit & TOGETHER) != 0;
}

bool cli_leaves(const cli_args *cli)
{
    const lks_launch launch = lks_launch_get();
    const bool asks = cli->local[LOCAL_HELP] != NULL || cli->local[LOCAL_HELP_CONFIG] != NULL ||
                      cli->local[LOCAL_HELP_LAYERS] != NULL || cli->local[LOCAL_HELP_AS] != NULL ||
                      cli->local[LOCAL_VERSION] != NULL;
    const bool together = !asks && cli_is_shared(cli);
    if (together || launch.size <= 1 || launch.rank < 0) return false;
    if (launch.rank == 0 && !asks)
        say_error("%s is done by one process, so of the %lld that %s started the others end at "
                  "once; unset %s where each is to have a run of its own",
                  cli->verb->name, (long long)launch.size, launch.launcher, launch.variable);
    return launch.rank > 0;
}

lks_status cli_refuse(lks_status status)
{
    const lks_launch launch = lks_launch_get();
    const lks_error said = *lks_last_error();
    lks_comm *comm = NULL;
    if (launch.size <= 1 || launch.rank < 0) return status;
    joining_begin(10);
    const bool met = lks_comm_create(&comm, &(lks_comm_opts){.timeout_s = 10}) == LKS_OK;
    joining_end();
    status = lks_fail(said.status, "%s", said.message);
    if (launch.rank > 0) say_nothing();
    if (met) status = lks_comm_agree(comm, status);
    lks_comm_destroy(comm);
    return status;
}

/* Of what keeps ranks from joining. Which modules for MPI there are is for each host to say. */
static bool is_said_by_another(lks_status status)
{
    launch_place place;
    if (status == LKS_E_MISMATCH) return lks_launch_get().rank > 0; /* all have found it */
    return status == LKS_E_COMM && !lks_mpi_loaded() && launch_get_place(&place) &&
           place.local_rank > 0;
}

lks_status cli_meet(cli_ranks *out, const cli_args *cli)
{
    lks_comm_opts opts = {
        .on_lost = on_lost, .user = &out->said, .verify = cli->local[LOCAL_VERIFY_COMM] != NULL};
    *out = (cli_ranks){.comm = NULL};
    lks_status status = cli_comm_timeout(&opts.timeout_s, cli);
    if (status == LKS_OK) status = watch_seconds(&opts.watch_s);
    if (status != LKS_OK) return cli_refuse(status);
    out->watches = opts.watch_s >= 0;
    joining_begin(opts.timeout_s > 0 ? opts.timeout_s : PATIENCE_S);
    status = lks_comm_create(&out->comm, &opts);
    joining_end();
    if (status == LKS_OK) {
        if (lks_comm_rank(out->comm) > 0) say_nothing();
    } else if (is_said_by_another(status)) {
        say_nothing();
    }
    return status;
}

lks_status cli_part(cli_ranks *ranks, lks_status status)
{
    const int rank = lks_comm_rank(ranks->comm);
    const bool lost = status == LKS_E_COMM || status == LKS_E_TIMEOUT;
    const bool watched = lks_comm_lost(ranks->comm) >= 0;
    /* Rank 0 has heard the same and says it, or its loss is the watch's to say; but who waits for it may wait in
     * vain. */
    const bool heard = status == LKS_E_COMM && ranks->watches;
    if (rank > 0 && lost && !watched && !heard) say_aloud(rank, lks_last_error()->message);
    lks_comm_destroy(ranks->comm);
    if (rank == 0 && lost && watched && atomic_load(&ranks->said))
        say_nothing(); /* once is enough */
    return status;
}

lks_status cli_with_ranks(const cli_args *cli, int *code,
                          lks_status (*body)(const cli_args *cli, lks_recipe *recipe, int *code))
{
    cli_ranks ranks;
    const lks_status status = cli_meet(&ranks, cli);
    if (status != LKS_OK) return status;
    return cli_part(&ranks, cli_with_recipe(cli, code, ranks.comm, body));
}

lks_status cli_say_crowd(const cli_args *cli, lks_comm *comm, int workers, bool quiet, int *cores)
{
    crowd_rank *ranks;
    crowd_finding found;
    *cores = lks_cores();
    if (lks_comm_size(comm) == 1) return LKS_OK;
    const lks_status status = crowd_gather(&ranks, cli->pool, comm, workers);
    if (status != LKS_OK || lks_comm_rank(comm) > 0) return status;
    const int size = lks_comm_size(comm), count = crowd_look(&found, 1, cli->pool, ranks, size);
    *cores = crowd_cores(ranks, size);
    if (count > 0 && !quiet) say_error("%s; %s", found.found, found.advice);
    return LKS_OK;
}
