#include "recipe/data/series.h"

#include <string.h>

#include "base/check.h"
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

static lks_status open_table(lks_dataset **out, lki_config *config, lks_context *context,
                             const lki_table *table, bool test)
{
    lki_series_opts opts = {.context = lki_config_int(config, LKI_KEY_DATA_CONTEXT),
                            .horizon = lki_config_int(config, LKI_KEY_DATA_HORIZON),
                            .stride = lki_config_has(config, LKI_KEY_DATA_STRIDE)
                                          ? lki_config_int(config, LKI_KEY_DATA_STRIDE)
                                          : 1,
                            .standardize = lki_config_bool(config, LKI_KEY_DATA_STANDARDIZE),
                            .fill = strcmp(lki_config_text(config, LKI_KEY_DATA_MISSING), "mean") ==
                                    0};
    int64_t rest;
    LKI_TRY(lki_table_columns(&opts.targets, &opts.target_count, config, LKI_KEY_DATA_TARGETS));
    LKI_TRY(split_rows(&opts.train, &rest, config, table->rows));
    opts.first = test ? rest : 0;
    opts.count = test ? table->rows - rest : rest;
    return lki_series_open(out, context, table, &opts);
}

lks_status lki_series_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                  bool test)
{
    lki_table table = {0};
    lki_csv_opts opts;
    *out = NULL;
    LKI_TRY(lki_table_csv_opts(&opts, config));
    lks_status status = lki_csv_open(&table, context, lki_config_text(config, LKI_KEY_DATA_SERIES),
                                     &opts);
    if (status == LKS_OK) status = open_table(out, config, context, &table, test);
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
