/*
 * Starting the ranks of a training and watching over them. `lockstep launch` is one process that starts a
 * *starter* (mpiexec or srun); that starts, on every host, one *watcher* for each rank (this program again,
 * with --watch), and the watcher starts the rank:
 *
 *     launch -> mpiexec -> watcher of rank 0 -> lockstep train ...
 *                       -> watcher of rank 1 -> lockstep train ...
 *
 * A watcher binds its rank to its part of the host's cores, keeps its output, passes signals on and, when
 * the rank fails, writes lines to its standard error that the launcher reads (report.h). Each process
 * ends when the one before it does. run.c starts the ranks once, judge.c says how they ended, and again.c
 * starts them again after a death.
 */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include <signal.h>

#include "cli/cli.h"

enum { LAUNCH_RANKS = 1 << 20 };

typedef struct launch_host {
    const char *name;
    int slots;
} launch_host;

/* What starts ranks: a row of a table. */
typedef struct launch_starter {
    const char *name;     /* as --by has it */
    const char *module;   /* the module that its ranks load; NULL: that of any MPI */
    const char *tries[5]; /* programs, looked for in PATH; the last ones may be another MPI's */
    const char *sign;     /* what its --version says, to tell; NULL: its names are its own */
    int soft;             /* signals to it: ranks shall save and end (watchers get the same), */
    int hard;             /* they shall end at once, */
    int quit;             /* which watchers get as this, */
    int user;             /* and they shall get SIGUSR1 */
    double end_s;         /* how long it may take to end */
} launch_starter;

/* What a rendezvous does between an end and the next start. */
typedef struct launch_meeting {
    void *user;
    bool (*is_smaller)(void *user); /* whether a host has gone, without which it may go on */
    /* Decides who takes part; *code: not 0 where a signal has ended the waiting. */
    lks_status (*gather)(void *user, int *code);
} launch_meeting;

typedef struct launch_plan {
    cli_pool *pool;
    const launch_starter *starter;
    char *program; /* the starter's */
    int ranks, hosts;
    launch_host *host; /* none: this one */
    int workers;       /* 0: as many as a rank has cores */
    bool bind;
    const char *agent, *logs; /* NULL: none */
    char **rank;              /* what a rank is: program and arguments, NULL behind them */
    char **resumed;           /* and what it is after a restart; NULL: the same */
    bool own;     /* it is a program of the user's, of whose exit codes we know nothing */
    bool saves;   /* it leaves checkpoints */
    int restarts; /* at most */
    int orders;   /* where orders can be read; -1: nobody gives any */
    char token[17];
    bool meets;                    /* at a rendezvous, and so not by srun */
    bool crowded;                  /* more workers than cores on this host */
    const char *self;              /* this program */
    const launch_meeting *meeting; /* NULL: none */
} launch_plan;

/* "a:2,b:2"; `ranks` gets the sum. */
LKS_MUSTUSE lks_status launch_hosts(launch_host **out, int *count, int *ranks, cli_pool *pool,
                                    const char *text);
/* Whether it is a name that --hosts takes: none that a shell, or ssh, would take for something else. */
bool launch_is_host(const char *name);
/* Whether the module of an MPI is there, and where modules are looked for. */
bool launch_has_module(cli_pool *pool, const char *name);
const char *launch_module_places(cli_pool *pool);

/* The starter by its name, or NULL: inside a Slurm allocation srun, else that of the MPI whose module is
 * there; `own`: the ranks are no training, and need none. */
LKS_MUSTUSE lks_status launch_choose(launch_plan *plan, const char *name, bool own);

/* plan->starter by its name, whether it is installed here or not. */
LKS_MUSTUSE lks_status launch_name_starter(launch_plan *plan, const char *name);

/* The starter's command line, NULL behind it. */
char **launch_command(const launch_plan *plan);

/* What a rendezvous writes into plan->orders for launch_once(). */
enum {
    LAUNCH_LOST = 'l', /* a host is gone without which it cannot go on */
    LAUNCH_GROW = 'g', /* more hosts are there: ranks shall save and end, to go on with them */
};

typedef enum launch_cause {
    LAUNCH_OVER,  /* all have ended, and would end so again */
    LAUNCH_ASKED, /* somebody has asked us to stop */
    LAUNCH_DIED,  /* a rank, a host or MPI is gone */
    LAUNCH_GROWS, /* ranks have saved, for the hosts that have come */
} launch_cause;

typedef struct launch_end {
    launch_cause cause;
    int code; /* of the rank that failed first */
} launch_end;

/* Runs the ranks once; what went wrong has been said. */
LKS_MUSTUSE lks_status launch_once(const launch_plan *plan, launch_end *end);

/* Runs them, and after a death again, up to plan->restarts times. */
LKS_MUSTUSE lks_status launch_run(launch_plan *plan, int *code);

/* The watcher: runs plan->rank; returns the exit code for the starter. */
LKS_MUSTUSE lks_status launch_watch(const launch_plan *plan, int *code);

/* Whether an exit code says that the ranks have saved and ended, as one of them was asked to, by whomever: our own
 * program's says so. */
bool launch_is_stop(const launch_plan *plan, int code);

/* Where this process stands among those that a starter started; false: none did. */
typedef struct launch_place {
    int rank, ranks, local_rank, local_ranks;
} launch_place;
bool launch_get_place(launch_place *out);

#endif
