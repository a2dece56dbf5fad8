/* What the record of a run has of its test at the end: fits of targets, of a series by time ahead, and what classes were
 * taken for. */
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/report/fits.h"
#include "cli/report/horizons.h"
#include "cli/report/runs.h"
#include "cli/report/scores.h"

static void print_targets(const json_t *targets, cli_pool *pool, FILE *page)
{
    const char *name;
    json_t *each;
    fits f = {.fit = pool_alloc(pool, (json_object_size(targets) + 1) * sizeof *f.fit)};
    if (f.fit == NULL) return;
    json_object_foreach((json_t *)targets, name, each)
    {
        f.fit[f.count++] = (lks_fit){name, runs_number_of(each, "r2"), runs_number_of(each, "mae"),
                                     runs_number_of(each, "rmse")};
    }
    fits_print(&f, pool, page, false);
}

enum { MOST_CLASSES = 1000 };

/* Three integers of a list: a class, what it was given, how many samples; false: it is another list. */
static bool read_cell(const json_t *list, int64_t out[3])
{
    if (json_array_size(list) != 3) return false;
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
        out[i] = json_integer_value(value);
    }
    return out[0] < MOST_CLASSES && out[1] < MOST_CLASSES;
}

/* What follows from the matrix. */
static bool count_classes(scores *s, cli_pool *pool)
{
    const int64_t classes = s->of.classes;
    int64_t *counts = pool_alloc(pool, 3 * (size_t)classes * sizeof *counts);
    if (counts == NULL) return false;
    memset(counts, 0, 3 * (size_t)classes * sizeof *counts);
    s->of.right = counts;
    s->of.given = counts + classes;
    s->of.there = counts + 2 * classes;
    for (int64_t c = 0; c < classes; c++)
        for (int64_t g = 0; g < classes; g++) {
            const int64_t samples = s->of.confusion[c * classes + g];
            s->of.right[c] += c == g ? samples : 0;
            s->of.given[g] += samples;
            s->of.there[c] += samples;
            s->correct += c == g ? samples : 0;
            s->samples += samples;
        }
    return true;
}

static void print_classes(const json_t *record, const json_t *cells, cli_pool *pool, FILE *page)
{
    const json_t *names = json_object_get(record, "class_names");
    scores s = {.of.classes = (int64_t)json_array_size(names)};
    int64_t cell[3];
    for (size_t i = 0; i < json_array_size(cells); i++) {
        if (!read_cell(json_array_get(cells, i), cell)) return;
        for (int k = 0; k < 2; k++)
            if (cell[k] >= s.of.classes) s.of.classes = cell[k] + 1;
    }
    if (s.of.classes == 0 || s.of.classes > MOST_CLASSES) return;
    s.of.confusion = pool_alloc(pool,
                                (size_t)(s.of.classes * s.of.classes) * sizeof *s.of.confusion);
    const char **name = pool_alloc(pool, (size_t)s.of.classes * sizeof *name);
    if (s.of.confusion == NULL || name == NULL) return;
    memset(s.of.confusion, 0, (size_t)(s.of.classes * s.of.classes) * sizeof *s.of.confusion);
    for (size_t i = 0; i < json_array_size(cells); i++)
        if (read_cell(json_array_get(cells, i), cell))
            s.of.confusion[cell[0] * s.of.classes + cell[1]] = cell[2];
    for (int64_t c = 0; c < s.of.classes; c++)
        name[c] = json_string_value(json_array_get(names, (size_t)c));
    s.name = name;
    if (!count_classes(&s, pool)) return;
    scores_print_classes(&s, pool, page);
    if (page == NULL) say("%s", "");
    scores_print_confusion(&s, pool, page);
}

static void print_heading(const cli_runs *runs, int r, FILE *page)
{
    if (page == NULL) {
        say(runs->count > 1 ? "\nTest of %s:" : "\nTest:", runs->name[r]);
        return;
    }
    fputs("<h2>Test", page);
    if (runs->count > 1) {
        fputs(" of ", page);
        text_print_xml(page, runs->name[r]);
    }
    fputs("</h2>\n", page);
}

void runs_print_scores(const cli_runs *runs, cli_pool *pool, FILE *page)
{
    for (int r = 0; r < runs->count; r++) {
        const json_t *record = runs->run[r].record;
        const json_t *targets = json_object_get(record, "test_targets"),
                     *cells = json_object_get(record, "test_confusion");
        const horizons ahead = horizons_read(json_object_get(record, "test_horizons"), pool);
        if (json_object_size(targets) == 0 && json_array_size(cells) == 0 && ahead.times == 0)
            continue;
        print_heading(runs, r, page);
        if (ahead.times > 0)
            horizons_print(&ahead, pool, page);
        else if (json_object_size(targets) > 0)
            print_targets(targets, pool, page);
        else
            print_classes(record, cells, pool, page);
    }
}
