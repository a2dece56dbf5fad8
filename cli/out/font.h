/* Letters for images: a font of our own, five pixels wide and nine high, of which two are below the
 * line, for UTF-8 of ASCII's and Latin-1's letters. What it does not have is drawn as a question mark. */
#ifndef CLI_FONT_H
#define CLI_FONT_H

#include <stdint.h>

enum { FONT_ROWS = 9, FONT_LINE = 7 };

/* Pixels of the text, with `scale` times `scale` for each of the font's. */
int font_width(const char *text, int scale);

/* Calls `dot` for each pixel of the font that is set, with its upper left corner. */
void font_draw(const char *text, int scale, int x, int y,
               void (*dot)(void *user, int x, int y, int size), void *user);

#endif
