#include "recipe/run/counts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "recipe/data/columns.h"
#include "recipe/recipe.h"

typedef struct span {
    const char *text;
    size_t bytes;
} span;

static int compare_spans(const void *a, const void *b)
{
    const span *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order != 0 ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* About the mean, in the order of the file. */
static void count_numbers(lki_column_count *out, const lki_table *table, int column)
{
    double sum = 0, squares = 0;
    out->least = out->most = NAN;
    for (int64_t r = 0; r < table->rows; r++) {
        const double value = lki_table_cell(table, r, column).number;
        out->missing += isnan(value);
        if (isnan(value)) continue;
        sum += value;
        out->least = fmin(out->least, value);
        out->most = fmax(out->most, value);
    }
    const double count = (double)(table->rows - out->missing);
    out->mean = sum / count;
    for (int64_t r = 0; r < table->rows; r++) {
        const double value = lki_table_cell(table, r, column).number;
        if (!isnan(value)) squares += (value - out->mean) * (value - out->mean);
    }
    out->deviation = sqrt(squares / count);
}

static lks_status count_texts(lki_column_count *out, const lki_table *table, int column)
{
    void *memory;
    const size_t bytes = lki_times((size_t)table->rows, sizeof(span));
    LKI_TRY(lki_alloc(table->context, &memory, bytes, "the texts of a column"));
    span *all = memory;
    int64_t count = 0;
    for (int64_t r = 0; r < table->rows; r++) {
        const lki_cell cell = lki_table_cell(table, r, column);
        out->missing += cell.text == 0;
        if (cell.text == 0) continue;
        all[count].text = lki_table_text(table, cell, &all[count].bytes);
        count++;
    }
    qsort(all, (size_t)count, sizeof *all, compare_spans);
    for (int64_t i = 0; i < count; i++)
        out->texts += i == 0 || compare_spans(&all[i - 1], &all[i]) != 0;
    lki_free(table->context, memory, bytes);
    return LKS_OK;
}

static lks_status count_columns(lki_table_counts *out, lki_config *config, const lki_table *table)
{
    lki_column_count *list = lki_heap_alloc(&config->heap,
                                            ((size_t)table->columns + 1) * sizeof *list);
    if (list == NULL) return lki_heap_status(&config->heap, LKS_OK);
    out->rows = table->rows;
    out->column = list;
    for (int c = 0; c < table->columns; c++) {
        const lki_column *column = &table->column[c];
        if (column->kind == LKI_COLUMN_SKIPPED) continue;
        lki_column_count *one = &list[out->columns++];
        one->text = column->kind == LKI_COLUMN_TEXTS;
        one->name = lki_heap_format(&config->heap, "%s", column->name);
        if (one->name == NULL) return lki_heap_status(&config->heap, LKS_OK);
        if (!one->text)
            count_numbers(one, table, c);
        else
            LKI_TRY(count_texts(one, table, c));
    }
    return LKS_OK;
}

lks_status lki_table_count(lki_table_counts *out, lks_recipe *recipe, lks_context *context,
                           bool test)
{
    lki_csv_opts opts;
    lki_table table = {0};
    *out = (lki_table_counts){0};
    lki_config *config = recipe->config;
    const bool other = test && lki_config_has(config, LKI_KEY_DATA_TEST_TABLE);
    const lki_key key = lki_config_has(config, LKI_KEY_DATA_SERIES) ? LKI_KEY_DATA_SERIES
                        : other                                     ? LKI_KEY_DATA_TEST_TABLE
                                                                    : LKI_KEY_DATA_TABLE;
    out->path = lki_config_text(config, key);
    LKI_TRY(lki_table_csv_opts(&opts, config));
    lks_status status = lki_table_open(&table, context, out->path, &opts);
    if (status == LKS_OK) status = count_columns(out, config, &table);
    lki_table_close(&table);
    return status;
}
