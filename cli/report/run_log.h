/* The lines of `train --format json`, as a record that grows with every step. */
#ifndef CLI_RUN_LOG_H
#define CLI_RUN_LOG_H

#include <stdbool.h>

#include <jansson.h>

#include <lockstep/status.h>

typedef struct run_log {
    json_t *record; /* of what has been read; NULL: nothing has */
    long end;       /* of the lines that have been read, in bytes */
} run_log;

/* Whether a file begins as these lines do. */
bool run_log_is(const char *path);
/* Takes the whole lines that have come since the last time: those of a run that is started again go on. The record
 * has "epochs", "steps", and of "config" train.epochs and train.steps; further "last_step", the event of the last
 * step, "epoch_step", where the last epoch ended, "ranks", as they were told last, "workers", "train_samples" and "global_batch"; at the end
 * "finished" and "hash". */
LKS_MUSTUSE lks_status run_log_read(run_log *log, const char *path);
void run_log_clear(run_log *log);

#endif
