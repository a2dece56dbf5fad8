/* The list data.augment. */
#ifndef LKI_RECIPE_DATA_AUGMENT_H
#define LKI_RECIPE_DATA_AUGMENT_H

#include <lockstep/data.h>

#include "recipe/config.h"

/* Reads it, and checks it against images like `info` (NULL: they are not known yet). The list is in the
 * configuration's heap; `out` and `count` may be NULL. */
LKS_MUSTUSE lks_status lki_augment_read(lki_config *config, const lks_dataset_info *info,
                                        const lks_augmentation **out, int *count);

#endif
