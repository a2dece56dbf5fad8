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
    int fd; /* -1: over */
    peer *node;
} lead_daemon;

typedef struct leader {
    const meet_plan *plan;
    uint8_t key[SEAL_KEY];
    int listener;
    peer *peers[LEAD_PEERS];
    int count, joined, strangers;
    bool working; /* all have come */
    char folder[64], path[128];
    int asks; /* the socket that reach connects to; -1: none yet */
    lead_daemon *daemons;
    int daemon_count, daemon_room;
    atomic_bool stop;
    char words[WIRE_BODY];
} leader;

/* Waits up to `timeout` ms, and does what there is to do. */
void lead_turn(leader *l, int timeout);

/* Of a peer that has proved itself (admit.c): joins it, or refuses it with a sentence. */
void lead_admit(leader *l, peer *p, const wire_message *join);

/* Daemons (daemons.c). */
void lead_ask(leader *l);                                  /* somebody connects to the socket */
void lead_said(leader *l, peer *p, const wire_message *m); /* said and ended */
void lead_lost(leader *l, const peer *p);
void lead_hung_up(leader *l, int daemon);

#endif
