/* Writing shards. */
#ifndef LKI_DATA_SHARDS_WRITE_H
#define LKI_DATA_SHARDS_WRITE_H

#include <lockstep/tools.h>

#include "data/shards/shards.h"

typedef struct lki_shards_source {
    int64_t rows, width[2];
    /* Rows [first, first + rows) of samples and targets; called by several threads at once. */
    lks_status (*fill)(void *user, int64_t first, int64_t rows, float *x, float *y);
    void *user;
} lki_shards_source;

/*
 * Writes the files, each whole or not at all, and in the end metadata.json, and config.yaml where there is none. Files that are
 * there with the same bytes are kept, so that a call that did not come to its end is gone on with by the next one.
 * The ranks of opts->comm each make some of the files. `status`: a failure of this one before, which ends the call on all.
 */
lks_status lki_shards_write(lks_shards_result *out, lks_context *context,
                            const lki_shards_source *source, const lks_shards_opts *opts,
                            lks_status status);

#endif
