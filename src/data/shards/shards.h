/*
 * Samples and targets in shards: files of NumPy's with equally many rows each, two-dimensional, floats in C's order.
 *
 *   <folder>/metadata.json                            {"1000": {"flattened": {"dtype": "float32", "dataset_len": 20480,
 *                                                      "num_shards": 64, "x_shape": [320, 4128], "y_shape": [320, 552]}}}
 *   <folder>/config.yaml                              timestep: 1000, loading_mode: efficient
 *   <folder>/data/processed/flattened-1000/x/0.npy    rows 0 to 319 of the samples
 *   <folder>/data/processed/flattened-1000/y/0.npy    and of their targets
 *
 * Row i is row i % 320 of shard i / 320; the last shard may have fewer. It is the layout of kosmoss
 * (https://github.com/alxyok/kosmoss), whose files are read as they are.
 */
#ifndef LKI_DATA_SHARDS_SHARDS_H
#define LKI_DATA_SHARDS_SHARDS_H

#include <lockstep/comm.h>

#include "base/file.h"
#include "data/numpy/npy.h"

enum { LKI_SHARDS_PATH = 4096, LKI_SHARDS_WIDTH = 1 << 20, LKI_SHARDS_MOST = 30000 };

/* What the metadata says. The two arrays are samples, "x", and targets, "y". */
typedef struct lki_shards_plan {
    const char *step; /* "1000" */
    const char *type; /* as NumPy calls it: "float32" */
    int64_t rows, shards;
    int64_t rows_each; /* of a shard but the last */
    int64_t width[2];
} lki_shards_plan;

typedef struct lki_shard {
    lki_file file; /* mapped; closed where rows are read */
    lki_npy npy;
    size_t begin; /* of the elements in the file */
} lki_shard;

typedef struct lki_shards {
    lks_context *context;
    lki_shards_plan plan; /* borrows its texts */
    const char *folder;   /* borrowed */
    bool mapped;
    lki_shard *shard[2]; /* [shards] */
    double *mean,
        *inverse; /* [width[0] + width[1]] to standardise with, 1 / deviation; or NULL: as they are */
} lki_shards;

/* What is wrong with a plan, as where files are many more than its rows need; `path` is for messages. */
lks_status lki_shards_check(const lki_shards_plan *plan, const char *path);
/* The path of a shard, of samples (0) or targets (1); false where it is too long. */
bool lki_shards_path(char out[LKI_SHARDS_PATH], const char *folder, const char *step, int array,
                     int64_t shard);
int64_t lki_shards_rows(const lki_shards_plan *plan, int64_t shard);

/* Opens and checks the head of every file. `mapped`: files stay mapped, else a row is read when it is asked for; the same
 * numbers. Closed also after a failure. */
lks_status lki_shards_open(lki_shards *out, lks_context *context, const char *folder,
                           const lki_shards_plan *plan, bool mapped);
void lki_shards_close(lki_shards *shards); /* zeroed is fine */

/* Opens one file, whose head is as the plan says. */
lks_status lki_shard_open(lki_shard *out, const lki_shards *shards, int array, int64_t index);
/* Its elements, where they lie in memory as floats; else NULL. */
const float *lki_shard_floats(const lki_shard *shard);
/* Row `row` of an open shard as floats, as they are. LKS_E_FORMAT names file and row where one is not finite. */
lks_status lki_shard_row(float *out, const lki_shards *shards, const lki_shard *shard, int array,
                         int64_t index, int64_t row);

/* A sample and its target, standardised where mean and inverse are set; callable from any thread. */
lks_status lki_shards_read(const lki_shards *shards, int64_t row, float *x, float *y);

/*
 * Mean and deviation (of all rows, not n - 1; 1 where it is 0) of every column, samples' before targets', over the rows of
 * which `used` has a 1. One pass: a shard's sums are made about its first row, in double, row by row, and shards are
 * combined in their order (Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample
 * variances", 1979): bits do not depend on `threads` (0: one for each core), nor on the ranks of `comm` (NULL: this process
 * alone), which each measure some and get the same. *constant: how many columns have one value.
 */
lks_status lki_shards_measure(const lki_shards *shards, const uint8_t *used, lks_comm *comm,
                              int threads, double *mean, double *deviation, int64_t *constant);

#endif
