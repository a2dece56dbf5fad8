#include "cli/report/horizons.h"

#include "cli/out/say.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/report/runs.h"

/* Without memory there are none. */
static horizons with_room(size_t times, cli_pool *pool)
{
    lki_ahead *each = times > 0 ? pool_alloc(pool, times * sizeof *each) : NULL;
    return (horizons){.times = each != NULL ? (int64_t)times : 0, .each = each};
}

horizons horizons_of(const lks_recipe *recipe, const lks_dataset *data, const fits *targets,
                     cli_pool *pool)
{
    const lks_unit *unit = lks_dataset_units(data);
    const bool some = targets->fit != NULL && lks_recipe_has(recipe, "data.series");
    const horizons h = with_room(some ? (size_t)lks_recipe_int(recipe, "data.horizon") : 0, pool);
    for (int64_t i = 0; i < h.times; i++) {
        const int64_t count = targets->count / h.times;
        h.each[i] = lki_ahead_of(targets->fit + i * count, unit + i * count, count);
    }
    return h;
}

horizons horizons_read(const json_t *list, cli_pool *pool)
{
    const horizons h = with_room(json_array_size(list), pool);
    for (int64_t i = 0; i < h.times; i++) {
        const json_t *one = json_array_get(list, (size_t)i);
        h.each[i] = (lki_ahead){runs_number_of(one, "mse"), runs_number_of(one, "mae")};
    }
    return h;
}

/* Each time has as many targets. */
static lki_ahead mean_of(const horizons *h)
{
    lki_ahead mean = {0, 0};
    for (int64_t i = 0; i < h->times; i++) {
        mean.mse += h->each[i].mse / (double)h->times;
        mean.mae += h->each[i].mae / (double)h->times;
    }
    return mean;
}

void horizons_print(const horizons *h, cli_pool *pool, FILE *page)
{
    enum { COLUMNS = 3 };
    const char *title[COLUMNS] = {"time ahead", "MSE", "MAE"};
    const bool right[COLUMNS] = {false, true, true};
    const char **cell = pool_alloc(pool, (size_t)(h->times + 1) * COLUMNS * sizeof *cell);
    if (cell == NULL) return;
    for (int64_t i = 0; i <= h->times; i++) {
        const bool all = i == h->times;
        const lki_ahead found = all ? mean_of(h) : h->each[i];
        cell[i * COLUMNS] = all ? "all" : pool_format(pool, "%lld", (long long)i + 1);
        cell[i * COLUMNS + 1] = pool_format(pool, "%.6f", found.mse);
        cell[i * COLUMNS + 2] = pool_format(pool, "%.6f", found.mae);
    }
    table_print_on(page, &(cli_table){(int)h->times + 1, COLUMNS, title, cell, right});
}

json_t *horizons_json(const horizons *h)
{
    json_t *all = json_array();
    for (int64_t i = 0; i < h->times; i++)
        json_array_append_new(all, json_pack("{s:I, s:o, s:o}", "ahead", (json_int_t)i + 1, "mse",
                                             text_json_real(h->each[i].mse), "mae",
                                             text_json_real(h->each[i].mae)));
    return all;
}
