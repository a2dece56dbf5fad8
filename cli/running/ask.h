/* This program on other hosts, which are reached as `lockstep launch` reaches them. */
#ifndef CLI_RUNNING_ASK_H
#define CLI_RUNNING_ASK_H

#include "cli/cli.h"

typedef struct ask_host {
    const char *name;
    char *answer; /* what it has printed: so many bytes, and a 0 behind them */
    size_t bytes;
    const char *failed; /* why there is none, for people; NULL: it has answered */
} ask_host;

/* Runs `lockstep WORDS` on all of them at the same time, and ends what takes longer than this. */
void ask_hosts(const cli_args *cli, ask_host *host, int count, char *const *words, double seconds);

#endif
