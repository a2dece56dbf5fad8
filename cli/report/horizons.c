#include "cli/report/horizons.h"

#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/table.h"
#include "cli/out/text.h"

horizons horizons_of(const lks_recipe *recipe, const lks_dataset *data, const fits *targets)
{
    const bool some = targets->fit != NULL && lks_recipe_has(recipe, "data.series");
    return (horizons){.times = some ? lks_recipe_int(recipe, "data.horizon") : 0,
                      .fits = targets,
                      .unit = lks_dataset_units(data)};
}

/* Means over the targets of one time; time -1: over all. */
static void horizon_errors(const horizons *h, int64_t time, double *mse, double *mae)
{
    const int64_t each = time < 0 ? h->fits->count : h->fits->count / h->times;
    const int64_t first = time < 0 ? 0 : time * each;
    *mse = *mae = 0;
    for (int64_t i = first; i < first + each; i++) {
        const double rmse = h->fits->fit[i].rmse / h->unit[i].deviation;
        *mse += rmse * rmse / (double)each;
        *mae += h->fits->fit[i].mae / h->unit[i].deviation / (double)each;
    }
}

void horizons_print(const horizons *h, cli_pool *pool)
{
    enum { COLUMNS = 3 };
    const char *title[COLUMNS] = {"time ahead", "MSE", "MAE"};
    const bool right[COLUMNS] = {false, true, true};
    const char **cell = pool_alloc(pool, (size_t)(h->times + 1) * COLUMNS * sizeof *cell);
    if (cell == NULL) return;
    for (int64_t i = 0; i <= h->times; i++) {
        double mse, mae;
        const bool all = i == h->times;
        horizon_errors(h, all ? -1 : i, &mse, &mae);
        cell[i * COLUMNS] = all ? "all" : pool_format(pool, "%lld", (long long)i + 1);
        cell[i * COLUMNS + 1] = pool_format(pool, "%.6f", mse);
        cell[i * COLUMNS + 2] = pool_format(pool, "%.6f", mae);
    }
    table_print(&(cli_table){(int)h->times + 1, COLUMNS, title, cell, right}, say_columns());
}

json_t *horizons_json(const horizons *h)
{
    json_t *all = json_array();
    for (int64_t i = 0; i < h->times; i++) {
        double mse, mae;
        horizon_errors(h, i, &mse, &mae);
        json_array_append_new(all, json_pack("{s:I, s:o, s:o}", "ahead", (json_int_t)i + 1, "mse",
                                             text_json_real(mse), "mae", text_json_real(mae)));
    }
    return all;
}
