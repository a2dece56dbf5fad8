/* What verbs do that several processes may do together. */
#include "cli/cli.h"

#include "recipe/text/setting.h"

static lks_status read_options(lks_comm_opts *out, const cli_args *cli)
{
    const char *timeout = cli->local[LOCAL_COMM_TIMEOUT];
    out->verify = cli->local[LOCAL_VERIFY_COMM] != NULL;
    if (timeout == NULL || (lki_text_is_float(timeout, &out->timeout_s) && out->timeout_s > 0 &&
                            out->timeout_s <= 1e6))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "--comm-timeout is '%.60s', expected seconds, more than 0 and at most 1e6",
                    timeout);
}

lks_status cli_with_ranks(const cli_args *cli, int *code,
                          lks_status (*body)(const cli_args *cli, lks_recipe *recipe, int *code))
{
    lks_comm *comm;
    lks_comm_opts opts = {.transport = NULL};
    lks_status status = read_options(&opts, cli);
    if (status == LKS_OK) status = lks_comm_create(&comm, &opts);
    if (status == LKS_E_MISMATCH && lks_launch_get().rank > 0)
        say_nothing(); /* all have found it */
    if (status != LKS_OK) return status;
    const int rank = lks_comm_rank(comm);
    if (rank > 0) say_nothing();
    status = cli_with_recipe(cli, code, comm, body);
    const bool lost = status == LKS_E_COMM || status == LKS_E_TIMEOUT;
    if (rank > 0 && lost) say_aloud(rank, lks_last_error()->message);
    lks_comm_destroy(comm);
    return status;
}
