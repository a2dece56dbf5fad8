/* lockstep sweep */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/sweep/sweep.h"

#include "cli/out/output.h"
#include "cli/out/text.h"
#include "cli/report/runs.h"

/* What runs are judged by, the first of these that one has: what was held back comes before the test, which is not to
 * choose by, and of a text its perplexity, which the share of tokens that are guessed says little of. */
static const struct {
    run_column column;
    bool highest;
    const char *what;
} judges[] = {
    {RUN_VALID_PERPLEXITY, false, "perplexity of held back samples"},
    {RUN_VALID_BEST, true, "best accuracy on held back samples, %"},
    {RUN_VALID_LAST, false, "loss on held back samples"},
    {RUN_PERPLEXITY, false, "test perplexity"},
    {RUN_BEST, true, "best test accuracy, %"},
    {RUN_LOSS, false, "test loss"},
};

static void say_best(const sweep_plan *plan, const cli_runs *runs)
{
    for (size_t j = 0; j < sizeof judges / sizeof *judges; j++) {
        int best = -1;
        for (int r = 0; r < runs->count; r++) {
            const double number = runs->cell[r][judges[j].column].number;
            const double least = best < 0 ? 0 : runs->cell[best][judges[j].column].number;
            if (isnan(number)) continue;
            if (best < 0 || (judges[j].highest ? number > least : number < least)) best = r;
        }
        if (best < 0) continue;
        say("\nBest: %s (%s: %s), in %s/%s", runs->name[best], judges[j].what,
            runs->cell[best][judges[j].column].text, plan->folder, runs->name[best]);
        return;
    }
}

/* The report of those that have a record: what did not begin has none, nor what failed in its first epoch. */
static lks_status report(const sweep_plan *plan)
{
    cli_pool *pool = plan->cli->pool;
    cli_runs *runs = pool_alloc(pool, sizeof *runs);
    char *path[RUNS_MOST];
    const char *name[RUNS_MOST];
    int count = 0;
    for (int r = 0; r < plan->count; r++) {
        if (plan->run[r].state == SWEEP_FAILED || access(plan->run[r].record, F_OK) != 0) continue;
        name[count] = plan->run[r].name;
        path[count++] = plan->run[r].record;
    }
    if (count == 0) return LKS_OK;
    lks_status status = runs_read(runs, count, path, name);
    if (status == LKS_OK) status = runs_write_files(plan->cli, runs);
    if (status == LKS_OK) {
        say("%s", "");
        runs_print(runs, pool);
        say_best(plan, runs);
    }
    runs_clear(runs);
    return status;
}

/* The exit code: that of the first. */
static int say_failures(const sweep_plan *plan, int failed)
{
    const sweep_run *run = plan->run;
    struct stat log;
    while (run->state != SWEEP_FAILED && run->state != SWEEP_STOPPED) run++;
    const bool told = stat(run->log, &log) == 0 && log.st_size > 0;
    say_error("%d of %d trainings failed%s; the same command tries them again", failed, plan->count,
              told ? pool_format(plan->cli->pool, " (%s has what the first said)", run->log) : "");
    return run->code;
}

static lks_status sweep(sweep_plan *plan, int *code)
{
    const cli_args *cli = plan->cli;
    int signal = 0;
    const int finished = sweep_count(plan, SWEEP_FINISHED);
    lks_status status = lks_folder_make(plan->folder);
    if (status != LKS_OK) return status;
    if (finished > 0)
        say_error("%d of %d trainings in %s have finished already", finished, plan->count,
                  plan->folder);
    if (finished < plan->count)
        say("%d training%s in %s, %d at once", plan->count - finished,
            TEXT_S(plan->count - finished), plan->folder, plan->jobs);
    status = sweep_run_all(plan, &signal);
    if (status != LKS_OK) return status;
    const int failed = sweep_count(plan, SWEEP_FAILED) + sweep_count(plan, SWEEP_STOPPED);
    if (signal != 0) {
        *code = 128 + signal;
        say_command(cli_words(cli->pool, cli->argv),
                    "stopped, %d of %d trainings have finished; to continue",
                    sweep_count(plan, SWEEP_FINISHED), plan->count);
        return LKS_OK;
    }
    status = report(plan);
    if (status == LKS_OK && failed > 0) *code = say_failures(plan, failed);
    return status;
}

lks_status verb_sweep(const cli_args *cli, int *code)
{
    sweep_plan plan = {.count = 0};
    lks_status status = output_alone();
    if (status == LKS_OK) status = runs_check_files(cli);
    if (status == LKS_OK) status = sweep_plan_make(&plan, cli);
    if (status == LKS_OK) status = sweep(&plan, code);
    sweep_clear(&plan);
    return status;
}
