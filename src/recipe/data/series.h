/* Data that is a series of numbers: data.series, and windows of it. */
#ifndef LKI_RECIPE_DATA_SERIES_H
#define LKI_RECIPE_DATA_SERIES_H

#include "recipe/config.h"
#include "recipe/data/parts.h"

/* data.name of such data, and the keys of "data" that are for it. */
#define LKI_SERIES_NAME "series"
#define LKI_SERIES_KEYS                                                                            \
    "series context horizon stride time test_fraction targets standardize ignore missing "         \
    "separator header"

/* The training or the test split: the test is the end of the series. `training`: the data set for training, which has what
 * is read of it already; or NULL. */
LKS_MUSTUSE lks_status lki_series_source_open(lks_dataset **out, lki_config *config,
                                              lks_context *context, bool test,
                                              const lks_dataset *training);
/* One sample: the last rows of another file. `kept`: the columns.txt of the run in checkpoint.path, or NULL, where it has
 * none: then data.series says the same. */
LKS_MUSTUSE lks_status lki_series_source_open_new(lks_dataset **out, lki_config *config,
                                                  lks_context *context, const char *path,
                                                  const char *kept);

/* The beginning of the training's rows, and their end for validation. */
LKS_MUSTUSE lks_status lki_series_source_cut(lki_parts *out, const lki_config *config,
                                             const lks_dataset *whole);

#endif
