/* Keys that say how a CSV file is read, and what its columns are. */
#ifndef LKI_RECIPE_DATA_COLUMNS_H
#define LKI_RECIPE_DATA_COLUMNS_H

#include "data/table/encode.h"
#include "data/table/table.h"
#include "recipe/config.h"

/* What the keys say of a CSV file, and of columns: lists by name or number. They are in the configuration's heap. */
LKS_MUSTUSE lks_status lki_table_csv_opts(lki_csv_opts *out, lki_config *config);
LKS_MUSTUSE lks_status lki_table_columns(const char *const **out, int *count, lki_config *config,
                                         lki_key key);

/* Whether values that are missing are filled in. */
bool lki_table_fills(const lki_config *config);

/* Sets used[row], which is 0, of the rows that are trained with to 1. */
typedef lks_status lki_mark_rows(uint8_t *used, const lki_config *config, lks_context *context,
                                 const lki_table *table);
/* What those rows, and the keys, say of the columns of a table or a series. Released by lki_encoding_release(), also after a
 * failure; the caller has zeroed `out`. */
LKS_MUSTUSE lks_status lki_table_fit(lki_encoding *out, lki_config *config, lks_context *context,
                                     const lki_table *table, lki_mark_rows *mark);

#endif
