/*
 * The PNG writer: an image is written, read back by libpng and found again, enlarged, on its sheet.
 * Input: height and width less 1 (0 to 31), channels (1 or 3), label; pixels, repeated as often as
 * needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/out/sheet.h"
#include "fuzz/fuzz.h"

#if defined(CLI_HAVE_PNG)

#include <png.h>

enum { RGB = 3, LARGEST = 32 };

/* Whether the sheet has the image, enlarged `scale` times, with this corner. */
static bool has_image(const png_image *page, const uint8_t *rgb, const cli_sheet *sheet, int scale,
                      int left, int top)
{
    for (int y = 0; y < sheet->height * scale; y++) {
        const uint8_t *found = rgb + ((top + y) * (int)page->width + left) * RGB;
        for (int x = 0; x < sheet->width * scale; x++) {
            const uint8_t *wanted = sheet->pixels +
                                    (y / scale * sheet->width + x / scale) * sheet->channels;
            for (int k = 0; k < RGB; k++)
                if (*found++ != wanted[sheet->channels == RGB ? k : 0]) return false;
        }
    }
    return true;
}

/* The sheet of one image has it in its middle; how far enlarged, and how far down, is its own
 * business. */
static bool find_image(const png_image *page, const uint8_t *rgb, const cli_sheet *sheet)
{
    const int side = sheet->width > sheet->height ? sheet->width : sheet->height;
    for (int scale = 1; scale * side < 2 * LARGEST + 100; scale++) {
        const int left = ((int)page->width - scale * sheet->width) / 2;
        for (int top = 0; top + scale * sheet->height <= (int)page->height; top++)
            if (scale * side >= 100 && has_image(page, rgb, sheet, scale, left, top)) return true;
    }
    return false;
}

static void check_file(const char *path, const cli_sheet *sheet)
{
    png_image page = {.version = PNG_IMAGE_VERSION};
    FUZZ_CHECK(png_image_begin_read_from_file(&page, path) != 0);
    page.format = PNG_FORMAT_RGB;
    uint8_t *rgb = malloc(PNG_IMAGE_SIZE(page));
    FUZZ_CHECK(rgb != NULL && page.width < 10000 && page.height < 10000);
    FUZZ_CHECK(png_image_finish_read(&page, NULL, rgb, 0, NULL) != 0);
    FUZZ_CHECK(find_image(&page, rgb, sheet));
    free(rgb);
}

static char folder[] = "/tmp/fuzz-png-XXXXXX";

static void remove_folder(void)
{
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t pixels[LARGEST * LARGEST * RGB];
    static char path[64] = "";
    if (bytes < 5) return 0;
    if (path[0] == '\0') {
        FUZZ_CHECK(mkdtemp(folder) != NULL);
        atexit(remove_folder);
        snprintf(path, sizeof path, "%s/a.png", folder);
    }
    const int32_t label = data[3];
    const cli_sheet sheet = {.title = "a",
                             .count = 1,
                             .height = 1 + data[0] % LARGEST,
                             .width = 1 + data[1] % LARGEST,
                             .channels = data[2] % 2 == 0 ? 1 : RGB,
                             .pixels = pixels,
                             .labels = &label};
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = data[4 + i % (bytes - 4)];
    FUZZ_CHECK(sheet_write_png(&sheet, path) == LKS_OK);
    check_file(path, &sheet);
    FUZZ_CHECK(unlink(path) == 0);
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    (void)data, (void)bytes;
    return 0;
}

#endif
