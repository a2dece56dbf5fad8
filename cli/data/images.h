/* Images without labels, to predict from. */
#ifndef CLI_DATA_IMAGES_H
#define CLI_DATA_IMAGES_H

#include <stdatomic.h>

#include "cli/cli.h"

typedef struct cli_images {
    lks_dataset *data; /* with the names of samples */
    lks_dataset *read; /* the same samples; pictures that cannot be read are 0, and noted */
    /* [samples], why one that has been read cannot be, or NULL; NULL: only good ones are read */
    _Atomic(char *) *bad;
} cli_images;

/* A picture, a folder of pictures, or a file of images (IDX, .npy), as the data of these parts is. Close it, also after a
 * failure; it stays where it is until then. */
LKS_MUSTUSE lks_status images_open(cli_images *out, const lks_recipe_parts *parts,
                                   const char *what);
void images_close(cli_images *images);

#endif
