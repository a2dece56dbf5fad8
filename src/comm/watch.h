/*
 * Who is still there: a thread in each rank that says so every quarter of a period, beside what the
 * transport carries, and never calls it.
 *
 *   rank 1  --- step, phase ---->
 *           <--- step, phase ----  rank 0: has the table,
 *   rank 2  --- step, phase ---->          says who is lost
 *           <--- step, phase ----
 *
 * A connection that ends without a goodbye is a process that has ended; one on which nothing comes for a
 * period, one that is stopped or cut off. The first such loss goes to all ranks, and stays.
 */
#ifndef LKI_COMM_WATCH_H
#define LKI_COMM_WATCH_H

#include <stdatomic.h>

#include "comm/door.h"

#include <lockstep/status.h>

typedef struct lki_watch lki_watch;

/* Where this rank is; whoever calls the communicator writes it, and the watch reads. */
typedef struct lki_spot {
    _Atomic int64_t step;        /* 0: none */
    _Atomic(const char *) phase; /* a static string, what it waits for; NULL: it computes */
} lki_spot;

typedef enum lki_end {
    LKI_END_PROCESS, /* it has ended */
    LKI_END_SILENCE, /* nothing comes */
    LKI_END_PARENT,  /* what has started it has ended */
} lki_end;

typedef struct lki_loss {
    int32_t rank, how;
    double silent_s;
    int64_t step;
    char phase[40]; /* "": it computed */
} lki_loss;

typedef struct lki_watch_opts {
    int rank, size;
    double period_s; /* rank 0's counts; below 0: nobody watches */
    bool near;       /* all ranks are on this machine */
    bool child;      /* it was started by a launcher, and ends with it */
    const lki_spot *spot;
    /* In the thread of the watch: somebody is lost; late: for a period, and no call has said so. */
    void (*tell)(void *user, const lki_loss *loss, bool late);
    void *user;
} lki_watch_opts;

/* On rank 0 opens the door, of which the others then have to know; on others it does nothing. */
lks_status lki_watch_open(lki_watch **out, lki_door *door, const lki_watch_opts *opts);
/* On all others: enters. Where it cannot (a firewall) this rank is not watched, and *out is NULL. */
lks_status lki_watch_join(lki_watch **out, const lki_door *door, const lki_watch_opts *opts);
/* Who is lost; NULL: nobody. Costs no more than a load. */
const lki_loss *lki_watch_loss(const lki_watch *watch);
/* The same, waiting for it so long at most. */
const lki_loss *lki_watch_ask(const lki_watch *watch, double seconds);
/* A call has said who is lost. */
void lki_watch_said(lki_watch *watch);
/* Says goodbye; NULL is fine. In a child of fork, which has no such thread, it only closes. */
void lki_watch_end(lki_watch *watch, bool forked);

#endif
