/* Lists of hosts, and where a process stands among the ranks. */
#include <stdlib.h>
#include <string.h>

#include "cli/launch/launch.h"
#include "recipe/text/setting.h"

bool launch_is_host(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return *name != '\0' && *name != '-' && name[strspn(name, good)] == '\0';
}

lks_status launch_hosts(launch_host **out, int *count, int *ranks, cli_pool *pool, const char *text)
{
    int most = 1;
    for (const char *c = text; *c != '\0'; c++) most += *c == ',';
    launch_host *hosts = pool_alloc(pool, (size_t)most * sizeof *hosts);
    char *copy = pool_copy(pool, text, strlen(text)), *rest = copy;
    int64_t slots, all = 0;
    *count = 0;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        char *colon = strrchr(word, ':');
        slots = 1;
        if (colon != NULL) *colon = '\0';
        if (!launch_is_host(word))
            return lks_fail(LKS_E_INVALID,
                            "--hosts is '%.200s', expected names with numbers of ranks: a:2,b:2",
                            text);
        if (colon != NULL &&
            (!lki_text_is_int(colon + 1, &slots) || slots < 1 || slots > LAUNCH_RANKS))
            return lks_fail(LKS_E_INVALID,
                            "--hosts has '%.60s:%.60s', expected a number of ranks from 1 to %d "
                            "behind the colon",
                            word, colon + 1, LAUNCH_RANKS);
        for (int i = 0; i < *count; i++)
            if (strcmp(hosts[i].name, word) == 0)
                return lks_fail(LKS_E_INVALID,
                                "--hosts names '%.60s' twice; write it once, with all its ranks",
                                word);
        hosts[(*count)++] = (launch_host){word, (int)slots};
        all += slots;
    }
    *out = hosts;
    *ranks = all > LAUNCH_RANKS ? LAUNCH_RANKS : (int)all;
    return LKS_OK;
}

/* A number that a starter gave us; -1: none. */
static int number_of(const char *name)
{
    int64_t number;
    const char *text = getenv(name);
    return text != NULL && lki_text_is_int(text, &number) && number >= 0 && number < LAUNCH_RANKS
               ? (int)number
               : -1;
}

/* How many ranks node `node` has, of "2(x3),1": 2, 2, 2 and 1; -1: not known. */
static int tasks_of(const char *text, int node)
{
    while (text != NULL && *text != '\0') {
        char *end;
        const long tasks = strtol(text, &end, 10);
        long times = 1;
        if (end == text) return -1;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')') return -1;
        }
        if (node < times) return tasks > 0 && tasks < LAUNCH_RANKS ? (int)tasks : -1;
        node -= (int)times;
        text = *end == ',' ? end + 1 : end;
    }
    return -1;
}

bool launch_get_place(launch_place *out)
{
    static const struct row {
        const char *rank, *ranks, *local_rank, *local_ranks;
    } rows[] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
         "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        *out = (launch_place){number_of(row->rank), number_of(row->ranks),
                              number_of(row->local_rank), number_of(row->local_ranks)};
        if (out->rank < 0 || out->ranks < 1 || out->rank >= out->ranks) continue;
        const int node = number_of("SLURM_NODEID");
        if (out->local_rank < 0) out->local_rank = number_of("SLURM_LOCALID");
        if (out->local_ranks < 0 && node >= 0)
            out->local_ranks = tasks_of(getenv("SLURM_STEP_TASKS_PER_NODE"), node);
        if (out->local_rank < 0 || out->local_ranks <= out->local_rank) {
            out->local_rank = 0; /* not known: it shares with nobody */
            out->local_ranks = 1;
        }
        return true;
    }
    return false;
}
