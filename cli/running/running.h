/*
 * What runs: every rank of a training keeps a note, a small file that is mapped, so that a step costs a
 * few stores; `lockstep ps` and `lockstep stop` read them. Notes lie in a folder that is the user's alone, $LKS_RUNS or
 * /tmp/lockstep-<user's number>. A training goes on without a note where there can be none. across.h asks other hosts.
 */
#ifndef CLI_RUNNING_H
#define CLI_RUNNING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"

#define RUNNING_MAGIC "LKSRUN1"
enum { RUNNING_HOST = 128, RUNNING_PATH = 512 };

/* A note as it lies in its file, whose name is the number of the process. */
typedef struct running_note {
    char magic[8];
    int64_t process, start;  /* the kernel's: ticks from its own start to the process's */
    int64_t run;             /* the process of rank 0, */
    char lead[RUNNING_HOST]; /* and its host: the same for all ranks */
    int64_t rank, size;
    int64_t steps;              /* of the whole training; 0: not known */
    _Atomic int64_t step, rate; /* steps that are done; samples a second, of all ranks */
    _Atomic int64_t waited;     /* thousandths of this rank's steps, for others; -1: not known */
    char host[RUNNING_HOST], others[2 * RUNNING_HOST]; /* the rank's; those of other ranks */
    char folder[RUNNING_PATH];                         /* of checkpoints, from the root; "": none */
    char config[RUNNING_PATH];                         /* as it was typed */
    char device[32];
} running_note;

/* The writer's side; all zero keeps no note. */
typedef struct running {
    running_note *note; /* mapped; NULL: there is none */
    char *path;
    int64_t samples; /* since `clock` */
    double seconds, waited, clock;
} running;

/* Of a training that is about to begin. Collective. */
LKS_MUSTUSE lks_status running_begin(running *out, const cli_args *cli, lks_recipe *recipe);
void running_step(running *r, const lks_step_event *event);
void running_end(running *r);

/* The reader's side. */
typedef struct running_rank {
    running_note note; /* its texts end */
    int64_t resident;  /* bytes; -1: not known */
    const char *from;  /* the host that was asked for it; NULL: it is on this one */
} running_rank;

/* What it trains: its folder, or else its configuration. */
const char *running_what(const running_note *note);

typedef struct running_ranks {
    running_rank *rank;
    int count, room;
} running_ranks;

/* Room for one more, behind those that count. */
running_rank *running_next(running_ranks *list, cli_pool *pool);
/* Orders them by run and rank, each once, as this host has it where it does. */
void running_sort(running_ranks *list);
/* Whether this rank is of the same run as the one before it. */
bool running_goes_on(const running_ranks *list, int i);

/* Adds ranks that live on this host; notes of those that have ended are removed. */
LKS_MUSTUSE lks_status running_list(running_ranks *list, cli_pool *pool);

/* Whether a process runs this very program for this user; and whether it does so as `lockstep launch`, or as what
 * that starts to watch over a rank. */
bool running_is_ours(int64_t process);
bool running_is_launch(int64_t process);
bool running_is_watcher(int64_t process);

#endif
