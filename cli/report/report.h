/* What a training prints while it runs: lines, JSON, CSV, or a progress bar, which goes when anything
 * else is said. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <lockstep/trainer.h>

#include <jansson.h>

#include <lockstep/tools.h>

#include "cli/report/cost.h"

typedef enum report_format {
    REPORT_TEXT,
    REPORT_JSON,      /* an object a line, for each event */
    REPORT_CSV,       /* the same as a table: a line for each event but the start */
    REPORT_LIGHTNING, /* text that begins as PyTorch Lightning does */
    REPORT_DDP, /* text that begins with the configuration, and ends epochs with a block of results */
    REPORT_SC20,       /* text in the words of NERSC's tutorial, of steps speed alone */
    REPORT_ITERATIONS, /* text, but of steps the loss alone, and at the end a plot of it */
} report_format;

/* What is learned. */
typedef enum report_targets { REPORT_NUMBERS, REPORT_CLASSES, REPORT_TOKENS } report_targets;
report_targets report_targets_of(const lks_dataset_info *info);

typedef struct cli_report {
    bool quiet;
    report_format format;
    bool lines; /* print a line every `interval` batches */
    bool bar;   /* draw the progress bar */
    report_targets targets;
    int64_t interval, batch_size, samples;
    int64_t epochs; /* of the whole run */
    int64_t last_step;
    double step_clock; /* when the last step ended */
    double line_clock; /* since when line_samples counts: the last line, or the end of an epoch */
    int64_t line_samples; /* or tokens, */
    double draw_clock;    /* when the bar was drawn */
    double part_clock;    /* since when part_* count: the last drawing, or the end of an epoch */
    int64_t part_samples, part_rated; /* of which the second are tokens where there are some */
    double part_loss;                 /* sum over the samples */
    double rate, sample_rate, loss;   /* smoothed over about two seconds */
    cost_history costs;               /* of iterations */
    const lks_recipe *recipe;         /* that is reported */
} cli_report;

/* Of a run that is started. */
void report_begin(cli_report *out, const lks_recipe *recipe, const lks_recipe_parts *parts);
/* An event for programs, whose object is taken over; other formats than JSON and CSV leave it out. */
void report_event(const cli_report *report, json_t *event);
void report_step(cli_report *report, const lks_step_event *event);
void report_epoch(cli_report *report, const lks_epoch *epoch);
/* The last line: "hash <16 digits> step <n>", or the event "end". */
void report_end(const cli_report *report, const lks_run *run);

/* Lines for people on steps and tests. */
bool report_is_text(report_format format);

/* "Test set: Average loss: ..." with an empty line before it, and after it if it is the `last`. */
void report_test(const char *what, const lks_metrics *metrics, report_targets targets, bool last);

#endif
