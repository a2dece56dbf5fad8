#include "cli/running/across.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch/launch.h"
#include "cli/out/text.h"
#include "cli/running/ask.h"
#include "cli/running/row.h"

/* By one of the names that it has for itself; by another it is asked as others are. */
static bool is_here(const char *name)
{
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) != 0) own[0] = '\0';
    if (strcmp(name, "localhost") == 0 || strcmp(name, own) == 0) return true;
    own[strcspn(own, ".")] = '\0';
    return strcmp(name, own) == 0;
}

/* Its first characters, for people. */
static const char *clean_start(cli_pool *pool, const char *text)
{
    return text_clean(pool, pool_format(pool, "%.60s", text));
}

lks_status across_list(running_ranks *list, int *lost, const cli_args *cli, bool here)
{
    char *const words[] = {"ps", "--format", "json", NULL};
    launch_host *named = NULL;
    int names = 0, ranks, count = 0;
    double seconds = 10;
    lks_status status = cli_comm_timeout(&seconds, cli);
    *lost = 0;
    if (status == LKS_OK && cli->local[LOCAL_HOSTS] != NULL)
        status = launch_hosts(&named, &names, &ranks, cli->pool, cli->local[LOCAL_HOSTS]);
    if (status != LKS_OK) return status;
    ask_host *host = pool_alloc(cli->pool, (size_t)names * sizeof *host);
    here |= names == 0;
    for (int i = 0; i < names; i++)
        if (is_here(named[i].name))
            here = true;
        else
            host[count++].name = named[i].name;
    if (here) status = running_list(list, cli->pool);
    if (status == LKS_OK) ask_hosts(cli, host, count, words, seconds);
    for (int i = 0; i < count && status == LKS_OK; i++) {
        if (host[i].failed == NULL &&
            !row_read(list, host[i].answer, host[i].bytes, host[i].name, cli->pool))
            host[i].failed = pool_format(cli->pool,
                                         "it does not answer as this version of %s does: '%.60s'",
                                         cli_program(cli), clean_start(cli->pool, host[i].answer));
        if (host[i].failed == NULL) continue;
        say_error("host %s cannot be asked: %s", host[i].name, host[i].failed);
        ++*lost;
    }
    running_sort(list);
    return status;
}

lks_status across_stop(const running_rank *rank, double seconds, const cli_args *cli)
{
    char *const words[] = {"stop", pool_format(cli->pool, "%" PRId64, rank->note.run), "--yes",
                           NULL};
    ask_host host = {.name = rank->from};
    ask_hosts(cli, &host, 1, words, seconds);
    if (host.failed == NULL) return LKS_OK;
    return lks_fail(LKS_E_COMM, "run %" PRId64 " is not known to have ended: host %s: %.400s",
                    rank->note.run, rank->from, host.failed);
}
