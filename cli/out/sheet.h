/* Images side by side with a label below each, in a terminal or as a PNG file. */
#ifndef CLI_SHEET_H
#define CLI_SHEET_H

#include <stdint.h>

#include <lockstep/status.h>

typedef struct cli_sheet {
    const char *title;
    int64_t count;
    int height, width, channels; /* 3 channels are red, green, blue; else the first is shown */
    const uint8_t *pixels;       /* [count][height][width][channels] */
    const int32_t *labels;       /* [count]; LKS_NO_CLASS: it has none */
    const char *const *classes;  /* their names; NULL: they are numbers */
} cli_sheet;

enum { SHEET_LABEL = 32 };
const char *sheet_label(char text[SHEET_LABEL], const cli_sheet *sheet, int64_t i);

/* On standard output: with colours and half blocks on a terminal that has them (24-bit colours where
 * COLORTERM says so), else with letters. */
void sheet_print(const cli_sheet *sheet);

/* LKS_E_INVALID where the name of `what`, an option, is that of another kind of picture; any other may be a PNG file's.
 * NULL path: nothing is asked for. */
LKS_MUSTUSE lks_status sheet_check_name(const char *what, const char *path);
/* LKS_E_UNSUPPORTED in a build without libpng. The file appears whole or not at all. */
LKS_MUSTUSE lks_status sheet_write_png(const cli_sheet *sheet, const char *path);

#endif
