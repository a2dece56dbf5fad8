/* lockstep data stats of a table: what its file has in each column. */
#include <math.h>

#include "cli/data/data.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "recipe/run/counts.h"

enum { COLUMNS = 7 };

static const char *number_text(cli_pool *pool, double number)
{
    return isnan(number) ? "-" : pool_format(pool, "%.6g", number);
}

static void fill_row(const char **cell, cli_pool *pool, const lki_column_count *c)
{
    cell[0] = text_clean(pool, c->name);
    cell[1] = number_text(pool, c->text ? NAN : c->mean);
    cell[2] = number_text(pool, c->text ? NAN : c->deviation);
    cell[3] = number_text(pool, c->text ? NAN : c->least);
    cell[4] = number_text(pool, c->text ? NAN : c->most);
    cell[5] = pool_format(pool, "%lld", (long long)c->missing);
    cell[6] = c->text ? pool_format(pool, "%lld", (long long)c->texts) : "-";
}

lks_status data_table_stats(const data_source *source, const cli_args *cli)
{
    static const char *titles[COLUMNS] = {"column", "mean",    "std",  "least",
                                          "most",   "missing", "texts"};
    static const bool right[COLUMNS] = {false, true, true, true, true, true, true};
    lki_table_counts counts;
    char rows[TEXT_NUMBER_SIZE];
    const bool test = cli->local[LOCAL_TEST] != NULL;
    const lks_status status = lki_table_count(&counts, source->recipe, source->context, test);
    if (status != LKS_OK) return status;
    const char **cell = pool_alloc(cli->pool,
                                   ((size_t)counts.columns * COLUMNS + 1) * sizeof *cell);
    for (int i = 0; i < counts.columns; i++)
        fill_row(cell + i * COLUMNS, cli->pool, &counts.column[i]);
    say("%s: %s row%s", text_clean(cli->pool, counts.path), lks_text_count(rows, counts.rows),
        TEXT_S(counts.rows));
    table_print(&(cli_table){counts.columns, COLUMNS, titles, cell, right}, say_columns());
    say("%s", "");
    return LKS_OK;
}
