/* lockstep sweep: a training for every point of a grid of settings. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include <sys/types.h>

#include "cli/cli.h"

/* A key of the configuration and the values that it is to have. */
typedef struct sweep_axis {
    const char *key;
    int values;
    const char **value;
} sweep_axis;

typedef enum sweep_state {
    SWEEP_WAITS,
    SWEEP_RUNS,
    SWEEP_FINISHED,
    SWEEP_DIVERGED, /* the loss was no number any more: a result */
    SWEEP_STOPPED,  /* by a signal; it can be continued */
    SWEEP_FAILED
} sweep_state;

/* A training, as a process of its own that writes below its folder. */
typedef struct sweep_run {
    const char *name;   /* "lr=0.1,batch_size=64" */
    const char **value; /* of each axis */
    const char *folder; /* checkpoints, */
    char *record;       /* run.json there, */
    const char *log;    /* and log.txt: what it said */
    json_t *config;     /* what it trains */
    int workers;        /* 0: as its configuration says */
    sweep_state state;
    pid_t process;
    double began, seconds;
    int code; /* it ended with */
} sweep_run;

typedef struct sweep_plan {
    const cli_args *cli;
    const char *folder;
    int axes, count;
    sweep_axis *axis;
    sweep_run *run;
    int jobs; /* at once */
} sweep_plan;

/* The grid and its runs, checked: each has a configuration that can be taken, and the records that are there are of
 * the same. sweep_clear() it in any case. */
LKS_MUSTUSE lks_status sweep_plan_make(sweep_plan *out, const cli_args *cli);
void sweep_clear(sweep_plan *plan);
int sweep_count(const sweep_plan *plan, sweep_state state);

/* Runs what waits, so many at once. *signal: what it was stopped by, or 0. */
LKS_MUSTUSE lks_status sweep_run_all(sweep_plan *plan, int *signal);

#endif
