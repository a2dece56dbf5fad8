/* Curves as SVG: colours, dashes and markers, so that they can be told apart on grey paper too. */
#include <math.h>
#include <string.h>

#include "cli/out/plot.h"

/* Pixels. */
enum {
    PANEL = 256,
    HEIGHT = 190,
    LEFT = 54,
    RIGHT = 18,
    TOP = 36,
    BOTTOM = 46,
    ENTRY = 20,
    SWATCH = 30,
    ACROSS = 3,  /* panels beside each other */
    MARKED = 24, /* points of a curve, at most, that each get a marker */
    LONGEST = 44 /* characters of a name in the legend */
};
static const double LETTER = 6.7; /* wide, at 12 pixels, as a mean */

/* Okabe and Ito's colours, which colour-blind people can tell apart (Color Universal Design,
 * 2008): darker for white paper, lighter for a dark page. */
static const char style_sheet[] =
    ".lks-plot{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}\n"
    ".lks-plot .paper{fill:#fff}\n"
    ".lks-plot text{fill:#333}\n"
    ".lks-plot .title{font-size:13px;font-weight:600;fill:#111}\n"
    ".lks-plot .grid{stroke:#e4e4e4;fill:none}\n"
    ".lks-plot .axis{stroke:#666;fill:none}\n"
    ".lks-plot .curve{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}\n"
    ".lks-plot .marker{stroke-width:1.2}\n"
    ".lks-plot .s0{stroke:#0072b2}.lks-plot .s1{stroke:#d55e00}.lks-plot .s2{stroke:#009e73}\n"
    ".lks-plot .s3{stroke:#b5508f}.lks-plot .s4{stroke:#c28a00}.lks-plot .s5{stroke:#3fa0d8}\n"
    ".lks-plot .s6{stroke:#444}.lks-plot .s7{stroke:#7a5aa6}\n"
    ".lks-plot .m0{fill:#0072b2}.lks-plot .m1{fill:#d55e00}.lks-plot .m2{fill:#009e73}\n"
    ".lks-plot .m3{fill:#b5508f}.lks-plot .m4{fill:#c28a00}.lks-plot .m5{fill:#3fa0d8}\n"
    ".lks-plot .m6{fill:#444}.lks-plot .m7{fill:#7a5aa6}\n"
    "@media screen and (prefers-color-scheme:dark){\n"
    ".lks-plot .paper{fill:#16181d}\n"
    ".lks-plot text{fill:#c9ccd3}.lks-plot .title{fill:#eceef2}\n"
    ".lks-plot .grid{stroke:#2d3139}.lks-plot .axis{stroke:#8b909b}\n"
    ".lks-plot .s0{stroke:#4fb0f0}.lks-plot .s1{stroke:#ff8a47}.lks-plot .s2{stroke:#3ccb9f}\n"
    ".lks-plot .s3{stroke:#ea8fc6}.lks-plot .s4{stroke:#f2bd4b}.lks-plot .s5{stroke:#9ad7ff}\n"
    ".lks-plot .s6{stroke:#d0d0d0}.lks-plot .s7{stroke:#b79be6}\n"
    ".lks-plot .m0{fill:#4fb0f0}.lks-plot .m1{fill:#ff8a47}.lks-plot .m2{fill:#3ccb9f}\n"
    ".lks-plot .m3{fill:#ea8fc6}.lks-plot .m4{fill:#f2bd4b}.lks-plot .m5{fill:#9ad7ff}\n"
    ".lks-plot .m6{fill:#d0d0d0}.lks-plot .m7{fill:#b79be6}\n"
    "}\n";

/* The class of a line, and its dashes when the colours have been used up. */
static void print_line_style(FILE *out, int style)
{
    static const char *const dashes[] = {NULL, "7 4", "2 4", "9 4 2 4"};
    fprintf(out, " class=\"curve s%d\"", style % 8);
    const char *dash = dashes[style / 8 % 4];
    if (dash != NULL) fprintf(out, " stroke-dasharray=\"%s\"", dash);
}

/* A circle, square, diamond or triangle. */
static void print_marker(FILE *out, int style, double x, double y)
{
    static const char *const shapes[] = {
        "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
        "m-2.9 -2.9h5.8v5.8h-5.8z",
        "m0 -4l4 4l-4 4l-4 -4z",
        "m0 -3.8l3.9 6.6h-7.8z",
    };
    fprintf(out, "<path class=\"marker m%d\" d=\"M%.1f %.1f%s\"", style % 8, x, y,
            shapes[style % 4]);
}

static double x_of(const plot_panel *p, double value)
{
    return PANEL * plot_place(&p->x, value);
}

static double y_of(const plot_panel *p, double value)
{
    return HEIGHT * (1 - plot_place(&p->y, value));
}

static bool plot_svg_is_drawn(const plot_panel *p, double y)
{
    const double place = plot_place(&p->y, y);
    return place >= -1e-9 && place <= 1 + 1e-9;
}

static void print_axes(FILE *out, const plot_panel *p)
{
    char label[TEXT_NUMBER_SIZE];
    for (int t = 0; t < p->y.ticks; t++) {
        const double y = y_of(p, p->y.tick[t]);
        fprintf(out,
                "<path class=\"grid\" d=\"M0 %.1fH%d\"/>"
                "<text x=\"-8\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                y, PANEL, y + 4, plot_label(label, &p->y, p->y.tick[t]));
    }
    fprintf(out, "<path class=\"axis\" d=\"M0 0V%dH%d\"/>\n", HEIGHT, PANEL);
    for (int t = 0; t < p->x.ticks; t++) {
        const double x = x_of(p, p->x.tick[t]);
        fprintf(out,
                "<path class=\"axis\" d=\"M%.1f %dv4\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x, HEIGHT, x, HEIGHT + 17, plot_label(label, &p->x, p->x.tick[t]));
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", PANEL / 2,
            HEIGHT + 35, plot_x_name(p));
    fputs("<text class=\"title\" x=\"0\" y=\"-14\">", out);
    text_print_xml(out, p->title);
    fputs(p->y.log ? " (logarithmic)</text>\n" : "</text>\n", out);
}

/* How many of the curves above this one are the same; no more than can be shown. */
static int count_same(const plot_panel *p, int number)
{
    const plot_curve *curve = &p->curve[number];
    int same = 0;
    for (int c = 0; c < number; c++) {
        const plot_curve *above = &p->curve[c];
        const size_t bytes = (size_t)curve->points * sizeof *curve->y;
        same += above->points == curve->points && memcmp(above->y, curve->y, bytes) == 0 &&
                memcmp(above->x, curve->x, bytes) == 0;
    }
    return same < 4 ? same : 4;
}

/* Curves with the same bits lie on each other: those below are wider, so that all are seen. */
static void print_curve(FILE *out, const plot_panel *p, int number)
{
    const plot_curve *curve = &p->curve[number];
    const int same = count_same(p, number);
    bool connected = false;
    fputs("<path", out);
    print_line_style(out, curve->style);
    if (same > 0) fprintf(out, " style=\"stroke-width:%.1f\"", 1.8 + 3.4 * same);
    fputs(" d=\"", out);
    for (int i = 0; i < curve->points; i++) {
        const bool drawn = plot_svg_is_drawn(p, curve->y[i]);
        if (drawn)
            fprintf(out, "%c%.1f %.1f", connected ? 'L' : 'M', x_of(p, curve->x[i]),
                    y_of(p, curve->y[i]));
        connected = drawn;
    }
    fputs("\"/>\n", out);
    if (curve->points > MARKED || same > 0) return;
    for (int i = 0; i < curve->points; i++) {
        if (!plot_svg_is_drawn(p, curve->y[i])) continue;
        print_marker(out, curve->style, x_of(p, curve->x[i]), y_of(p, curve->y[i]));
        fputs("><title>", out);
        text_print_xml(out, curve->name);
        fprintf(out, ", %s %g: %.5g</title></path>\n", plot_x_name(p), curve->x[i], curve->y[i]);
    }
}

/* A name as the legend has it, and how wide that is. */
static double print_name(FILE *out, const char *name)
{
    const int length = text_length(name);
    const bool cut = length > LONGEST;
    if (out != NULL) {
        char part[4 * LONGEST + 1];
        snprintf(part, sizeof part, "%.*s", text_bytes(name, cut ? LONGEST - 1 : LONGEST), name);
        text_print_xml(out, part);
        if (cut) fputs("\u2026", out);
    }
    return LETTER * (cut ? LONGEST : length);
}

/* Prints the legend, or with NULL measures it: returns how many rows it has. */
static int print_legend(FILE *out, const plot_figure *f, double width)
{
    double x = 0;
    int row = 0;
    for (int i = 0; i < f->names; i++) {
        const double entry = SWATCH + print_name(NULL, f->name[i]) + 22;
        if (x > 0 && x + entry > width) {
            x = 0;
            row++;
        }
        if (out != NULL) {
            const double y = row * ENTRY;
            fputs("<path", out);
            print_line_style(out, i);
            fprintf(out, " d=\"M%.1f %.1fh24\"/>", x, y);
            print_marker(out, i, x + 12, y);
            fprintf(out, "/><text x=\"%.1f\" y=\"%.1f\">", x + SWATCH, y + 4);
            print_name(out, f->name[i]);
            fputs("</text>\n", out);
        }
        x += entry;
    }
    return row + 1;
}

void plot_print_svg(FILE *out, const plot_figure *f)
{
    const int across = f->panels < ACROSS ? f->panels : ACROSS;
    const int each = LEFT + PANEL + RIGHT, width = each * across;
    const int row = TOP + HEIGHT + BOTTOM, plot = row * ((f->panels + ACROSS - 1) / ACROSS);
    const double inner = width - LEFT - RIGHT;
    const int height = plot + print_legend(NULL, f, inner) * ENTRY + 8;
    fprintf(out,
            "<svg%s class=\"lks-plot\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "role=\"img\" aria-label=\"Curves\">\n<style>\n%s</style>\n"
            "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n",
            f->whole ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", width, height, width, height,
            style_sheet, width, height);
    for (int i = 0; i < f->panels; i++) {
        const plot_panel *panel = &f->panel[i];
        fprintf(out, "<g transform=\"translate(%d %d)\">\n", LEFT + i % ACROSS * each,
                i / ACROSS * row + TOP);
        print_axes(out, panel);
        for (int c = panel->curves - 1; c >= 0; c--) print_curve(out, panel, c);
        fputs("</g>\n", out);
    }
    fprintf(out, "<g transform=\"translate(%d %d)\">\n", LEFT, plot + 6);
    print_legend(out, f, inner);
    fputs("</g>\n</svg>\n", out);
}
