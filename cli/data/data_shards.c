/* Data in shards: lockstep data stats of them. */
#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/text.h"

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
    say("%s: mean and deviation of each column (numpy.load), in %.1f s; a training with these rows "
        "takes them from there",
        text_clean(cli->pool, stats.path), stats.seconds);
    return LKS_OK;
}
