/*
 * A series of numbers: rows of a table in the order of time, of which windows are samples, and what comes behind them is
 * their target.
 *
 *   rows       0 1 2 3 4 5 6 7 8        context 3, horizon 2, stride 1
 *   sample 0  [x x x]y y
 *   sample 1    [x x x]y y
 *
 * A part of a series are the windows whose targets lie in its rows; their samples may begin before them, as
 * forecasters are tested (H. Zhou et al.: "Informer", 2021). Columns of texts are left out, such as dates, and that of times. A sample
 * is called by the time of its first target, where the file has times (times.h).
 */
#ifndef LKI_DATA_TABLE_SERIES_H
#define LKI_DATA_TABLE_SERIES_H

#include <lockstep/data.h>

#include "data/table/encode.h"

typedef struct lki_series_opts {
    int64_t context, horizon, stride; /* each at least 1 */
    int64_t first, count;             /* rows that targets are in */
    const char *time; /* the column that has times (times.h); NULL: the first of dates */
    bool
        last; /* in their place one sample, the last rows; its target is not there yet, and read as zeros */
} lki_series_opts;

/* Samples are F32 [context][columns], targets floats [horizon times targets]: all columns of a time, then those of the
 * next. `encoding`, of a series (lki_encoding_opts), is that of the training's rows. The caller releases it: what the data set has
 * taken over is zeroed in it. */
lks_status lki_series_open(lks_dataset **out, const lki_table *table, lki_encoding *encoding,
                           const lki_series_opts *opts);
/* NULL: the data set is no series. */
const lki_encoding *lki_series_encoding(const lks_dataset *dataset);

int64_t lki_series_rows(const lks_dataset *whole); /* all there are, also those of the test */
/* The windows whose targets lie in rows [first, first + count) of another series. */
lks_status lki_series_part(lks_dataset **out, const lks_dataset *whole, int64_t first,
                           int64_t count);

#endif
