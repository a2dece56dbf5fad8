#include "cli/out/sheet.h"

#include <stdint.h>

#if defined(CLI_HAVE_PNG)

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out/font.h"
#include "cli/out/text.h"
#include "recipe/board/png.h"

enum {
    RGB = 3,
    SIDE = 112, /* an image is enlarged to at least so many pixels */
    GAP = 14,
    MARGIN = 28,
    LETTERS = 2, /* the font's scale */
    SPACE = 6,   /* between an image and its label */
    MOST = 1 << 26,
};

typedef struct page {
    const cli_sheet *sheet;
    int scale; /* of the images */
    int columns, rows;
    int cell_width, cell_height; /* image, label and gap */
    int width, height;
    uint8_t *pixels; /* [height][width][RGB] */
    uint8_t ink;     /* of letters */
} page;

static void sheet_png_dot(void *user, int x, int y, int size)
{
    const page *p = user;
    for (int v = y; v < y + size; v++)
        for (int u = x; u < x + size; u++)
            if (u >= 0 && u < p->width && v >= 0 && v < p->height)
                memset(p->pixels + ((size_t)v * (size_t)p->width + (size_t)u) * RGB, p->ink, RGB);
}

static void draw_image(const page *p, int64_t i, int left, int top)
{
    const cli_sheet *s = p->sheet;
    const int step = s->channels == RGB ? 1 : 0;
    const uint8_t *from = s->pixels + i * s->height * s->width * s->channels;
    for (int y = 0; y < s->height * p->scale; y++) {
        uint8_t *to = p->pixels + ((size_t)(top + y) * (size_t)p->width + (size_t)left) * RGB;
        const uint8_t *row = from + (int64_t)(y / p->scale) * s->width * s->channels;
        for (int x = 0; x < s->width * p->scale; x++)
            for (int k = 0; k < RGB; k++) *to++ = row[x / p->scale * s->channels + k * step];
    }
}

/* As near to a square as whole rows allow, and whole rows if it can be nearly one. */
static int choose_columns(int64_t count)
{
    const int least = (int)ceil(sqrt((double)count));
    for (int columns = least; columns <= 2 * least; columns++)
        if (count % columns == 0) return columns;
    return least;
}

static lks_status lay_out(page *p, const cli_sheet *s)
{
    const int side = s->width > s->height ? s->width : s->height;
    int widest = SIDE; /* an image is no narrower than the labels */
    for (int64_t i = 0; i < s->count; i++) {
        char text[SHEET_LABEL];
        const int width = font_width(sheet_label(text, s, i), LETTERS);
        if (width > widest) widest = width;
    }
    *p = (page){.sheet = s, .scale = side < widest ? (widest + side - 1) / side : 1};
    p->columns = choose_columns(s->count);
    p->rows = (int)((s->count + p->columns - 1) / p->columns);
    const int image = s->width * p->scale;
    const int64_t cell_height = (int64_t)s->height * p->scale + SPACE + FONT_ROWS * LETTERS + GAP;
    p->cell_width = (image > widest ? image : widest) + GAP;
    const int title = font_width(s->title, LETTERS);
    int64_t width = (int64_t)p->columns * p->cell_width - GAP;
    if (width < title) width = title;
    width += 2 * MARGIN;
    const int64_t height = p->rows * cell_height + 2 * MARGIN + FONT_ROWS * LETTERS;
    if (width * height > MOST)
        return lks_fail(LKS_E_INVALID,
                        "the sheet would have %lld x %lld pixels, expected at most %d million; "
                        "choose a smaller --count",
                        (long long)width, (long long)height, MOST / 1000000);
    p->cell_height = (int)cell_height;
    p->width = (int)width;
    p->height = (int)height;
    return LKS_OK;
}

static void sheet_png_draw(page *p)
{
    const cli_sheet *s = p->sheet;
    memset(p->pixels, 255, (size_t)p->width * (size_t)p->height * RGB);
    p->ink = 40;
    font_draw(s->title, LETTERS, MARGIN, MARGIN, sheet_png_dot, p);
    p->ink = 90;
    for (int64_t i = 0; i < s->count; i++) {
        char text[SHEET_LABEL];
        const int left = MARGIN + (int)(i % p->columns) * p->cell_width;
        const int top = 2 * MARGIN + FONT_LINE * LETTERS + (int)(i / p->columns) * p->cell_height;
        const int room = p->cell_width - GAP;
        sheet_label(text, s, i);
        draw_image(p, i, left + (room - s->width * p->scale) / 2, top);
        font_draw(text, LETTERS, left + (room - font_width(text, LETTERS)) / 2,
                  top + s->height * p->scale + SPACE, sheet_png_dot, p);
    }
}

lks_status sheet_write_png(const cli_sheet *sheet, const char *path)
{
    page p;
    char *file;
    size_t bytes;
    lks_status status = lay_out(&p, sheet);
    if (status != LKS_OK) return status;
    p.pixels = malloc((size_t)p.width * (size_t)p.height * RGB);
    if (p.pixels == NULL)
        return lks_fail(LKS_E_NOMEM, "out of memory for a sheet of %d x %d pixels", p.width,
                        p.height);
    sheet_png_draw(&p);
    status = lki_png_encode(&file, &bytes, p.pixels, p.height, p.width, RGB);
    if (status == LKS_OK) status = text_write_bytes(path, file, bytes);
    free(file);
    free(p.pixels);
    return status;
}

#else

lks_status sheet_write_png(const cli_sheet *sheet, const char *path)
{
    (void)sheet;
    return lks_fail(LKS_E_UNSUPPORTED,
                    "%.200s cannot be written: this program was built without libpng; install it "
                    "(on Debian: apt-get install libpng-dev), then configure and build again",
                    path);
}

#endif
