/* Data in shards: data.shards, a folder with metadata.json (data/shards/shards.h has its layout). */
#ifndef LKI_RECIPE_DATA_SHARDS_H
#define LKI_RECIPE_DATA_SHARDS_H

#include "recipe/config.h"
#include <lockstep/data.h>
#include <lockstep/tools.h>

/* data.name of such data, and the keys of "data" that are for it. */
#define LKI_SHARDS_NAME "shards"
#define LKI_SHARDS_KEYS "shards test_fraction standardize"

/* The training or the test split. Samples have the numbers of their rows, from 0. With `training`, which was opened by this, the
 * test shares its files and statistics. Without it this is collective: all ranks of `comm` (NULL: this process alone) measure. */
LKS_MUSTUSE lks_status lki_shards_source_open(lks_dataset **out, lki_config *config,
                                              lks_context *context, bool test,
                                              const lks_dataset *training, lks_comm *comm);

/* As lks_recipe_measure_shards() tells. */
LKS_MUSTUSE lks_status lki_shards_source_measure(lks_shards_stats *out, lki_config *config,
                                                 lks_context *context, lks_comm *comm, int threads);

#endif
