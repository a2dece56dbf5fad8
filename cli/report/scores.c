#include "cli/report/scores.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out/sheet.h"
#include "cli/out/table.h"
#include "cli/out/text.h"

enum { SHOWN = 20 /* classes of a matrix that is printed */ };

/* Whether a comes before b: more confident, or the same and an earlier sample. */
static bool comes_before(const scores_wrong *a, const scores_wrong *b)
{
    return a->share > b->share || (a->share == b->share && a->index < b->index);
}

/* The list stays sorted; of those that do not fit the least confident goes. */
static void scores_keep(scores *s, const scores_wrong *wrong)
{
    int at = s->count;
    while (at > 0 && comes_before(wrong, &s->wrong[at - 1])) at--;
    if (at == s->most) return;
    if (s->count < s->most) s->count++;
    memmove(&s->wrong[at + 1], &s->wrong[at], (size_t)(s->count - 1 - at) * sizeof *s->wrong);
    s->wrong[at] = *wrong;
}

static void scores_add(void *user, const lks_prediction *p)
{
    scores *s = user;
    lks_class_counts_add(&s->of, p->label, p->best);
    if (p->label < 0 || p->label >= s->of.classes) return; /* no output stands for it */
    if (p->best == p->label || s->most == 0) return;
    const double share = p->softmax[p->best];
    scores_keep(s, &(scores_wrong){.share = isnan(share) ? 0 : share,
                                   .index = p->index,
                                   .label = p->label,
                                   .best = (int32_t)p->best});
}

/* The most confident of all, as if one had seen every sample. */
static lks_status scores_gather_wrong(scores *s, lks_comm *comm)
{
    const int ranks = lks_comm_size(comm);
    const size_t room = (size_t)s->most + 1; /* one has their number */
    scores_wrong *all = calloc((size_t)ranks * room, sizeof *all);
    lks_status status = lks_comm_agree(
        comm, all != NULL
                  ? LKS_OK
                  : lks_fail(LKS_E_NOMEM, "out of memory for mistakes of %d processes", ranks));
    s->wrong[s->most].index = s->count;
    if (status == LKS_OK) status = lks_comm_all_gather(comm, s->wrong, room * sizeof *all, all);
    for (int r = 0; r < ranks && status == LKS_OK; r++) {
        const scores_wrong *wrong = all + (size_t)r * room;
        if (r == 0) s->count = 0;
        for (int64_t i = 0; i < wrong[s->most].index; i++) scores_keep(s, &wrong[i]);
    }
    free(all);
    return status;
}

static lks_status scores_gather(scores *s, lks_comm *comm)
{
    lks_status status = lks_class_counts_sum(&s->of, comm);
    if (status == LKS_OK) status = lks_class_counts_sum_matrix(&s->of, comm);
    if (status == LKS_OK && lks_comm_size(comm) > 1) status = scores_gather_wrong(s, comm);
    for (int64_t c = 0; c < s->of.classes && status == LKS_OK; c++) {
        s->samples += s->of.there[c];
        s->correct += s->of.right[c];
    }
    return status;
}

static lks_status scores_make(scores *out, const lks_recipe_parts *parts, int most)
{
    const int64_t classes = lks_model_get_info(parts->model).classes;
    *out = (scores){.most = most};
    if (parts->data.classes == 0)
        return lks_fail(LKS_E_UNSUPPORTED,
                        "precision, recall and the like are of classes, but this data has none");
    out->wrong = calloc((size_t)most + 1, sizeof *out->wrong); /* one more, that falls out */
    if (out->wrong == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for %d mistakes", most);
    return lks_class_counts_make(&out->of, classes, true);
}

lks_status scores_count(scores *out, lks_metrics *sum, lks_recipe *recipe, lks_dataset *data,
                        int most)
{
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_status status = lks_comm_agree(parts.comm, scores_make(out, &parts, most));
    out->data = data;
    if (status == LKS_OK) status = lks_recipe_evaluate_each(recipe, data, sum, scores_add, out);
    if (status == LKS_OK) status = scores_gather(out, parts.comm);
    if (status == LKS_OK) out->top5 = sum->top5;
    return status;
}

void scores_free(scores *s)
{
    lks_class_counts_free(&s->of);
    free(s->wrong);
    *s = (scores){0};
}

/* ---------------------------------------------------------------- what is said */

static double quotient(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static lks_rates macro_rates(const scores *s)
{
    return lks_rates_of(s->of.classes, s->of.right, s->of.given, s->of.there);
}

/* Precision, recall and F1 in one: each sample has one class. */
static double micro_rate(const scores *s)
{
    return quotient(s->correct, s->samples);
}

static void print_rates(cli_pool *pool, const char **cell, lks_rates rates)
{
    const double value[] = {rates.precision, rates.recall, rates.f1};
    for (int i = 0; i < 3; i++)
        cell[i] = isnan(value[i]) ? "-" : pool_format(pool, "%.4f", value[i]);
}

static const char *known_name(const scores *s, int64_t class)
{
    return s->name != NULL ? s->name[class] : lks_dataset_class(s->data, class);
}

/* Its name, or else its number. */
static const char *class_name(const scores *s, cli_pool *pool, int64_t class)
{
    const char *name = known_name(s, class);
    return name != NULL ? text_clean(pool, name) : pool_format(pool, "%" PRId64, class);
}

/* "3 cat", or "3". */
static const char *class_title(const scores *s, cli_pool *pool, int64_t class)
{
    const bool named = known_name(s, class) != NULL;
    const char *name = class_name(s, pool, class);
    return named ? pool_format(pool, "%" PRId64 " %s", class, name) : name;
}

void scores_print_classes(const scores *s, cli_pool *pool, FILE *page)
{
    enum { COLUMNS = 5 };
    const char *title[COLUMNS] = {"class", "samples", "precision", "recall", "F1"};
    const bool right[COLUMNS] = {known_name(s, 0) == NULL, true, true, true, true};
    const int rows = (int)s->of.classes + 2;
    const char **cell = pool_alloc(pool, (size_t)(rows * COLUMNS) * sizeof *cell);
    if (cell == NULL) return;
    for (int64_t c = 0; c < s->of.classes; c++) {
        cell[c * COLUMNS] = class_title(s, pool, c);
        cell[c * COLUMNS + 1] = pool_format(pool, "%" PRId64, s->of.there[c]);
        print_rates(pool, &cell[c * COLUMNS + 2],
                    lks_rates_of(1, &s->of.right[c], &s->of.given[c], &s->of.there[c]));
    }
    const double micro = micro_rate(s);
    const lks_rates means[] = {macro_rates(s), {micro, micro, micro}};
    for (int i = 0; i < 2; i++) {
        const char **row = &cell[(s->of.classes + i) * COLUMNS];
        row[0] = i == 0 ? "macro" : "micro";
        row[1] = pool_format(pool, "%" PRId64, s->samples);
        print_rates(pool, row + 2, means[i]);
    }
    table_print_on(
        page, &(cli_table){
                  .rows = rows, .columns = COLUMNS, .title = title, .cell = cell, .right = right});
}

/* Rows are classes, columns what they were taken for. */
static void print_confusion(const scores *s, cli_pool *pool, FILE *page)
{
    const int columns = (int)s->of.classes + 1;
    const char **title = pool_alloc(pool, (size_t)columns * sizeof *title);
    const char **cell = pool_alloc(pool, (size_t)(s->of.classes * columns) * sizeof *cell);
    bool *right = pool_alloc(pool, (size_t)columns * sizeof *right);
    if (title == NULL || cell == NULL || right == NULL) return;
    title[0] = "class \\ given";
    for (int c = 0; c < columns; c++) right[c] = c > 0 || known_name(s, 0) == NULL;
    for (int64_t c = 0; c < s->of.classes; c++) {
        title[c + 1] = pool_format(pool, "%" PRId64, c);
        cell[c * columns] = class_title(s, pool, c);
        for (int64_t g = 0; g < s->of.classes; g++)
            cell[c * columns + g + 1] = pool_format(pool, "%" PRId64,
                                                    s->of.confusion[c * s->of.classes + g]);
    }
    table_print_on(page, &(cli_table){.rows = (int)s->of.classes,
                                      .columns = columns,
                                      .title = title,
                                      .cell = cell,
                                      .right = right});
}

/* The most frequent mistakes, of equal ones the first. */
static void print_mistakes(const scores *s, cli_pool *pool, FILE *page)
{
    enum { MOST = 10, COLUMNS = 3 };
    const char *title[COLUMNS] = {"class", "given", "samples"}, *cell[MOST * COLUMNS];
    const bool right[COLUMNS] = {false, false, true};
    int64_t place[MOST];
    int rows = 0;
    for (int64_t i = 0; i < s->of.classes * s->of.classes; i++) {
        int at = rows;
        if (i / s->of.classes == i % s->of.classes || s->of.confusion[i] == 0) continue;
        while (at > 0 && s->of.confusion[i] > s->of.confusion[place[at - 1]]) at--;
        if (at == MOST) continue;
        if (rows < MOST) rows++;
        memmove(&place[at + 1], &place[at], (size_t)(rows - 1 - at) * sizeof *place);
        place[at] = i;
    }
    for (int r = 0; r < rows; r++) {
        cell[r * COLUMNS] = class_title(s, pool, place[r] / s->of.classes);
        cell[r * COLUMNS + 1] = class_title(s, pool, place[r] % s->of.classes);
        cell[r * COLUMNS + 2] = pool_format(pool, "%" PRId64, s->of.confusion[place[r]]);
    }
    if (rows > 0 && page != NULL)
        fprintf(page, "<p>%" PRId64 " classes, the most frequent mistakes:</p>\n", s->of.classes);
    if (rows > 0) table_print_on(page, &(cli_table){rows, COLUMNS, title, cell, right});
}

void scores_print_confusion(const scores *s, cli_pool *pool, FILE *page)
{
    (s->of.classes > SHOWN ? print_mistakes : print_confusion)(s, pool, page);
}

void scores_print(const scores *s, cli_pool *pool)
{
    if (s->of.classes > 5) /* of five, all are among them */
        say("Top 5: %" PRId64 "/%" PRId64 " (%.2f%%)\n", s->top5, s->samples,
            100 * quotient(s->top5, s->samples));
    scores_print_classes(s, pool, NULL);
    if (s->of.classes > SHOWN) {
        say("\n%" PRId64 " classes, the most frequent mistakes (--format json has all):",
            s->of.classes);
    } else {
        say("%s", "");
    }
    scores_print_confusion(s, pool, NULL);
}

void scores_json(const scores *s, json_t *json, cli_pool *pool, const char *prefix)
{
    const lks_rates macro = macro_rates(s);
    const struct {
        const char *key;
        double value;
    } rates[] = {{"macro_precision", macro.precision},
                 {"macro_recall", macro.recall},
                 {"macro_f1", macro.f1},
                 {"micro_f1", micro_rate(s)}};
    json_object_set_new(json, pool_format(pool, "%s_top5", prefix), json_integer(s->top5));
    for (int i = 0; i < 4; i++)
        json_object_set_new(json, pool_format(pool, "%s_%s", prefix, rates[i].key),
                            text_json_real(rates[i].value));
    json_t *matrix = json_array();
    for (int64_t c = 0; c < s->of.classes; c++) {
        json_t *row = json_array();
        for (int64_t g = 0; g < s->of.classes; g++)
            json_array_append_new(row, json_integer(s->of.confusion[c * s->of.classes + g]));
        json_array_append_new(matrix, row);
    }
    json_object_set_new(json, pool_format(pool, "%s_confusion", prefix), matrix);
    if (known_name(s, 0) == NULL) return;
    json_t *names = json_array();
    for (int64_t c = 0; c < s->of.classes; c++)
        json_array_append_new(names, json_string(class_name(s, pool, c)));
    json_object_set_new(json, pool_format(pool, "%s_classes", prefix), names);
}

/* ---------------------------------------------------------------- the worst */

lks_status scores_draw(const scores *s, cli_pool *pool, lks_dataset *data, const char *title,
                       const char *path)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const int64_t elements = lks_shape_elements(&info.shape);
    if (info.shape.ndim != 3 || info.dtype != LKS_U8)
        return lks_fail(LKS_E_UNSUPPORTED,
                        "the samples are no images of bytes, so there is no sheet of the worst");
    if (s->count == 0)
        return lks_fail(LKS_E_INVALID,
                        "no sample was given a wrong class: there is nothing to draw");
    uint8_t *pixels = malloc((size_t)(s->count * elements));
    const char **text = pool_alloc(pool, (size_t)s->count * sizeof *text);
    int32_t *number = pool_alloc(pool, (size_t)s->count * sizeof *number);
    lks_status status = LKS_OK;
    if (pixels == NULL || text == NULL || number == NULL)
        status = lks_fail(LKS_E_NOMEM, "out of memory for a sheet of %d samples", s->count);
    for (int i = 0; i < s->count && status == LKS_OK; i++) {
        const scores_wrong *w = &s->wrong[i];
        int32_t label;
        number[i] = i;
        text[i] = pool_format(pool, "%s, not %s: %.3f", class_name(s, pool, w->best),
                              class_name(s, pool, w->label), w->share);
        status = lks_dataset_read(data, w->index, pixels + i * elements, &label);
    }
    const cli_sheet sheet = {.title = title,
                             .count = s->count,
                             .height = (int)info.shape.dim[0],
                             .width = (int)info.shape.dim[1],
                             .channels = (int)info.shape.dim[2],
                             .pixels = pixels,
                             .labels = number,
                             .classes = text};
    if (status == LKS_OK) status = sheet_write_png(&sheet, path);
    free(pixels);
    return status;
}
