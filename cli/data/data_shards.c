/* Data in shards: lockstep data stats of them, data shard and data columns, which make some. */
#include <stdio.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/text.h"
#include "cli/stop.h"

lks_status data_shards_stats(const data_source *source, const cli_args *cli)
{
    lks_shards_stats stats;
    char rows[TEXT_NUMBER_SIZE], all[TEXT_NUMBER_SIZE], x[TEXT_NUMBER_SIZE], y[TEXT_NUMBER_SIZE];
    int threads;
    lks_status status = data_threads(&threads, cli);
    if (status == LKS_OK)
        status = lks_recipe_measure_shards(&stats, source->recipe, source->context, threads);
    if (status != LKS_OK) return status;
    say("%s: %s of %s rows are for training; %s columns of samples, %s of targets",
        text_clean(cli->pool, lks_recipe_text(source->recipe, "data.shards")),
        lks_text_count(rows, stats.rows), lks_text_count(all, stats.all_rows),
        lks_text_count(x, stats.columns[0]), lks_text_count(y, stats.columns[1]));
    if (stats.constant > 0)
        say("%s of these columns have one value only: 1 stands for their deviation, which is 0",
            lks_text_count(x, stats.constant));
    say("%s: mean and deviation of each column (numpy.load), in %.3f s; a training with these rows "
        "takes them from there",
        text_clean(cli->pool, stats.path), stats.seconds);
    return LKS_OK;
}

/* ---------------------------------------------------------------- making some */

static bool draw_shards(void *user, int64_t done, int64_t all)
{
    char amount[80], some[TEXT_NUMBER_SIZE], number[TEXT_NUMBER_SIZE];
    (void)user;
    if (stop_asked() != 0) return false;
    if (say_width() == 0) return true;
    snprintf(amount, sizeof amount, "%s of %s shards", lks_text_count(some, done),
             lks_text_count(number, all));
    say_bar("writing", (double)done / (double)all, (const char *const[]){amount}, 1);
    return true;
}

/* --rows; 0 where it is not given. */
static lks_status read_rows(int64_t *out, const cli_args *cli)
{
    const char *rows = cli->local[LOCAL_ROWS];
    *out = 0;
    if (rows == NULL || (lki_text_is_int(rows, out) && *out >= 1 && *out <= INT32_MAX))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--rows is '%.60s', expected a number of rows, at least 1",
                    rows);
}

static void say_written(cli_pool *pool, const lks_shards_result *r, const char *folder)
{
    char rows[TEXT_NUMBER_SIZE], x[TEXT_NUMBER_SIZE], y[TEXT_NUMBER_SIZE], count[TEXT_NUMBER_SIZE];
    const char *out = text_clean(pool, folder);
    if (r->kept > 0)
        say_error("%s shard%s had been written by an earlier run", lks_text_count(count, r->kept),
                  TEXT_S(r->kept));
    say("%s: %s rows of %s inputs and %s targets in %s shards, %.1f MB", out,
        lks_text_count(rows, r->rows), lks_text_count(x, r->columns[0]),
        lks_text_count(y, r->columns[1]), lks_text_count(count, r->shards), (double)r->bytes / 1e6);
    say("Next: lockstep train CONFIG --data %s", out);
}

/* What is to be done, but for the ranks. */
static lks_status configure_shards(const cli_args *cli, bool columns, lks_shards_opts *opts,
                                   int64_t *all_rows)
{
    lks_recipe *recipe = NULL;
    int64_t rows = 0;
    *opts = (lks_shards_opts){.out = cli->local[LOCAL_OUT], .progress = draw_shards};
    lks_status status = read_rows(&rows, cli);
    if (status == LKS_OK) status = data_threads(&opts->threads, cli);
    if (status == LKS_OK && opts->out == NULL)
        status = lks_fail(LKS_E_INVALID, "data %s needs a folder to write to: give --out DIR",
                          cli->operand[0]);
    if (status == LKS_OK && columns && rows == 0)
        status = lks_fail(LKS_E_INVALID, "data columns needs to know how many: give --rows 20480");
    if (status == LKS_OK) status = cli_configure(&recipe, cli, NULL);
    if (status != LKS_OK) return status;
    opts->seed = (uint64_t)lks_recipe_int(recipe, "data.seed");
    *(columns ? all_rows : &opts->rows) = rows;
    lks_recipe_close(recipe);
    return LKS_OK;
}

/* `samples` NULL: columns are drawn. */
static lks_status write_shards(const cli_args *cli, const char *samples, const char *targets)
{
    lks_context *context = NULL;
    lks_shards_result result;
    lks_shards_opts opts;
    cli_ranks ranks;
    int64_t rows = 0;
    lks_status status = configure_shards(cli, samples == NULL, &opts, &rows);
    if (status != LKS_OK) return cli_refuse(status);
    status = cli_meet(&ranks, cli);
    if (status != LKS_OK) return status;
    opts.comm = ranks.comm;
    status = lks_comm_agree(ranks.comm, lks_context_create(&context, &say_logged));
    if (status == LKS_OK) {
        stop_watch();
        status = samples != NULL ? lks_shards_cut(&result, context, samples, targets, &opts)
                                 : lks_shards_draw(&result, context, rows, &opts);
        say_status(NULL);
    }
    if (status == LKS_OK) say_written(cli->pool, &result, opts.out);
    lks_context_destroy(context);
    return cli_part(&ranks, status);
}

lks_status data_shard(const cli_args *cli, const char *what)
{
    return write_shards(cli, what, cli->operand[2]);
}

lks_status data_columns(const cli_args *cli, const char *what)
{
    (void)what;
    return write_shards(cli, NULL, NULL);
}
