#include "cli/out/plot.h"

#include <math.h>

/* Loss that falls to a 30th is seen on a logarithmic axis only. Values beyond the largest are not
 * drawn, and differences below the least not seen. */
static const double LOG_RATIO = 30, LARGEST = 1e30, LEAST = 1e-30;

typedef struct range {
    double low, high;
    int count;
} range;

static void include(range *r, double value)
{
    if (!(fabs(value) <= LARGEST)) return;
    if (r->count == 0 || value < r->low) r->low = value;
    if (r->count == 0 || value > r->high) r->high = value;
    r->count++;
}

/* 1, 2 or 5 times a power of ten: the least that is not below `least`. */
static double plot_round_up(double least)
{
    const double power = pow(10, floor(log10(least)));
    static const double steps[] = {1, 2, 5, 10};
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= least * (1 - 1e-9)) return steps[i] * power;
    return 10 * power;
}

static void add_tick(plot_axis *axis, double value)
{
    if (axis->ticks < PLOT_TICKS) axis->tick[axis->ticks++] = value;
}

/* Ticks at multiples of `step` within the axis. */
static void add_multiples(plot_axis *axis, double step)
{
    const double first = ceil(axis->low / step - 1e-9), last = floor(axis->high / step + 1e-9);
    for (int i = 0; i < PLOT_TICKS && first + i <= last; i++) add_tick(axis, (first + i) * step);
}

static void fit_epochs(plot_axis *axis, const range *r)
{
    enum { WANTED = 6 };
    *axis = (plot_axis){.low = r->low, .high = r->high};
    if (r->high - r->low < 1) {
        axis->low -= 1;
        axis->high += 1;
        add_tick(axis, r->low);
        return;
    }
    const double step = plot_round_up((r->high - r->low) / WANTED);
    add_multiples(axis, step < 1 ? 1 : step);
}

static void fit_linear(plot_axis *axis, const range *r, bool is_percent)
{
    enum { WANTED = 5 };
    double low = r->low, high = r->high;
    const double size = fmax(fabs(low), fabs(high));
    if (high - low <= fmax(size * 1e-6, LEAST)) { /* a level line, in the middle */
        const double pad = size > LEAST ? size / 10 : 1;
        low -= pad;
        high += pad;
    }
    const double step = plot_round_up((high - low) / WANTED);
    *axis = (plot_axis){.low = floor(low / step + 1e-9) * step,
                        .high = ceil(high / step - 1e-9) * step};
    if (is_percent) {
        axis->low = fmax(axis->low, 0);
        axis->high = fmin(axis->high, 100);
    }
    add_multiples(axis, step);
}

/* Ticks at 1, 2 and 5 times powers of ten, or where those are too many at powers alone, and then not
 * at all of them. */
static void fit_log(plot_axis *axis, const range *r)
{
    enum { MANY = 10 };
    static const double parts[] = {1, 2, 5};
    *axis = (plot_axis){
        .low = 1 / plot_round_up(1 / r->low), .high = plot_round_up(r->high), .log = true};
    const double decades = log10(axis->high / axis->low);
    const bool fine = decades <= (MANY - 1) / 3.0 + 1e-9;
    const int every = fine ? 1 : 1 + (int)decades / MANY;
    if (!fine) {
        axis->low = pow(10, floor(log10(axis->low) + 1e-9));
        axis->high = pow(10, ceil(log10(axis->high) - 1e-9));
    }
    const int first = (int)floor(log10(axis->low) + 1e-9);
    for (int decade = first; decade < first + 4 * PLOT_TICKS * every; decade += every) {
        for (int i = 0; i < (fine ? 3 : 1); i++) {
            const double value = parts[i] * pow(10, decade);
            if (value >= axis->low * (1 - 1e-9) && value <= axis->high * (1 + 1e-9))
                add_tick(axis, value);
        }
    }
}

bool plot_fit(plot_panel *panel)
{
    range x = {0}, y = {0};
    for (int c = 0; c < panel->curves; c++) {
        const plot_curve *curve = &panel->curve[c];
        for (int i = 0; i < curve->points; i++) {
            if (!(fabs(curve->y[i]) <= LARGEST)) continue;
            include(&x, curve->x[i]);
            include(&y, curve->y[i]);
        }
    }
    if (x.count == 0) return false;
    if (panel->x_log)
        fit_log(&panel->x, &x);
    else
        fit_epochs(&panel->x, &x);
    if (panel->may_log && y.low > LEAST && y.high / y.low >= LOG_RATIO)
        fit_log(&panel->y, &y);
    else
        fit_linear(&panel->y, &y, panel->is_percent);
    return true;
}

const char *plot_x_name(const plot_panel *panel)
{
    return panel->x_name != NULL ? panel->x_name : "epoch";
}

double plot_place(const plot_axis *axis, double value)
{
    if (axis->log) return log(value / axis->low) / log(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

const char *plot_label(char text[TEXT_NUMBER_SIZE], const plot_axis *axis, double tick)
{
    const double size = fmax(fabs(axis->low), fabs(axis->high));
    if (axis->log || axis->ticks < 2 || size >= 1e6 || size < 1e-4) {
        snprintf(text, TEXT_NUMBER_SIZE, "%.5g", tick);
        return text;
    }
    /* As many decimals as the step has, so that all labels have the same. */
    const int decimals = -(int)floor(log10(axis->tick[1] - axis->tick[0]) + 1e-9);
    snprintf(text, TEXT_NUMBER_SIZE, "%.*f", decimals > 0 ? decimals : 0, tick);
    return text;
}

char plot_letter(int style)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return letters[style % 52];
}
