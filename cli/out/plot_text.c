/* Curves in the terminal: two by four dots of braille in each character, or a letter. */
#include <math.h>
#include <string.h>

#include "cli/out/plot.h"
#include "cli/out/say.h"

enum { MAX_COLUMNS = 160, MAX_ROWS = 24, LABEL = 8, NOBODY = -1 };

typedef struct canvas {
    const plot_panel *panel;
    const plot_terminal *terminal;
    int columns, rows, across, down; /* characters; dots in each */
    unsigned char dots[MAX_ROWS][MAX_COLUMNS];
    int owner[MAX_ROWS][MAX_COLUMNS]; /* the style that drew there last, or NOBODY */
} canvas;

static void set_dot(canvas *c, int x, int y, int style)
{
    /* Bits of a character of braille, by row and column. */
    static const unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x < 0 || y < 0 || x >= c->columns * c->across || y >= c->rows * c->down) return;
    const int column = x / c->across, row = y / c->down;
    c->dots[row][column] |= bits[y % c->down][x % c->across];
    c->owner[row][column] = style;
}

static void plot_text_draw_line(canvas *c, const int from[2], const int to[2], int style)
{
    const int dx = to[0] - from[0], dy = to[1] - from[1];
    const int steps = (int)fmax(fmax(fabs((double)dx), fabs((double)dy)), 1);
    for (int i = 0; i <= steps; i++)
        set_dot(c, from[0] + (int)lround((double)dx * i / steps),
                from[1] + (int)lround((double)dy * i / steps), style);
}

/* Where a point stands, in dots from the upper left; false if nowhere. */
static bool find_point(const canvas *c, const plot_curve *curve, int i, int at[2])
{
    const double x = plot_place(&c->panel->x, curve->x[i]);
    const double y = plot_place(&c->panel->y, curve->y[i]);
    if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1)) return false;
    at[0] = (int)lround(x * (c->columns * c->across - 1));
    at[1] = (int)lround((1 - y) * (c->rows * c->down - 1));
    return true;
}

static void plot_text_draw_curve(canvas *c, const plot_curve *curve)
{
    int last[2], at[2];
    bool connected = false;
    for (int i = 0; i < curve->points; i++) {
        const bool found = find_point(c, curve, i, at);
        if (found) plot_text_draw_line(c, connected ? last : at, at, curve->style);
        connected = found;
        if (found) memcpy(last, at, sizeof last);
    }
}

/* The letters of the curves that end in this row; '+' for those that have no room. */
static void print_ends(FILE *out, const canvas *c, int row)
{
    enum { MOST = 6 };
    int found = 0;
    for (int k = 0; k < c->panel->curves; k++) {
        const plot_curve *curve = &c->panel->curve[k];
        int at[2], i = curve->points - 1;
        while (i >= 0 && !find_point(c, curve, i, at)) i--;
        if (i < 0 || at[1] / c->down != row) continue;
        if (found == MOST) continue;
        const bool full = ++found == MOST && k + 1 < c->panel->curves;
        fprintf(out, "%s%c", found == 1 ? " " : "", full ? '+' : plot_letter(curve->style));
    }
}

static void plot_text_set_colour(FILE *out, const canvas *c, int style)
{
    static const int codes[] = {34, 33, 32, 35, 36, 31};
    if (!c->terminal->colour) return;
    if (style == NOBODY)
        fputs("\033[0m", out);
    else
        fprintf(out, "\033[%dm", codes[style % 6]);
}

static void print_dots(FILE *out, const canvas *c, int row)
{
    int colour = NOBODY;
    for (int i = 0; i < c->columns; i++) {
        const unsigned dots = c->dots[row][i];
        const int owner = dots != 0 ? c->owner[row][i] : colour;
        if (owner != colour) plot_text_set_colour(out, c, owner);
        colour = owner;
        if (dots == 0)
            fputc(' ', out);
        else if (!c->terminal->unicode)
            fputc(plot_letter(owner), out);
        else /* U+2800 and the bits */
            fprintf(out, "\xe2%c%c", (int)(0xa0 | dots >> 6), (int)(0x80 | (dots & 63)));
    }
    if (colour != NOBODY) plot_text_set_colour(out, c, NOBODY);
}

/* The tick that belongs to a row or column, by its number among `count`; -1: none. */
static int tick_at(const plot_axis *axis, int number, int count, bool upwards)
{
    for (int t = 0; t < axis->ticks; t++) {
        const double place = plot_place(axis, axis->tick[t]);
        if ((int)lround((upwards ? 1 - place : place) * (count - 1)) == number) return t;
    }
    return -1;
}

/* About ten, such that every tick of a linear axis stands in a row of its own. */
static int rows_for(const plot_axis *axis)
{
    enum { USUAL = 10 };
    if (axis->log || axis->ticks < 2) return USUAL;
    const double intervals = (axis->high - axis->low) / (axis->tick[1] - axis->tick[0]);
    const int each = (int)lround(USUAL / intervals);
    const int rows = (int)lround(intervals * (each > 1 ? each : 1)) + 1;
    return rows < MAX_ROWS ? rows : MAX_ROWS;
}

static void print_bottom(FILE *out, const canvas *c)
{
    const bool unicode = c->terminal->unicode;
    char line[MAX_COLUMNS + 2 * TEXT_NUMBER_SIZE], number[TEXT_NUMBER_SIZE];
    fprintf(out, "%*s %s", LABEL, "", unicode ? "└" : "+");
    for (int i = 0; i < c->columns; i++) {
        const bool tick = tick_at(&c->panel->x, i, c->columns, false) >= 0;
        fputs(unicode ? tick ? "┬" : "─" : tick ? "+" : "-", out);
    }
    memset(line, ' ', sizeof line);
    int end = -1; /* of the last label: they may not touch */
    for (int t = 0; t < c->panel->x.ticks; t++) {
        const double place = plot_place(&c->panel->x, c->panel->x.tick[t]);
        plot_label(number, &c->panel->x, c->panel->x.tick[t]);
        const int length = (int)strlen(number);
        int at = (int)lround(place * (c->columns - 1)) - length / 2;
        if (at > c->columns - length) at = c->columns - length;
        if (at < 0) at = 0;
        if (at <= end || at + length > (int)sizeof line) continue;
        memcpy(line + at, number, (size_t)length);
        end = at + length;
    }
    if (end < 0) end = 0;
    fprintf(out, "\n%*s  %.*s  %s\n", LABEL, "", end, line, plot_x_name(c->panel));
}

plot_terminal plot_here(bool letters)
{
    enum { WIDEST = 110 };
    const int columns = say_columns();
    return (plot_terminal){.width = columns == 0       ? HELP_WIDTH
                                    : columns > WIDEST ? WIDEST
                                                       : columns,
                           .letters = letters,
                           .unicode = say_unicode(),
                           .colour = say_colour()};
}

void plot_print_text(FILE *out, const plot_panel *panel, const plot_terminal *terminal)
{
    enum { MARGIN = LABEL + 3, TITLE = sizeof "  epoch" - 1, NARROWEST = 10 };
    canvas c = {.panel = panel, .terminal = terminal, .rows = rows_for(&panel->y)};
    c.across = terminal->unicode ? 2 : 1;
    c.down = terminal->unicode ? 4 : 1;
    c.columns = terminal->width - MARGIN - TITLE; /* which has room for the letters, too */
    if (c.columns > MAX_COLUMNS) c.columns = MAX_COLUMNS;
    if (c.columns < NARROWEST) c.columns = NARROWEST;
    memset(c.owner, 0xff, sizeof c.owner);
    /* From the last to the first, so that the first is on top. */
    for (int i = panel->curves - 1; i >= 0; i--) plot_text_draw_curve(&c, &panel->curve[i]);
    fprintf(out, "%s%s\n", panel->title, panel->y.log ? ", logarithmic" : "");
    for (int row = 0; row < c.rows; row++) {
        char number[TEXT_NUMBER_SIZE] = "";
        const int tick = tick_at(&panel->y, row, c.rows, true);
        if (tick >= 0) plot_label(number, &panel->y, panel->y.tick[tick]);
        const char *bar = terminal->unicode ? tick >= 0 ? "┤" : "│" : tick >= 0 ? "+" : "|";
        fprintf(out, "%*s %s", LABEL, number, bar);
        print_dots(out, &c, row);
        if (terminal->letters) print_ends(out, &c, row);
        fputc('\n', out);
    }
    print_bottom(out, &c);
}
