#include "cli/report/cost.h"

#include <stdio.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

enum { ROWS = 20, COLUMNS = 60, LABELS = 5 };
static const char file_name[] = "cost_history.csv";

void cost_add(cost_history *history, double value)
{
    if (history->count < COST_VALUES) history->value[history->count++] = value;
}

static void limits(const cost_history *history, double *least, double *most)
{
    *least = *most = history->value[0];
    for (int i = 1; i < history->count; i++) {
        if (history->value[i] < *least) *least = history->value[i];
        if (history->value[i] > *most) *most = history->value[i];
    }
}

/* The row of each column, from 0 at the most to the last at the least: of several values in a column the lowest. Columns
 * without a value, where there are fewer values, have -1. */
static void place_rows(const cost_history *history, double least, double most, int row[COLUMNS])
{
    const double range = most > least ? most - least : 1;
    for (int c = 0; c < COLUMNS; c++) row[c] = -1;
    for (int i = 0; i < history->count; i++) {
        const int c = 1 + (int)((int64_t)i * (COLUMNS - 2) /
                                (history->count > 1 ? history->count - 1 : 1));
        const int r = (int)((most - history->value[i]) / range * (ROWS - 2) + 0.5);
        if (r > row[c]) row[c] = r;
    }
}

static void draw(char line[ROWS][COLUMNS + 1], const int row[COLUMNS])
{
    memset(line, ' ', ROWS * (COLUMNS + 1));
    for (int r = 0; r < ROWS; r++) {
        line[r][0] = '|';
        line[r][COLUMNS] = '\0';
    }
    memset(line[ROWS - 1], '-', COLUMNS);
    int before = -1;
    for (int c = 1; c < COLUMNS; c++) {
        if (row[c] < 0) continue;
        const int low = before < row[c] ? before : row[c], high = before < row[c] ? row[c] : before;
        for (int r = low + 1; before >= 0 && r < high; r++) line[r][c] = '|';
        line[row[c]][c] = '*';
        before = row[c];
    }
}

void cost_plot(const cost_history *history)
{
    char line[ROWS][COLUMNS + 1], end[200] = "", labels[LABELS * 12 + 1] = "";
    int row[COLUMNS];
    double least, most;
    if (history->count == 0) return;
    limits(history, &least, &most);
    place_rows(history, least, most, row);
    draw(line, row);
    say("\nCost Function Over Epochs");
    say("%8.4f ┐", most);
    for (int r = 0; r < ROWS; r++) say("         %s", line[r]);
    for (int i = 0; i < 50; i++) strcat(end, "─");
    say("%8.4f ┴%s %d epochs", least, end, history->count);
    for (int i = 0; i < LABELS; i++)
        snprintf(labels + 12 * i, 13, "%-12d", i * history->count / (LABELS - 1));
    say("          %s", labels);
}

static void print_costs(FILE *out, const void *user)
{
    const cost_history *history = user;
    fputs("epoch,cost\n", out);
    for (int i = 0; i < history->count; i++) fprintf(out, "%d,%.6f\n", i, history->value[i]);
}

lks_status cost_save(const cost_history *history)
{
    const lks_status status = text_write_file(file_name, print_costs, history);
    if (status == LKS_OK) say("Cost history saved to '%s'", file_name);
    return status;
}
