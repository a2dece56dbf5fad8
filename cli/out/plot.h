/* Curves, mostly over epochs: axes with round numbers, for the terminal and as SVG. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/out/text.h"

enum { PLOT_TICKS = 12 };

typedef struct plot_curve {
    const char *name; /* clean text */
    int style;        /* which colour, dashes, marker and letter */
    int points;       /* x ascending; a y of NaN breaks the line */
    const double *x, *y;
} plot_curve;

typedef struct plot_axis {
    double low, high; /* low < high */
    bool log;
    int ticks;
    double tick[PLOT_TICKS]; /* ascending, within low and high */
} plot_axis;

typedef struct plot_panel {
    const char *title;
    const char *x_name; /* what x is; NULL: epoch */
    bool x_log;         /* logarithmic: every x is above 0 */
    bool may_log;       /* logarithmic where values span much */
    bool is_percent;    /* the axis stays within 0 and 100 */
    int curves;
    const plot_curve *curve;
    plot_axis x, y; /* by plot_fit() */
} plot_panel;

/* Chooses the axes. False when there is nothing to draw. */
bool plot_fit(plot_panel *panel);

const char *plot_x_name(const plot_panel *panel);

/* Where a value stands between the ends of an axis: 0 to 1 for those within. */
double plot_place(const plot_axis *axis, double value);

/* The label of a tick. */
const char *plot_label(char text[TEXT_NUMBER_SIZE], const plot_axis *axis, double tick);

/* The letter of a style in the terminal: a to z, then A to Z. */
char plot_letter(int style);

typedef struct plot_terminal {
    int width;    /* columns in all */
    bool letters; /* behind the ends of the curves, to tell them apart */
    bool unicode, colour;
} plot_terminal;

/* That of standard output, as far as it has up to 110 columns; 80 where it is none. */
plot_terminal plot_here(bool letters);

/* In braille, about ten rows; or in ASCII, drawn with the letters of the curves. */
void plot_print_text(FILE *out, const plot_panel *panel, const plot_terminal *terminal);

/* Panels, three side by side, above one legend, which has an entry for each of `names`. With `whole`, a
 * document of its own; else a part of a page of HTML. */
typedef struct plot_figure {
    int panels;
    const plot_panel *panel;
    int names; /* style i has name i; clean text */
    const char *const *name;
    bool whole;
} plot_figure;
void plot_print_svg(FILE *out, const plot_figure *figure);

#endif
