/* Data that is a table of numbers and texts: data.table, and the keys that say what its columns are. */
#ifndef LKI_RECIPE_DATA_TABLE_H
#define LKI_RECIPE_DATA_TABLE_H

#include "recipe/config.h"
#include <lockstep/data.h>

/* data.name of such data, and the keys of "data" that are its alone. */
#define LKI_TABLE_NAME "table"
#define LKI_TABLE_KEYS                                                                             \
    "table test_table test_fraction targets task standardize texts ignore missing separator "      \
    "header"

/* The training or the test split. Samples have the numbers of their rows in the file, from 0. */
LKS_MUSTUSE lks_status lki_table_source_open(lks_dataset **out, lki_config *config,
                                             lks_context *context, bool test);
bool lki_table_source_has_test(const lki_config *config);

#endif
