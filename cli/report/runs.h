/* Runs side by side, as `lockstep report` shows them: from records to tables and curves. */
#ifndef CLI_RUNS_H
#define CLI_RUNS_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/out/plot.h"

enum { RUNS_MOST = 50 };

typedef enum run_series {
    RUN_TRAIN_LOSS,
    RUN_VALID_LOSS,
    RUN_TEST_LOSS,
    RUN_VALID_ACCURACY, /* percent */
    RUN_TEST_ACCURACY,
    RUN_SERIES
} run_series;

typedef struct cli_run {
    const char *name; /* clean; no other run of the report has it */
    json_t *record;
    plot_curve curve[RUN_SERIES]; /* epochs without a value are left out */
} cli_run;

typedef enum run_column {
    RUN_NAME,
    RUN_DATA,
    RUN_MODEL,
    RUN_WORKERS,
    RUN_REPLICAS,
    RUN_BATCH,
    RUN_OPTIMIZER,
    RUN_LR,
    RUN_EPOCHS,
    RUN_VALID_BEST,
    RUN_VALID_LAST,
    RUN_VALID_PERPLEXITY,
    RUN_BEST,
    RUN_FINAL,
    RUN_TOP5,
    RUN_F1,
    RUN_LOSS,
    RUN_PERPLEXITY,
    RUN_SPEED,
    RUN_TIME,
    RUN_HASH,
    RUN_COLUMNS
} run_column;

typedef struct run_cell {
    const char *text; /* clean; "-" where it is not known */
    double number;    /* to sort by; NaN: sort by the text */
} run_cell;

/* Something in which not all runs are equal, or that all have: a setting, or "version". */
typedef struct run_setting {
    const char *key;
    const char **text; /* of each run; "-": it has none */
    bool differs;
} run_setting;

typedef struct cli_runs {
    cli_pool pool;
    int count;
    cli_run run[RUNS_MOST];
    run_cell cell[RUNS_MOST][RUN_COLUMNS];
    int settings, differing;
    run_setting *setting;
    int same;              /* groups of runs that ended with the same bits */
    const char **same_run; /* their names, "a, b" */
    int panels;            /* those that have curves */
    plot_panel panel[RUN_SERIES];
    plot_curve curve[RUN_SERIES][RUNS_MOST];
    const char *name[RUNS_MOST];
} cli_runs;

extern const char *const run_titles[RUN_COLUMNS];
bool run_column_is_number(run_column column);
/* Whether any run has something there. */
bool run_column_is_used(const cli_runs *runs, run_column column);

/* Reads records, which have these names, or NULL: those of their files. Clear it also after a failure. */
LKS_MUSTUSE lks_status runs_read(cli_runs *out, int count, char **paths, const char *const *names);
/* One run from a record that is there, whose name is that of a file. */
void runs_take(cli_runs *out, json_t *record, char *path);
void runs_clear(cli_runs *runs);

/* A setting of a run; NULL: it has none. The number of a field, or NaN. */
const json_t *runs_setting_of(const cli_run *run, const char *section, const char *key);
double runs_number_of(const json_t *object, const char *key);
/* "12 min 03 s". */
const char *runs_time(cli_pool *pool, double seconds);

/* Tables and curves on standard output. */
void runs_print(const cli_runs *runs, cli_pool *pool);
/* Of the test, by target or class, on a page of HTML; NULL: on standard output. */
void runs_print_scores(const cli_runs *runs, cli_pool *pool, FILE *page);
/* --svg and --html: that they can be written, and then these files. */
LKS_MUSTUSE lks_status runs_check_files(const cli_args *cli);
LKS_MUSTUSE lks_status runs_write_files(const cli_args *cli, const cli_runs *runs);

/* The whole page. */
void runs_print_html(FILE *out, const cli_runs *runs);

#endif
