#include "data/table/encode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/float.h"
#include "base/text.h"
#include "data/table/choose.h"
#include "data/table/record.h"

enum { MOST_CLASSES = 65536 };

static bool is_missing(const lki_feature *feature, lki_cell cell)
{
    return feature->text ? cell.text == 0 : isnan(cell.number);
}

static lks_status fail_missing(const lki_table *table, int64_t row, const lki_feature *feature,
                               bool target)
{
    char place[LKI_TABLE_PLACE];
    return LKI_FAIL(LKS_E_FORMAT, "%s: column '%.60s' has no value, %s",
                    lki_table_place(table, row, place), feature->name,
                    target ? "but is a target; take the row out, or fill it in"
                    : feature->text && feature->words == 0
                        ? "expected a text in every row; data.missing: mean takes it as one "
                          "without words"
                        : "expected one in every row; data.missing: mean fills it with the mean "
                          "of the training's rows");
}

/* ---------------------------------------------------------------- words */

static int compare_words(const void *a, const void *b)
{
    const lki_word *x = a, *y = b;
    const size_t bytes = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int order = memcmp(x->text, y->text, bytes);
    if (order != 0) return order;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static lki_word word_of(const lki_table *table, const lki_feature *feature, lki_cell cell)
{
    lki_word word = {.text = ""};
    if (feature->text)
        word.text = lki_table_text(table, cell, &word.bytes);
    else
        word.number = cell.number;
    return word;
}

/* Its place among the words of the column; -1: none of them. */
static int64_t find_word(const lki_feature *feature, const lki_word *word)
{
    const lki_word *found = bsearch(word, feature->word, (size_t)feature->words, sizeof *word,
                                    compare_words);
    return found != NULL ? found - feature->word : -1;
}

static lks_status keep_words(lki_encoding *e, lki_feature *feature, const lki_word *word)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, (size_t)feature->words * sizeof *word, "texts"));
    feature->word = memory;
    for (int64_t i = 0; i < feature->words; i++) {
        LKI_TRY(lki_arena_alloc(&e->arena, &memory, word[i].bytes + 1, "a text"));
        memcpy(memory, word[i].text, word[i].bytes);
        feature->word[i] = (lki_word){memory, word[i].bytes, word[i].number};
    }
    return LKS_OK;
}

/* Keeps the different values of a column in the rows that are used (NULL: all), at most `most`. */
static lks_status collect_words(lki_encoding *e, lki_feature *feature, const lki_table *table,
                                const uint8_t *used, int64_t most)
{
    void *memory;
    const size_t bytes = lki_times((size_t)table->rows, sizeof(lki_word));
    int64_t count = 0;
    LKI_TRY(lki_alloc(e->context, &memory, bytes, "the texts of a column"));
    lki_word *all = memory;
    for (int64_t r = 0; r < table->rows; r++) {
        const lki_cell cell = lki_table_cell(table, r, feature->column);
        if ((used == NULL || used[r]) && !is_missing(feature, cell))
            all[count++] = word_of(table, feature, cell);
    }
    qsort(all, (size_t)count, sizeof *all, compare_words);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || compare_words(&all[feature->words - 1], &all[i]) != 0)
            all[feature->words++] = all[i];
    const lks_status status = feature->words > most
                                  ? LKI_FAIL(LKS_E_FORMAT,
                                             "'%s': column '%.60s' has %" PRId64
                                             " different %s, more than %" PRId64
                                             "; leave it out (data.ignore)",
                                             table->path, feature->name, feature->words,
                                             feature->text ? "texts" : "classes", most)
                                  : keep_words(e, feature, all);
    lki_free(e->context, memory, bytes);
    return status;
}

/* ---------------------------------------------------------------- numbers */

/* Mean and deviation over the rows that are used; of values that are all the same the deviation is 1. */
static lks_status measure(lki_encoding *e, lki_feature *feature, const lki_table *table,
                          const uint8_t *used)
{
    lks_unit *unit = &feature->unit;
    int64_t count = 0;
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < table->rows; r++) {
        const double value = lki_table_cell(table, r, feature->column).number;
        if (!used[r] || isnan(value)) continue;
        sum += value;
        count++;
    }
    if (count == 0)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': column '%.60s' has no value in the rows of the training; leave it "
                        "out (data.ignore)",
                        table->path, feature->name);
    unit->mean = sum / (double)count;
    for (int64_t r = 0; r < table->rows; r++) {
        const double value = lki_table_cell(table, r, feature->column).number;
        if (used[r] && !isnan(value)) squares += (value - unit->mean) * (value - unit->mean);
    }
    unit->deviation = sqrt(squares / (double)count);
    if (!isfinite(unit->deviation))
        return LKI_FAIL(LKS_E_FORMAT, "'%s': column '%.60s' has numbers too large to be squared",
                        table->path, feature->name);
    if (unit->deviation > 0) return LKS_OK;
    unit->deviation = 1;
    lki_log_line(e->context, LKS_LOG_WARN,
                 "'%s': column '%s' is %g in all rows of the training, and tells nothing",
                 table->path, feature->name, unit->mean);
    return LKS_OK;
}

/* ---------------------------------------------------------------- columns */

static lks_status check_missing(const lki_encoding *e, const lki_table *table, const int *input,
                                const int *target)
{
    for (int64_t r = 0; r < table->rows; r++) {
        for (int i = 0; i < e->inputs && !e->fill; i++)
            if (is_missing(&e->input[i], lki_table_cell(table, r, input[i])))
                return fail_missing(table, r, &e->input[i], false);
        for (int i = 0; i < e->targets && target != NULL; i++)
            if (is_missing(&e->target[i], lki_table_cell(table, r, target[i])))
                return fail_missing(table, r, &e->target[i], true);
    }
    return LKS_OK;
}

static lks_status fit_inputs(lki_encoding *e, const lki_table *table, const uint8_t *used,
                             bool standardize)
{
    for (int i = 0; i < e->inputs; i++) {
        lki_feature *feature = &e->input[i];
        feature->at = e->width;
        LKI_TRY(feature->text ? collect_words(e, feature, table, used, LKI_TABLE_WORDS)
                              : measure(e, feature, table, used));
        feature->unit.standardised = standardize && !feature->text;
        e->width += feature->text ? feature->words : 1;
        if (e->width > LKI_TABLE_WIDTH)
            return LKI_FAIL(LKS_E_FORMAT, "'%s' makes samples of more than %d elements",
                            table->path, LKI_TABLE_WIDTH);
    }
    if (e->width > 0) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT, "'%s' has no value in any column but targets", table->path);
}

lks_status lki_encoding_call_class(lki_encoding *e, int64_t class, const char *text)
{
    void *name;
    const size_t bytes = strlen(text);
    LKI_TRY(lki_arena_alloc(&e->arena, &name, bytes + 1, "the name of a class"));
    (void)lki_csv_unquote(name, text, bytes);
    e->class_name[class] = name;
    return LKS_OK;
}

static lks_status name_classes(lki_encoding *e, const lki_table *table)
{
    lki_feature *feature = &e->target[0];
    void *memory;
    LKI_TRY(collect_words(e, feature, table, NULL, MOST_CLASSES));
    e->classes = feature->words;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, (size_t)e->classes * sizeof *e->class_name,
                            "names of classes"));
    e->class_name = memory;
    for (int64_t c = 0; c < e->classes; c++) {
        char number[LKI_NUMBER_SIZE];
        const double value = feature->word[c].number;
        if (!feature->text && (value != floor(value) || fabs(value) > 1e15))
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': column '%.60s' has the value %g, expected classes, which are "
                            "texts or integers; or give data.task: regression",
                            table->path, feature->name, value);
        lki_text(number, sizeof number, "%.0f", value);
        LKI_TRY(lki_encoding_call_class(e, c, feature->text ? feature->word[c].text : number));
    }
    if (e->classes == 1)
        lki_log_line(
            e->context, LKS_LOG_WARN,
            "'%s': column '%s' has the class '%s' in all rows, so that there is nothing to "
            "learn; is it the column that is meant by data.targets?",
            table->path, feature->name, e->class_name[0]);
    return LKS_OK;
}

static lks_status fit_targets(lki_encoding *e, const lki_table *table, const uint8_t *used,
                              const lki_encoding_opts *opts)
{
    const bool texts = e->target[0].text;
    void *memory;
    if (opts->task == LKI_TASK_CLASSIFICATION && e->targets > 1)
        return LKI_FAIL(LKS_E_INVALID, "'%s': classification has one target, but %d are given",
                        table->path, e->targets);
    if (opts->task == LKI_TASK_CLASSIFICATION ||
        (opts->task == LKI_TASK_AUTO && texts && e->targets == 1))
        return name_classes(e, table);
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, (size_t)e->targets * sizeof *e->unit, "units"));
    e->unit = memory;
    for (int i = 0; i < e->targets; i++) {
        lki_feature *feature = &e->target[i];
        if (feature->text)
            return LKI_FAIL(LKS_E_INVALID,
                            "'%s': column '%.60s' has texts, expected numbers of a %s", table->path,
                            feature->name,
                            opts->series ? "series"
                                         : "regression; a column of texts can be the only target, "
                                           "of a classification");
        LKI_TRY(measure(e, feature, table, used));
        feature->unit.standardised = opts->standardize;
        e->unit[i] = feature->unit;
        LKI_TRY(lki_arena_string(&e->arena, &e->unit[i].name, feature->name));
    }
    return LKS_OK;
}

static lks_status keep_names(lki_encoding *e)
{
    for (int i = 0; i < e->inputs; i++)
        LKI_TRY(lki_arena_string(&e->arena, &e->input[i].name, e->input[i].name));
    for (int i = 0; i < e->targets; i++)
        LKI_TRY(lki_arena_string(&e->arena, &e->target[i].name, e->target[i].name));
    return LKS_OK;
}

static lks_status fit(lki_encoding *e, const lki_table *table, const uint8_t *used,
                      const lki_encoding_opts *opts)
{
    LKI_TRY(lki_encoding_choose(e, table, opts));
    LKI_TRY(keep_names(e)); /* the table may be closed before */
    if (opts->sentences == NULL) LKI_TRY(fit_inputs(e, table, used, opts->standardize));
    return fit_targets(e, table, used, opts);
}

lks_status lki_encoding_fit(lki_encoding *out, lks_context *context, const lki_table *table,
                            const uint8_t *used, const lki_encoding_opts *opts)
{
    *out = (lki_encoding){.context = context, .arena.context = context, .fill = opts->fill};
    const unsigned saved = lki_float_enter();
    const lks_status status = fit(out, table, used, opts);
    lki_float_leave(saved);
    return status;
}

void lki_encoding_release(lki_encoding *encoding)
{
    lki_arena_release(&encoding->arena);
    *encoding = (lki_encoding){0};
}

/* ---------------------------------------------------------------- rows */

lks_status lki_feature_find(int *out, const lki_table *table, const lki_feature *feature)
{
    *out = feature->column;
    if (*out >= table->columns || strcmp(table->column[*out].name, feature->name) != 0)
        LKI_TRY(lki_table_find(out, table, feature->name));
    const lki_column_kind kind = table->column[*out].kind;
    if (kind == (feature->text ? LKI_COLUMN_TEXTS : LKI_COLUMN_NUMBERS)) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': column '%.60s' has %s, expected %s as in the table of the training",
                    table->path, feature->name, kind == LKI_COLUMN_TEXTS ? "texts" : "numbers",
                    feature->text ? "texts" : "numbers");
}

static lks_status fail_large(const lki_table *table, int64_t row, const lki_feature *feature)
{
    char place[LKI_TABLE_PLACE];
    return LKI_FAIL(LKS_E_FORMAT, "%s: column '%.60s' has a number too large for 32-bit floats",
                    lki_table_place(table, row, place), feature->name);
}

static lks_status put_number(const lki_table *table, int64_t row, const lki_feature *feature,
                             double value, float *out)
{
    const lks_unit *unit = &feature->unit;
    if (isnan(value)) value = unit->mean; /* only where it is to be filled in */
    *out = (float)(unit->standardised ? (value - unit->mean) / unit->deviation : value);
    return isfinite(*out) ? LKS_OK : fail_large(table, row, feature);
}

static lks_status put_class(const lki_encoding *e, const lki_table *table, int64_t row, int column,
                            int32_t *out)
{
    const lki_feature *feature = &e->target[0];
    const lki_word word = word_of(table, feature, lki_table_cell(table, row, column));
    const int64_t class = find_word(feature, &word);
    char place[LKI_TABLE_PLACE], number[32];
    *out = (int32_t) class;
    if (class >= 0) return LKS_OK;
    snprintf(number, sizeof number, "%.17g", word.number);
    return LKI_FAIL(LKS_E_FORMAT,
                    "%s: column '%.60s' has the class '%.*s', which the table of the training has "
                    "not; take the row out, or put it right",
                    lki_table_place(table, row, place), feature->name,
                    feature->text ? (int)(word.bytes < 60 ? word.bytes : 60) : (int)sizeof number,
                    feature->text ? word.text : number);
}

static lks_status put_row(const lki_encoding *e, const lki_table *table, int64_t row,
                          const int *input, const int *target, float *x, void *y)
{
    for (int i = 0; i < e->inputs; i++) {
        const lki_feature *feature = &e->input[i];
        const lki_cell cell = lki_table_cell(table, row, input[i]);
        if (!feature->text) {
            LKI_TRY(put_number(table, row, feature, cell.number, &x[feature->at]));
            continue;
        }
        const lki_word word = word_of(table, feature, cell);
        const int64_t found = feature->words > 0 && cell.text != 0 ? find_word(feature, &word) : -1;
        for (int64_t k = 0; k < feature->words; k++) x[feature->at + k] = k == found;
    }
    if (y == NULL) return LKS_OK;
    if (e->classes > 0) return put_class(e, table, row, target[0], (int32_t *)y + row);
    for (int i = 0; i < e->targets; i++)
        LKI_TRY(put_number(table, row, &e->target[i], lki_table_cell(table, row, target[i]).number,
                           (float *)y + row * e->targets + i));
    return LKS_OK;
}

/* A warning for each column that has texts of which the network knows none. */
static void tell_new_texts(const lki_encoding *e, const lki_table *table, const int *input)
{
    for (int i = 0; i < e->inputs; i++) {
        int64_t rows = 0;
        lki_word word, first = {.text = ""};
        for (int64_t r = 0; e->input[i].text && r < table->rows; r++) {
            const lki_cell cell = lki_table_cell(table, r, input[i]);
            if (cell.text == 0) continue;
            word = word_of(table, &e->input[i], cell);
            if (find_word(&e->input[i], &word) < 0 && rows++ == 0) first = word;
        }
        if (rows > 0)
            lki_log_line(e->context, LKS_LOG_WARN,
                         "'%s': column '%s' has texts that the training did not have, in %" PRId64
                         " row%s, first '%.*s'; these rows have none there",
                         table->path, e->input[i].name, rows, rows == 1 ? "" : "s",
                         (int)(first.bytes < 60 ? first.bytes : 60), first.text);
    }
}

static lks_status put_rows(const lki_encoding *e, const lki_table *table, int *column, float *x,
                           void *y)
{
    int *input = column, *target = column + e->inputs;
    for (int i = 0; i < e->inputs; i++) LKI_TRY(lki_feature_find(&input[i], table, &e->input[i]));
    for (int i = 0; i < e->targets && y != NULL; i++)
        LKI_TRY(lki_feature_find(&target[i], table, &e->target[i]));
    LKI_TRY(check_missing(e, table, input, y != NULL ? target : NULL));
    for (int64_t r = 0; r < table->rows; r++)
        LKI_TRY(put_row(e, table, r, input, target, e->width > 0 ? x + r * e->width : NULL, y));
    if (e->tells && e->width > 0) tell_new_texts(e, table, input);
    return LKS_OK;
}

lks_status lki_encoding_apply(const lki_encoding *encoding, const lki_table *table, float *x,
                              void *y)
{
    const size_t bytes = (size_t)(encoding->inputs + encoding->targets) * sizeof(int);
    void *memory;
    LKI_TRY(lki_alloc(table->context, &memory, bytes, "columns"));
    const unsigned saved = lki_float_enter();
    const lks_status status = put_rows(encoding, table, memory, x, y);
    lki_float_leave(saved);
    lki_free(table->context, memory, bytes);
    return status;
}
