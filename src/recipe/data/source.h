/* The data of a configuration. */
#ifndef LKI_RECIPE_DATA_SOURCE_H
#define LKI_RECIPE_DATA_SOURCE_H

#include "recipe/config.h"
#include <lockstep/data.h>

/* Opens the training or the test split whole; digits are drawn only as many as asked for. `training`: the training split,
 * with which the test's may share what is read of the same file; NULL: it is not open. `comm`: processes that all open it
 * now, and may share the work; NULL: this one does so alone. What fails on one may be known to all. */
LKS_MUSTUSE lks_status lki_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                       bool test, const lks_dataset *training, lks_comm *comm);

/* The validation data that is apart from the training's; NULL: there is none. */
LKS_MUSTUSE lks_status lki_source_open_valid(lks_dataset **out, lki_config *config,
                                             lks_context *context);

/* Whether there is a test split to open: a folder of one's own may be for training alone. */
bool lki_source_has_test(lki_config *config);

/* Where the data is looked for when data.path is not set; NULL where there is no home folder. */
const char *lki_source_folder(lki_config *config);

#endif
