/* How well a series is forecast, time by time. */
#ifndef CLI_HORIZONS_H
#define CLI_HORIZONS_H

#include <jansson.h>

#include "cli/report/fits.h"

/* Errors of the targets of each time ahead, in deviations of the training, as forecasts are compared. */
typedef struct horizons {
    int64_t times; /* 0: the data is no series */
    const fits *fits;
    const lks_unit *unit; /* [fits->count] */
} horizons;
horizons horizons_of(const lks_recipe *recipe, const lks_dataset *data, const fits *targets);

/* A table on standard output; and a list of objects. */
void horizons_print(const horizons *h, cli_pool *pool);
json_t *horizons_json(const horizons *h);

#endif
