/* Data that is a table of numbers and texts: data.table, and the keys that say what its columns are. */
#ifndef LKI_RECIPE_DATA_TABLE_H
#define LKI_RECIPE_DATA_TABLE_H

#include "recipe/config.h"
#include <lockstep/data.h>

/* data.name of such data, and the keys of "data" that are for it. */
#define LKI_TABLE_NAME "table"
#define LKI_TABLE_KEYS                                                                             \
    "table test_table test_fraction targets task standardize texts ignore missing separator "      \
    "header text_column level words tokenizer context"

/* Of these the keys of a text's vocabulary and samples, which a table without data.text_column has no use for. */
#define LKI_TABLE_TEXT_KEYS                                                                        \
    {                                                                                              \
        LKI_KEY_DATA_LEVEL, LKI_KEY_DATA_WORDS, LKI_KEY_DATA_TOKENIZER, LKI_KEY_DATA_CONTEXT       \
    }

/* The training or the test split. Samples have the numbers of their rows in the file, from 0. `training`: this table's
 * data set for training, which has what is read of it already; or NULL. */
LKS_MUSTUSE lks_status lki_table_source_open(lks_dataset **out, lki_config *config,
                                             lks_context *context, bool test,
                                             const lks_dataset *training);
/* All rows of a new table, or the last of a new series, as that of the run in checkpoint.path, whose columns.txt says how, or
 * as data.table: with its means and texts. It needs no targets, and nobody asks for them. */
LKS_MUSTUSE lks_status lki_table_source_open_new(lks_dataset **out, lki_config *config,
                                                 lks_context *context, const char *path);
/* Writes that file into the folder of a run; LKS_E_MISMATCH where the one there is of another table. Of data that is no
 * table or series nothing is done. */
LKS_MUSTUSE lks_status lki_table_source_keep(const lks_dataset *whole, lki_config *config,
                                             const char *folder);
LKS_MUSTUSE lks_status lki_table_source_check(const lks_dataset *whole, lki_config *config,
                                              const char *folder);
bool lki_table_source_has_test(const lki_config *config);

#endif
