/*
 * A series of numbers: rows of a table in the order of time, of which windows are samples, and what comes behind them is
 * their target.
 *
 *   rows       0 1 2 3 4 5 6 7 8        context 3, horizon 2, stride 1
 *   sample 0  [x x x]y y
 *   sample 1    [x x x]y y
 *
 * A part of a series are the windows whose targets lie in its rows; their samples may begin before them, as
 * forecasters are tested (H. Zhou et al.: "Informer", 2021). Columns of texts, such as dates, are left out.
 */
#ifndef LKI_DATA_TABLE_SERIES_H
#define LKI_DATA_TABLE_SERIES_H

#include <lockstep/data.h>

#include "data/table/table.h"

typedef struct lki_series_opts {
    const char *const *targets; /* columns by name or number; none: all */
    int target_count;
    int64_t context, horizon, stride; /* each at least 1 */
    bool standardize;     /* less the mean, over the deviation, of the training's rows */
    bool fill;            /* missing values get the mean; else they are an error */
    int64_t train;        /* rows of the training: the first */
    int64_t first, count; /* rows that targets are in */
} lki_series_opts;

/* Samples are F32 [context][columns], targets floats [horizon times targets]: all columns of a time, then those of the
 * next. */
lks_status lki_series_open(lks_dataset **out, lks_context *context, const lki_table *table,
                           const lki_series_opts *opts);

int64_t lki_series_rows(const lks_dataset *whole); /* all there are, also those of the test */
/* The windows whose targets lie in rows [first, first + count) of another series, which must outlive it. */
lks_status lki_series_part(lks_dataset **out, const lks_dataset *whole, int64_t first,
                           int64_t count);

#endif
