/* Command lines of the starters. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch/launch.h"

extern char **environ;

typedef struct words {
    cli_pool *pool;
    char **word;
    int count, room;
} words;

static void add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(words *w, const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *word = pool_alloc(w->pool, (size_t)length + 1);
    va_start(args, format);
    vsnprintf(word, (size_t)length + 1, format, args);
    va_end(args);
    if (w->count + 1 >= w->room) {
        const int room = w->room > 0 ? 2 * w->room : 64;
        char **more = pool_alloc(w->pool, (size_t)room * sizeof *more);
        if (w->count > 0) memcpy(more, w->word, (size_t)w->count * sizeof *more);
        w->word = more;
        w->room = room;
    }
    w->word[w->count++] = word;
}

/* "a:2,b:2", or for srun, which has a word for each rank, "a,a,b,b". */
static char *host_list(const launch_plan *plan, bool each)
{
    char *list = pool_format(plan->pool, "%s", "");
    for (int i = 0; i < plan->hosts; i++)
        for (int j = 0; j < (each ? plan->host[i].slots : 1); j++) {
            const char *gap = *list != '\0' ? "," : "";
            const launch_host *host = &plan->host[i];
            list = each ? pool_format(plan->pool, "%s%s%s", list, gap, host->name)
                        : pool_format(plan->pool, "%s%s%s:%d", list, gap, host->name, host->slots);
        }
    return list;
}

/* Open MPI's daemons on other hosts have the environment of a login; what is ours goes along. */
static void add_variables(words *w)
{
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, "LKS_", 4) == 0) {
            add(w, "-x");
            add(w, "%.*s", (int)strcspn(*at, "="), *at);
        }
}

static void add_openmpi(words *w, const launch_plan *plan)
{
    add(w, "--quiet"); /* it is we who say which rank failed */
    if (geteuid() == 0) add(w, "--allow-run-as-root");
    add(w, "-n");
    add(w, "%d", plan->ranks);
    if (plan->hosts > 0) {
        add(w, "--host");
        add(w, "%s", host_list(plan, false));
        add_variables(w);
    }
    if (plan->agent != NULL) {
        /* It starts each daemon itself, and they stay its children. */
        static const char *const settings[][2] = {
            {"plm", "rsh"}, {"plm_rsh_no_tree_spawn", "1"}, {"orte_leave_session_attached", "1"}};
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
            add(w, "--mca");
            add(w, "%s", settings[i][0]);
            add(w, "%s", settings[i][1]);
        }
        add(w, "--mca");
        add(w, "plm_rsh_agent");
        add(w, "%s", plan->agent);
    }
    add(w, "--mca"); /* watchers need no time to end */
    add(w, "odls_base_sigkill_timeout");
    add(w, "0");
    add(w, "--map-by");
    add(w, "slot:OVERSUBSCRIBE");
    add(w, "--bind-to"); /* the watchers bind */
    add(w, "none");
    if (!plan->crowded) return;
    add(w, "--mca");
    add(w, "mpi_yield_when_idle");
    add(w, "1");
}

static void add_mpich(words *w, const launch_plan *plan)
{
    add(w, "-n");
    add(w, "%d", plan->ranks);
    if (plan->hosts > 0) {
        add(w, "-hosts");
        add(w, "%s", host_list(plan, false));
    }
    if (plan->agent != NULL) {
        add(w, "-launcher");
        add(w, "rsh");
        add(w, "-launcher-exec");
        add(w, "%s", plan->agent);
    }
    add(w, "-bind-to");
    add(w, "none");
}

static void add_srun(words *w, const launch_plan *plan)
{
    const char *cpus = getenv("SLURM_CPUS_PER_TASK");
    add(w, "--ntasks=%d", plan->ranks);
    /* srun does not take this over from sbatch by itself. */
    if (cpus != NULL) add(w, "--cpus-per-task=%s", cpus);
    if (getenv("SLURM_MPI_TYPE") == NULL)
        add(w, "--mpi=%s",
            launch_has_module(plan->pool, "openmpi") ? "pmix"
            : launch_has_module(plan->pool, "mpich") ? "pmi2"
                                                     : "pmix");
    if (plan->hosts > 0) {
        add(w, "--nodelist=%s", host_list(plan, true));
        add(w, "--distribution=arbitrary");
    }
    add(w, "--kill-on-bad-exit=1");
}

char **launch_command(const launch_plan *plan)
{
    words w = {.pool = plan->pool};
    add(&w, "%s", plan->program);
    if (strcmp(plan->starter->name, "openmpi") == 0)
        add_openmpi(&w, plan);
    else if (strcmp(plan->starter->name, "mpich") == 0)
        add_mpich(&w, plan);
    else
        add_srun(&w, plan);
    add(&w, "%s", plan->self);
    add(&w, "launch");
    add(&w, "--watch");
    add(&w, "%s", plan->token);
    add(&w, "--by");
    add(&w, "%s", plan->starter->name);
    if (plan->workers > 0) {
        add(&w, "--workers");
        add(&w, "%d", plan->workers);
    }
    add(&w, "--bind");
    add(&w, "%s", plan->bind ? "cores" : "none");
    if (plan->logs != NULL) {
        add(&w, "--log-dir");
        add(&w, "%s", plan->logs);
    }
    add(&w, "--");
    for (char **word = plan->rank; *word != NULL; word++) add(&w, "%s", *word);
    w.word[w.count] = NULL;
    return w.word;
}
