/* One connection of a rendezvous, as either side has it: frames in and out, its proof, when it was heard. */
#ifndef CLI_MEET_PEER_H
#define CLI_MEET_PEER_H

#include "cli/meet/seal.h"

/* What docs/rendezvous.md promises. */
#define PEER_PROOF_S  5.0
#define PEER_BEAT_S   0.5
#define PEER_LOST_S   2.0
#define PEER_FINISH_S 1.0

typedef enum peer_state {
    PEER_NEW,        /* at the leader: hello is to come; at the member: challenge */
    PEER_CHALLENGED, /* at the leader: the proof is to come */
    PEER_PROVED,     /* frames are sealed from here on */
    PEER_JOINED,
} peer_state;

typedef struct peer {
    int fd; /* -1: closed */
    peer_state state;
    seal_draw draw;
    seal_link link;
    double since, heard, beaten; /* connected (or joined), last byte, last beat of ours */
    char from[64];               /* its address */
    char host[WIRE_TEXT];
    int node, ranks; /* node: -1 until it is known */
    bool asked;      /* it named its node rank itself */
    bool working;    /* it takes part in the ranks that run */
    long process;
    size_t used, taken; /* of `in`; the last message that was given stands in front */
    uint8_t in[WIRE_HEADER + WIRE_BODY + WIRE_TAG];
} peer;

/* Takes a connected socket over; NULL: no memory, and it is closed. */
peer *peer_create(int fd, const char *from);
void peer_close(peer *p); /* the socket alone */
/* Closes it when the other side has, or at this time of process_clock(): it may still be sending, and a socket that is
 * closed with something unread in it takes back what was sent last. */
void peer_finish(peer *p, double until);
void peer_destroy(peer *p);

/* Sends a message, open or sealed by its type; false: it cannot be sent, and is closed. */
bool peer_send(peer *p, const wire_message *message);
/* A beat, where it is time for one. */
void peer_beat(peer *p);

/* Reads what has come; false: the other side has closed. */
bool peer_read(peer *p);
/* The next whole message: 1; there is none yet: 0; what came is none, or by a stranger: -1. `words` is as
 * for wire_read(), whose pointers end with the next call. */
int peer_next(peer *p, wire_message *out, char *words);

#endif
