/* One start of the ranks, as the launcher sees it: what run.c finds out and judge.c says. */
#ifndef CLI_LAUNCH_WATCHING_H
#define CLI_LAUNCH_WATCHING_H

#include "cli/launch/launch.h"
#include "cli/launch/report.h"

typedef struct launch_failure {
    launch_report end;
    char *lines[TAIL_LINES];
    int count;
} launch_failure;

typedef struct launch_watching {
    const launch_plan *plan;
    launch_sorter sorter;
    int output, said, signals; /* errors and standard output of the starter, and so of ranks */
    bool mute;                 /* our own standard output takes no more */
    pid_t starter;
    int status;
    bool ended;
    int begun;                /* ranks that have been started */
    int soft;                 /* what the starter gets as soon as all have; 0: nothing */
    int asked, times;         /* the first signal that asked us to stop, and how often */
    bool lost;                /* a host is */
    bool named;               /* a loss has been said, */
    int missed;               /* of this rank */
    bool grows;               /* ranks were asked to end so that there can be more */
    bool stopped;             /* a rank has ended as it was asked to */
    int stop;                 /* by what */
    launch_failure *failed;   /* reported so far; lines come before their end */
    int failures, room, ends; /* how many have ended in failure, or as they were asked to */
    double hard_at, kill_at;  /* when to end and to kill the starter; 0: not */
    double soft_at; /* while not all ranks have been started: when to end it without `soft` */
} launch_watching;

/* Says why it has ended, where that was not to be. */
launch_end launch_judge(const launch_watching *w);

#endif
