/*
 * Means and deviations of shards in a file beside them, stats-flattened-<step>-<rows>.npy in their folder: float64 of shape
 * (2, columns), means before deviations, samples' columns before targets'. <rows> is a hash of which rows they are of.
 */
#ifndef LKI_DATA_SHARDS_STATS_H
#define LKI_DATA_SHARDS_STATS_H

#include "data/shards/shards.h"

/* The path for the rows of which `used` has a 1. */
lks_status lki_shards_stats_path(char out[LKI_SHARDS_PATH], const lki_shards *shards,
                                 const uint8_t *used);

/* Whether such numbers were there, and no shard is newer than they. */
bool lki_shards_stats_read(double *mean, double *deviation, const lki_shards *shards,
                           const char *path);
lks_status lki_shards_stats_write(const char *path, const lki_shards *shards, const double *mean,
                                  const double *deviation);

#endif
