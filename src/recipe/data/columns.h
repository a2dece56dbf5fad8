/* Keys that say how a CSV file is read. */
#ifndef LKI_RECIPE_DATA_COLUMNS_H
#define LKI_RECIPE_DATA_COLUMNS_H

#include "data/table/table.h"
#include "recipe/config.h"

/* What the keys say of a CSV file, and of columns: lists by name or number. They are in the configuration's heap. */
LKS_MUSTUSE lks_status lki_table_csv_opts(lki_csv_opts *out, lki_config *config);
LKS_MUSTUSE lks_status lki_table_columns(const char *const **out, int *count, lki_config *config,
                                         lki_key key);

#endif
