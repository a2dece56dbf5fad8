#include "cli/out/sheet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/data.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

enum { GAP = 2, WIDTH = 79, AT_LEAST = 5 }; /* images side by side, if there are so many */

typedef struct colour {
    int red, green, blue;
} colour;

typedef struct layout {
    const cli_sheet *sheet;
    int scale;         /* one column shows so many pixels side by side */
    int columns, rows; /* of one image, in characters */
    int row_scale;     /* one character shows so many pixels below each other */
    int abreast;
    bool true_colour;
} layout;

lks_status sheet_check_name(const char *what, const char *path)
{
    static const char *const others[] = {".jpg",  ".jpeg", ".gif", ".bmp", ".tif",
                                         ".tiff", ".webp", ".svg", ".pdf", NULL};
    if (path == NULL || !text_has_end(others, path)) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "%s: '%.300s' would be another kind of picture, but PNG is what is written; "
                    "expected a name that ends in .png",
                    what, path);
}

const char *sheet_label(char text[SHEET_LABEL], const cli_sheet *sheet, int64_t i)
{
    const int32_t label = sheet->labels[i];
    text[0] = '\0';
    if (label == LKS_NO_CLASS) return text;
    if (sheet->classes == NULL) {
        snprintf(text, SHEET_LABEL, "%d", (int)label);
        return text;
    }
    const char *name = sheet->classes[label];
    size_t bytes = strlen(name);
    if (bytes >= SHEET_LABEL) /* at the end of a character */
        for (bytes = SHEET_LABEL - 1; (name[bytes] & 0xc0) == 0x80;) bytes--;
    snprintf(text, SHEET_LABEL, "%.*s", (int)bytes, name);
    return text;
}

/* The mean of the pixels from row y and column x on, as far as there are any. */
static colour mean_of(const cli_sheet *s, int64_t image, int y, int x, int rows, int columns)
{
    const int last_y = y + rows < s->height ? y + rows : s->height;
    const int last_x = x + columns < s->width ? x + columns : s->width;
    const int step = s->channels == 3 ? 1 : 0; /* from red to green to blue */
    int64_t sum[3] = {0};
    for (int v = y; v < last_y; v++) {
        for (int u = x; u < last_x; u++) {
            const uint8_t *p = s->pixels + (((image * s->height + v) * s->width) + u) * s->channels;
            for (int k = 0; k < 3; k++) sum[k] += p[k * step];
        }
    }
    const int64_t count = (int64_t)(last_y - y) * (last_x - x);
    if (last_y <= y || last_x <= x) return (colour){0, 0, 0};
    return (colour){(int)(sum[0] / count), (int)(sum[1] / count), (int)(sum[2] / count)};
}

/* Among the 24 greys or the 6x6x6 colours of a terminal with 256. */
static int indexed(colour c)
{
    if (c.red != c.green || c.green != c.blue)
        return 16 + 36 * ((c.red * 5 + 127) / 255) + 6 * ((c.green * 5 + 127) / 255) +
               (c.blue * 5 + 127) / 255;
    if (c.red < 4) return 16;
    if (c.red > 246) return 231;
    const int grey = (c.red - 3) / 10;
    return 232 + (grey < 24 ? grey : 23);
}

/* `what` is 38 for the upper half of the character, 48 for what is behind it. */
static void sheet_set_colour(const layout *l, int what, colour c)
{
    if (l->true_colour)
        printf("\033[%d;2;%d;%d;%dm", what, c.red, c.green, c.blue);
    else
        printf("\033[%d;5;%dm", what, indexed(c));
}

static void print_blocks(const layout *l, int64_t image, int row)
{
    for (int column = 0; column < l->columns; column++) {
        const int y = row * l->row_scale, x = column * l->scale;
        sheet_set_colour(l, 38, mean_of(l->sheet, image, y, x, l->scale, l->scale));
        sheet_set_colour(l, 48, mean_of(l->sheet, image, y + l->scale, x, l->scale, l->scale));
        fputs("▀", stdout);
    }
    fputs("\033[0m", stdout);
}

static void print_letters(const layout *l, int64_t image, int row)
{
    static const char ink[] = " .:-=+*#%@";
    for (int column = 0; column < l->columns; column++) {
        const colour c = mean_of(l->sheet, image, row * l->row_scale, column * l->scale,
                                 l->row_scale, l->scale);
        const int grey = (299 * c.red + 587 * c.green + 114 * c.blue) / 1000;
        putchar(ink[grey * 10 / 256]);
    }
}

static void print_label(const layout *l, int64_t image)
{
    char text[SHEET_LABEL];
    sheet_label(text, l->sheet, image);
    const int all = text_length(text), length = all < l->columns ? all : l->columns;
    const int before = (l->columns - length) / 2;
    printf("%*s%.*s%*s", before, "", text_bytes(text, length), text, l->columns - length - before,
           "");
}

static layout choose_layout(const cli_sheet *sheet)
{
    const char *colours = getenv("COLORTERM");
    const int terminal = say_columns(), width = terminal > 0 ? terminal : WIDTH;
    const int wanted = sheet->count < AT_LEAST ? (int)sheet->count : AT_LEAST;
    layout l = {.sheet = sheet, .scale = 1};
    for (;; l.scale++) { /* as large as possible */
        l.columns = (sheet->width + l.scale - 1) / l.scale;
        if (wanted * (l.columns + GAP) - GAP <= width || l.columns == 1) break;
    }
    l.row_scale = 2 * l.scale; /* a character is twice as high as wide */
    l.rows = (sheet->height + l.row_scale - 1) / l.row_scale;
    l.abreast = (width + GAP) / (l.columns + GAP);
    if (l.abreast < 1) l.abreast = 1;
    l.true_colour = colours != NULL &&
                    (strcmp(colours, "truecolor") == 0 || strcmp(colours, "24bit") == 0);
    return l;
}

void sheet_print(const cli_sheet *sheet)
{
    const bool blocks = say_columns() > 0 && say_unicode();
    const layout l = choose_layout(sheet);
    say("%s\n", sheet->title);
    for (int64_t first = 0; first < sheet->count; first += l.abreast) {
        const int64_t end = first + l.abreast < sheet->count ? first + l.abreast : sheet->count;
        for (int row = 0; row <= l.rows; row++) { /* and the labels */
            for (int64_t image = first; image < end; image++) {
                if (image > first) printf("%*s", GAP, "");
                if (row == l.rows)
                    print_label(&l, image);
                else if (blocks)
                    print_blocks(&l, image, row);
                else
                    print_letters(&l, image, row);
            }
            putchar('\n');
        }
        if (end < sheet->count) putchar('\n');
    }
}
