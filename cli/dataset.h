/* The data of a configuration. */
#ifndef CLI_DATASET_H
#define CLI_DATASET_H

#include "config.h"
#include <lockstep/data.h>

/* Opens the training or the test split whole; digits are drawn only as many as asked for. */
LKS_MUSTUSE lks_status dataset_open(lks_dataset **out, cli_config *config, lks_context *context,
                                    bool test);

/* Compares dimensions one by one: what lies behind the last is not defined. */
bool dataset_same_shape(const lks_shape *a, const lks_shape *b);

/* Where the data is looked for when data.path is not set; NULL where there is no home folder. */
const char *dataset_folder(cli_config *config);

/* What is known of a data set without its files; NULL: nothing. */
typedef struct dataset_known {
    const char *name;
    const char *source; /* address of the folder with its four .gz files; NULL: none needed */
} dataset_known;
const dataset_known *dataset_find(const char *name);
extern const dataset_known dataset_table[];
extern const int dataset_table_count;
extern const lks_dataset_info dataset_known_info; /* of the training split of each */

#endif
