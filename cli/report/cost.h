/* The costs of a training as the toy network's program has them: a picture of characters and cost_history.csv. */
#ifndef CLI_REPORT_COST_H
#define CLI_REPORT_COST_H

#include <lockstep/status.h>

enum { COST_VALUES = 2000 }; /* the most that are kept */

typedef struct cost_history {
    int count;
    double value[COST_VALUES];
} cost_history;

void cost_add(cost_history *history, double value);
/* Prints the picture, if there is a value. */
void cost_plot(const cost_history *history);
lks_status cost_save(const cost_history *history);

#endif
