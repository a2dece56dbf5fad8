/* Images without labels, to predict from. */
#ifndef CLI_DATA_IMAGES_H
#define CLI_DATA_IMAGES_H

#include "cli/cli.h"

/* A picture, a folder of pictures, or a file of images (IDX, .npy), as the data of these parts is. The caller destroys it,
 * also after a failure. */
LKS_MUSTUSE lks_status images_open(lks_dataset **out, const lks_recipe_parts *parts,
                                   const char *images);

#endif
