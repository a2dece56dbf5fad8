#include "recipe/data/series.h"

#include <string.h>

#include "base/check.h"
#include "data/table/kept.h"
#include "data/table/series.h"
#include "recipe/data/columns.h"
#include "recipe/data/held.h"

/* Of `rows` the first train, then come those of validation, and those of the test. */
static lks_status split_rows(int64_t *train, int64_t *rest, const lki_config *config, int64_t rows)
{
    int64_t held;
    LKI_TRY(lki_held_rows(&held, config, LKI_KEY_DATA_TEST_FRACTION, rows));
    *rest = rows - held;
    LKI_TRY(lki_held_rows(&held, config, LKI_KEY_VALIDATION_FRACTION, *rest));
    *train = *rest - held;
    return LKS_OK;
}

static lki_series_opts windows_of(const lki_config *config)
{
    return (lki_series_opts){.context = lki_config_int(config, LKI_KEY_DATA_CONTEXT),
                             .horizon = lki_config_int(config, LKI_KEY_DATA_HORIZON),
                             .stride = lki_config_has(config, LKI_KEY_DATA_STRIDE)
                                           ? lki_config_int(config, LKI_KEY_DATA_STRIDE)
                                           : 1,
                             .time = lki_config_text(config, LKI_KEY_DATA_TIME)};
}

/* The column of times is no input: it has texts, whatever these look like. */
static lks_status series_csv_opts(lki_csv_opts *out, lki_config *config)
{
    const char *time = lki_config_text(config, LKI_KEY_DATA_TIME);
    LKI_TRY(lki_table_csv_opts(out, config));
    if (time == NULL) return LKS_OK;
    const char **names = lki_heap_alloc(&config->heap, sizeof *names);
    if (names == NULL) return lki_heap_status(&config->heap, LKS_OK);
    names[0] = time; /* data.texts is for tables */
    out->texts = names;
    out->text_count = 1;
    return LKS_OK;
}

/* Those before the rows of validation and test. */
static lks_status mark_first(uint8_t *used, const lki_config *config, lks_context *context,
                             const lki_table *table)
{
    int64_t train, rest;
    (void)context;
    LKI_TRY(split_rows(&train, &rest, config, table->rows));
    memset(used, 1, (size_t)train);
    return LKS_OK;
}

/* data.series, and what its training says of it; the table is closed by the caller, also after a failure. */
static lks_status read_series_training(lki_table *table, lki_encoding *encoding, lki_config *config,
                                       lks_context *context)
{
    lki_csv_opts opts;
    LKI_TRY(series_csv_opts(&opts, config));
    LKI_TRY(lki_csv_open(table, context, lki_config_text(config, LKI_KEY_DATA_SERIES), &opts));
    return lki_table_fit(encoding, config, context, table, mark_first);
}

/* Of `rows` those of the test, or all others. */
static lks_status series_split(int64_t *first, int64_t *count, const lki_config *config,
                               int64_t rows, bool test)
{
    int64_t train, rest;
    LKI_TRY(split_rows(&train, &rest, config, rows));
    if (test && rest == rows)
        return LKI_FAIL(
            LKS_E_INVALID,
            "'%.200s' has no rows to test with: data.test_fraction is null, expected the "
            "share of its rows that are held back at its end, such as 0.2; give that "
            "of the training, or --split train",
            lki_config_text(config, LKI_KEY_DATA_SERIES));
    *first = test ? rest : 0;
    *count = test ? rows - rest : rest;
    return LKS_OK;
}

static lks_status part_of(lks_dataset **out, const lki_config *config, const lks_dataset *training,
                          bool test)
{
    int64_t first, count;
    LKI_TRY(series_split(&first, &count, config, lki_series_rows(training), test));
    return lki_series_part(out, training, first, count);
}

lks_status lki_series_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                  bool test, const lks_dataset *training)
{
    lki_series_opts opts = windows_of(config);
    lki_table table = {0};
    lki_encoding encoding = {0};
    *out = NULL;
    if (lki_series_encoding(training) != NULL) return part_of(out, config, training, test);
    lks_status status = read_series_training(&table, &encoding, config, context);
    if (status == LKS_OK) status = series_split(&opts.first, &opts.count, config, table.rows, test);
    if (status == LKS_OK) status = lki_series_open(out, &table, &encoding, &opts);
    lki_encoding_release(&encoding);
    lki_table_close(&table);
    return status;
}

lks_status lki_series_source_open_new(lks_dataset **out, lki_config *config, lks_context *context,
                                      const char *path, const char *kept)
{
    lki_series_opts opts = windows_of(config);
    lki_table table = {0};
    lki_encoding encoding = {0};
    lki_csv_opts csv;
    opts.last = true;
    *out = NULL;
    LKI_TRY(series_csv_opts(&csv, config));
    csv.lenient = true; /* columns that are left out may be missing */
    lks_status status = kept != NULL ? lki_encoding_read(&encoding, context, kept)
                                     : read_series_training(&table, &encoding, config, context);
    lki_table_close(&table);
    encoding.fill |= lki_table_fills(config);
    if (status == LKS_OK) status = lki_csv_open(&table, context, path, &csv);
    if (status == LKS_OK) status = lki_series_open(out, &table, &encoding, &opts);
    lki_encoding_release(&encoding);
    lki_table_close(&table);
    return status;
}

lks_status lki_series_source_cut(lki_parts *out, const lki_config *config, const lks_dataset *whole)
{
    int64_t train, rest;
    LKI_TRY(lki_held_at_end(config, "a series"));
    LKI_TRY(split_rows(&train, &rest, config, lki_series_rows(whole)));
    lks_status status = lki_series_part(&out->slice[0], whole, 0, train);
    if (status == LKS_OK) status = lki_series_part(&out->slice[1], whole, train, rest - train);
    out->train = out->slice[0];
    out->valid = out->slice[1];
    return status;
}
