#include "cli/report/fits.h"

#include <math.h>
#include <stdlib.h>

#include "cli/out/table.h"
#include "cli/out/text.h"

const char *fits_name(const fits *f, cli_pool *pool, int64_t i)
{
    const char *name = f->fit[i].name;
    return name != NULL ? text_clean(pool, name) : pool_format(pool, "%lld", (long long)i);
}

/* Of more targets than that only the worst are said. */
enum { MOST_TARGETS = 20, WORST_TARGETS = 10 };

static const fits *sorted; /* what qsort() compares by */

/* Places in the list, the least R2 first; those without one last; else in their order. */
static int compare_fits(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    const double one = sorted->fit[x].r2, other = sorted->fit[y].r2;
    if (isnan(one) != isnan(other)) return isnan(one) ? 1 : -1;
    if (one < other || one > other) return one < other ? -1 : 1;
    return (x > y) - (x < y);
}

/* The mean R2 of those that have one, and of the errors, each in its own units, the mean of all. */
static void print_mean(const fits *f, cli_pool *pool, FILE *page)
{
    double r2 = 0, mae = 0, rmse = 0;
    int64_t some = 0;
    for (int64_t i = 0; i < f->count; i++) {
        if (!isnan(f->fit[i].r2)) {
            r2 += f->fit[i].r2;
            some++;
        }
        mae += f->fit[i].mae;
        rmse += f->fit[i].rmse;
    }
    const double n = (double)f->count;
    const char *text = pool_format(
        pool, "%lld targets: mean R2 %.4f, MAE %.6g, RMSE %.6g; the %d with the least R2:",
        (long long)f->count, some > 0 ? r2 / (double)some : (double)NAN, mae / n, rmse / n,
        WORST_TARGETS);
    if (page != NULL)
        fprintf(page, "<p>%s</p>\n", text);
    else
        say("%s", text);
}

void fits_print(const fits *f, cli_pool *pool, FILE *page, bool all)
{
    enum { COLUMNS = 4 };
    const char *title[COLUMNS] = {"target", "R2", "MAE", "RMSE"};
    const bool right[COLUMNS] = {false, true, true, true};
    const bool worst = !all && f->count > MOST_TARGETS;
    const int64_t rows = worst ? WORST_TARGETS : f->count;
    const char **cell = pool_alloc(pool, (size_t)rows * COLUMNS * sizeof *cell);
    int64_t *place = pool_alloc(pool, (size_t)f->count * sizeof *place);
    if (cell == NULL || place == NULL) return;
    for (int64_t i = 0; i < f->count; i++) place[i] = i;
    if (worst) {
        sorted = f;
        qsort(place, (size_t)f->count, sizeof *place, compare_fits);
        print_mean(f, pool, page);
    }
    for (int64_t i = 0; i < rows; i++) {
        const lks_fit *fit = &f->fit[place[i]];
        cell[i * COLUMNS] = fits_name(f, pool, place[i]);
        cell[i * COLUMNS + 1] = pool_format(pool, "%.4f", fit->r2);
        cell[i * COLUMNS + 2] = pool_format(pool, "%.6g", fit->mae);
        cell[i * COLUMNS + 3] = pool_format(pool, "%.6g", fit->rmse);
    }
    table_print_on(page, &(cli_table){(int)rows, COLUMNS, title, cell, right});
}
