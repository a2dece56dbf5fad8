/* lockstep data check, of shards and of tables: opens them, reads every row, and says which are wrong. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"
#include "cli/out/text.h"

enum { MOST_WRONG = 20 };

/* Rows that cannot be read, each a line; behind MOST_WRONG of them it ends. */
static lks_status read_rows(const char *what, lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const size_t bytes = (size_t)lks_shape_elements(&info.shape) * sizeof(float);
    const int64_t targets = lks_shape_elements(&info.target_shape);
    float *x = malloc(bytes + (size_t)(targets + 1) * sizeof *x);
    lks_status first = LKS_OK;
    int wrong = 0;
    if (x == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for a row");
    for (int64_t i = 0; i < info.samples && wrong < MOST_WRONG; i++) {
        const lks_status status = lks_dataset_read(data, i, x, x + bytes / sizeof *x);
        if (status == LKS_OK) continue;
        if (wrong++ == 0) first = status;
        say("WRONG: %s", lks_last_error()->message);
    }
    free(x);
    if (wrong == 0) return LKS_OK;
    return lks_fail(first, "%s%d row%s of %.300s cannot be read, as said above",
                    wrong == MOST_WRONG ? "at least " : "", wrong, TEXT_S(wrong), what);
}

/* "20,480 rows of 4128 numbers and 552 targets". */
static void say_rows(const lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    char rows[TEXT_NUMBER_SIZE];
    lks_text_count(rows, info.samples);
    const int64_t width = lks_shape_elements(&info.shape);
    const int64_t targets = lks_shape_elements(&info.target_shape);
    const char *element = info.vocabulary > 0 ? "token" : "number";
    if (info.classes > 0)
        say("%s row%s of %" PRId64 " %s%s, and one of %" PRId64 " classes", rows,
            TEXT_S(info.samples), width, element, TEXT_S(width), info.classes);
    else
        say("%s row%s of %" PRId64 " %s%s and %" PRId64 " target%s", rows, TEXT_S(info.samples),
            width, element, TEXT_S(width), targets, TEXT_S(targets));
}

/* The training's rows, or those of another table to test with. */
static lks_status check_rows(data_source *source, const char *what, bool test)
{
    lks_status status = lks_recipe_dataset(&source->data, source->recipe, source->context, test);
    if (status == LKS_OK) status = read_rows(what, source->data);
    if (status == LKS_OK) say_rows(source->data);
    if (status == LKS_OK && data_has_sentences(source->data))
        status = data_sentences_check(source->data);
    lks_dataset_destroy(source->data);
    source->data = NULL;
    return status;
}

static lks_status check_all(data_source *source, const char *what)
{
    const char *other = lks_recipe_text(source->recipe, "data.test_table");
    lks_status status = check_rows(source, what, false);
    if (status == LKS_OK && other != NULL) status = check_rows(source, other, true);
    if (status == LKS_OK) say("%s: nothing is wrong", what);
    return status;
}

static bool is_yaml(const char *path)
{
    const char *end = strrchr(path, '.');
    return end != NULL && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
}

bool data_rows_check(lks_status *status, const cli_args *cli, const char *what)
{
    data_source source;
    const lks_status opened = data_configure(&source, cli, what);
    const bool refused = opened != LKS_OK && is_yaml(what); /* what is wrong is the configuration */
    const bool rows = opened == LKS_OK && (lks_recipe_has(source.recipe, "data.shards") ||
                                           lks_recipe_has(source.recipe, "data.table") ||
                                           lks_recipe_has(source.recipe, "data.series"));
    if (refused) *status = opened;
    if (rows) {
        /* As they are: with means and deviations the first row that is wrong would end all. */
        *status = data_reconfigure(&source, cli, what, "data.standardize=false");
        if (*status == LKS_OK) *status = check_all(&source, what);
    }
    data_close(&source);
    return rows || refused;
}
