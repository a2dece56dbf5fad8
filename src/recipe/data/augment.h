/* What is done to training samples: data.augment, data.mixup. */
#ifndef LKI_RECIPE_DATA_AUGMENT_H
#define LKI_RECIPE_DATA_AUGMENT_H

#include <lockstep/data.h>

#include "recipe/config.h"

/* Reads it into the options of a loader, which may be NULL, and checks it against images like `info` (NULL: they are
 * not known yet). The list is in the configuration's heap. */
LKS_MUSTUSE lks_status lki_augment_read(lki_config *config, const lks_dataset_info *info,
                                        lks_loader_opts *out);

#endif
