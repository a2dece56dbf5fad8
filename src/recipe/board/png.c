#include "recipe/board/png.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

#if defined(LKI_HAVE_PNG)

#include <png.h>

lks_status lki_png_encode(char **out, size_t *bytes, const uint8_t *pixels, int height, int width,
                          int channels)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    *out = NULL;
    FILE *file = open_memstream(out, bytes);
    bool good = file != NULL && png_image_write_to_stdio(&image, file, 0, pixels, 0, NULL) != 0;
    if (file != NULL && fclose(file) != 0) good = false;
    if (good) return LKS_OK;
    free(*out);
    *out = NULL;
    return LKI_FAIL(LKS_E_NOMEM, "the PNG file of %d x %d pixels could not be made: %s", width,
                    height, image.message[0] != '\0' ? image.message : "out of memory");
}

const char *lki_png_version(void)
{
    return png_get_libpng_ver(NULL);
}

#else

lks_status lki_png_encode(char **out, size_t *bytes, const uint8_t *pixels, int height, int width,
                          int channels)
{
    (void)pixels, (void)height, (void)width, (void)channels;
    *out = NULL;
    *bytes = 0;
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "images cannot be written: this program was built without libpng; install it "
                    "(on Debian: apt-get install libpng-dev), then configure and build again");
}

const char *lki_png_version(void)
{
    return "none";
}

#endif
