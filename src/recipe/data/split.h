/* Rows of data that is one file, or one set of files, for training and test: what data.test_fraction holds back. */
#ifndef LKI_RECIPE_DATA_SPLIT_H
#define LKI_RECIPE_DATA_SPLIT_H

#include "recipe/config.h"
#include <lockstep/data.h>

/* The training's or the test's part in the place of `whole`, which is destroyed, also where this fails; or `whole` itself where
 * no rows are held back. */
LKS_MUSTUSE lks_status lki_split_take(lks_dataset **out, const lki_config *config,
                                      lks_dataset *whole, bool test);

/* Sets used[row] of the rows of `whole` that are trained with, neither the test's nor validation's, to 1. */
LKS_MUSTUSE lks_status lki_split_mark(uint8_t *used, const lki_config *config, lks_dataset *whole);

#endif
