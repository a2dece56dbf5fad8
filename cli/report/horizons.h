/* How well a series is forecast, time by time. */
#ifndef CLI_HORIZONS_H
#define CLI_HORIZONS_H

#include <jansson.h>

#include "cli/report/fits.h"
#include "recipe/run/record.h"

typedef struct horizons {
    int64_t times;   /* 0: the data is no series */
    lki_ahead *each; /* [times], in the pool */
} horizons;
/* Of what eval has found of a data set; and of a record's list, which may be of any kind. */
horizons horizons_of(const lks_recipe *recipe, const lks_dataset *data, const fits *targets,
                     cli_pool *pool);
horizons horizons_read(const json_t *list, cli_pool *pool);

/* A table on a page of HTML, or, NULL, on standard output; and a list of objects. */
void horizons_print(const horizons *h, cli_pool *pool, FILE *page);
json_t *horizons_json(const horizons *h);

#endif
