/*
 * The transport over TCP, for processes that no launcher has started. Between two ranks there are two
 * connections: one for what is exchanged, one for the last word of a rank that leaves.
 */
#ifndef LKI_COMM_SOCKET_H
#define LKI_COMM_SOCKET_H

#include <lockstep/comm.h>

#include "comm/transport.h"

#include <poll.h>

/* What stands before each piece. */
typedef struct lki_socket_header {
    uint64_t flight, bytes;
} lki_socket_header;

/* A piece: to be sent, expected, or here before it is expected. */
typedef struct lki_socket_piece {
    struct lki_socket_piece *next, *into; /* into: of an early one, what expects it meanwhile */
    char *data;
    size_t done; /* bytes of it, when sending with the header's */
    lki_socket_header header;
} lki_socket_piece;

typedef struct lki_socket_queue {
    lki_socket_piece *first, *last;
} lki_socket_queue;

typedef struct lki_socket_peer {
    int data, word;                      /* connections; -1: none, and nothing comes any more */
    lki_socket_queue out, posted, early; /* early: arrived, or arriving, before it was expected */
    lki_socket_piece *reading;           /* what comes now; NULL: a header */
    bool reading_early;
    lki_socket_header header;
    size_t header_done, said_done;
    lki_fault said; /* its last word */
    int waiting[LKI_MAX_FLIGHTS];
} lki_socket_peer;

typedef struct lki_socket_link {
    int rank, size;
    bool broken;
    lki_fault wrong; /* of a piece that was here before it was expected; rank -1: none */
    double timeout_s;
    lki_socket_peer *peer;        /* [size] */
    struct pollfd *look;          /* [2 * size] */
    lki_socket_piece *spare;      /* so that a step allocates nothing */
    int waiting[LKI_MAX_FLIGHTS]; /* pieces of a flight that have not gone or come */
} lki_socket_link;

/* Connects each to each; fails with a sentence. */
int lki_socket_join(lki_socket_link *link, const lks_comm_opts *opts, lki_fault *fault);
/* Returns -1. */
int lki_socket_fault(lki_fault *fault, int rank, const char *format, ...) LKS_PRINTF(3, 4);

#endif
