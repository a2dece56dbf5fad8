/* What `lockstep watch` looks at: the file of a run, or a folder of such files. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <sys/stat.h>

#include "cli/report/run_log.h"
#include "cli/report/runs.h"

typedef struct view {
    char *path;
    bool live;           /* on a terminal: drawn again in its place, until the run ends */
    bool there;          /* the file has been read, */
    struct stat as_read; /* being this, */
    cli_runs *runs;      /* into the one run of these; */
    run_log log;         /* has a record where the file has the lines of steps */
    int drawn;           /* rows of the terminal */
} view;

typedef struct progress { /* NaN: not known */
    double epochs, step, steps;
    double each; /* seconds of an epoch, with its tests */
    double left; /* seconds */
    double age;  /* of the record, in seconds */
    bool finished;
} progress;

/* Reads the file, if it has changed. Where it is not there yet, or empty, a terminal waits for it. */
LKS_MUSTUSE lks_status view_read(view *v);
void view_clear(view *v);
progress view_progress(const view *v);
/* Whether a run that has not ended says nothing any more. */
bool view_is_overdue(const progress *p);

/* Of a record with several processes: the mean share of steps in which they wait for others, NaN where it is not known;
 * the memory of all, in bytes; and a row for each, or for those that wait the least. */
double watch_waited(const json_t *record);
double watch_memory(const json_t *record);
void watch_print_ranks(FILE *out, const json_t *record, cli_pool *pool, int width);

/* A line for each run whose record lies in the folder or in one below it. */
LKS_MUSTUSE lks_status watch_folder(const cli_args *cli, const char *folder);

#endif
