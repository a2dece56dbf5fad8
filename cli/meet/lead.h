/* The leader: agents that join it, and what stands in ssh's place for its mpiexec. */
#ifndef CLI_MEET_LEAD_H
#define CLI_MEET_LEAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/meet/meet.h"
#include "cli/meet/peer.h"

enum { LEAD_STRANGERS = 64, LEAD_PEERS = MEET_NODES + LEAD_STRANGERS };

/* A daemon that mpiexec has asked for, and the node that runs it. */
typedef struct lead_daemon {
    int fd;     /* -1: over */
    int number; /* as the node knows it: never twice, as what is said of one may come late */
    peer *node;
} lead_daemon;

typedef struct leader {
    const meet_plan *plan;
    uint8_t key[SEAL_KEY];
    int listener;
    peer *peers[LEAD_PEERS];
    int count, joined, strangers;
    bool began;   /* there has been a first start */
    bool working; /* ranks run */
    bool growing; /* and were asked to end, as others want to join */
    int members;  /* agents that take part, but for this one */
    int orders;   /* for launch_once(): LAUNCH_LOST, LAUNCH_GROW */
    pthread_t thread;
    char folder[64], path[128];
    int asks; /* the socket that reach connects to; -1: none yet */
    lead_daemon *daemons;
    int daemon_count, daemon_room, next_number;
    atomic_bool stop;
    char words[WIRE_BODY];
} leader;

/* Waits up to `timeout` ms, and does what there is to do (turn.c). */
void lead_turn(leader *l, int timeout);
/* To launch_once(). */
void lead_order(const leader *l, char order);

/* Who takes part (gather.c): waits until enough agents are there. *code: not 0 where a signal has ended it. */
LKS_MUSTUSE lks_status lead_gather(leader *l, int *code);
/* Whether fewer take part than did, and so many are enough to go on. */
bool lead_is_smaller(leader *l);
/* Whether more could take part, and have waited for as many as may come with them. */
bool lead_can_grow(const leader *l);
/* Numbers of nodes and ranks, for all who take part. */
void lead_number(leader *l);

/* Tells all who have joined how it ended, and closes their connections: a second is for all of them together. */
void lead_dismiss(leader *l, int code);

/* Of a peer that has proved itself (admit.c): joins it, or refuses it with a sentence. */
void lead_admit(leader *l, peer *p, const wire_message *join);

/* Daemons (daemons.c). */
void lead_ask(leader *l);                                  /* somebody connects to the socket */
void lead_said(leader *l, peer *p, const wire_message *m); /* said and ended */
void lead_lost(leader *l, const peer *p);
void lead_hung_up(leader *l, int daemon);

#endif
