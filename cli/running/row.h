/* A rank as a line of `lockstep ps --format json`. */
#ifndef CLI_RUNNING_ROW_H
#define CLI_RUNNING_ROW_H

#include "cli/running/running.h"

json_t *row_write(cli_pool *pool, const running_rank *rank);

/* Takes the lines that another host has answered; false: they are none, and nothing of them is taken. */
bool row_read(running_ranks *list, const char *answer, size_t bytes, const char *from,
              cli_pool *pool);

/* The share of its steps in which it waits for other ranks; NaN: not known. */
double row_waited(const running_note *note);

#endif
