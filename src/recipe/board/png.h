/* Images as PNG files. */
#ifndef LKI_RECIPE_BOARD_PNG_H
#define LKI_RECIPE_BOARD_PNG_H

#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

/* pixels[height][width][channels], 1 (grey) or 3 (red, green, blue) channels, as the bytes of a file: free() them.
 * LKS_E_UNSUPPORTED in a build without libpng. */
LKS_MUSTUSE lks_status lki_png_encode(char **out, size_t *bytes, const uint8_t *pixels, int height,
                                      int width, int channels);

const char *lki_png_version(void); /* of libpng, as it tells; "none" in a build without */

#endif
