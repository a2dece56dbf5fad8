/*
 * The transport over MPI, compiled once for each MPI there is. It is a shared object of its own, which the
 * library loads when a launcher's variables or a program ask for it; it calls nothing of the library.
 */
#ifndef LKI_COMM_MPI_LINK_H
#define LKI_COMM_MPI_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "comm/transport.h"

/* A message's bytes are an int, so a longer piece is sent as several messages, which arrive in order. */
#if !defined(MPI_LINK_CHUNK)
#define MPI_LINK_CHUNK ((size_t)1 << 30)
#endif

enum {
    MPI_LINK_SENT = -1, /* in place of the bytes that a request is to receive */
    MPI_LINK_ALL = -2,  /* the same: a collective */
    MPI_LINK_WINDOWS = 16,
    MPI_LINK_DIRECT = 64, /* up to so many ranks, each sends what is gathered to each */
};

/* An exchange under way. Its arrays grow when one is started and stay, so that a step allocates nothing. */
typedef struct mpi_flight {
    MPI_Request *request;
    int *peer;         /* of each request; -1: all ranks */
    int64_t *expected; /* bytes to receive, MPI_LINK_SENT or MPI_LINK_ALL */
    int count, capacity;
    int landed; /* so many of them, the first ones, are done */
} mpi_flight;

typedef struct mpi_window {
    MPI_Win window;
    void *mine; /* where the caller's bytes begin; NULL: there is no window here */
} mpi_window;

/* What a rank says to the others when it leaves. */
typedef struct mpi_farewell {
    int code;
    char text[sizeof((lki_fault *)NULL)->text];
} mpi_farewell;

typedef struct mpi_link {
    struct mpi_link *next; /* among those that ended broken */
    MPI_Comm comm;
    MPI_Comm
        word; /* the same ranks, for farewells, so that waiting for these slows down nothing else */
    MPI_Comm
        host; /* those of them that share this host's memory; MPI_COMM_NULL until it is asked for */
    int rank, size;
    bool
        broken; /* a call failed, or a rank has left: nothing that needs the others is done any more */
    mpi_window window[MPI_LINK_WINDOWS];
    MPI_Request said;                  /* a farewell, when one comes */
    MPI_Request *saying;               /* [size - 1] */
    mpi_farewell heard, first, spoken; /* the last, the first of theirs, and ours */
    bool *left;                        /* [size]: who has said one */
    bool some_left;
    mpi_flight flight[LKI_MAX_FLIGHTS];
} mpi_link;

/* Writes the sentence, with MPI's own where `code` is one of its errors, and returns -1. */
int mpi_link_fault(mpi_link *link, lki_fault *fault, int rank, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Waits for the next farewell; an MPI error. */
int mpi_link_listen(mpi_link *link);

/* Ends what is under way. False where that cannot be had: MPI may then still touch arrays of the caller
 * when it is called, so it is not called any more. */
bool mpi_link_stop(mpi_link *link);

int mpi_link_start(void *link, int flight, const lki_piece *send, int sends,
                   const lki_piece *receive, int receives, lki_fault *fault);
int mpi_link_poll(void *link, int flight, bool *landed, lki_fault *fault);
int mpi_link_missing(void *link, int flight);
int mpi_link_gather(void *link, int flight, const void *mine, size_t bytes, void *all,
                    lki_fault *fault);
int mpi_link_all_reduce(void *link, int flight, float *values, size_t count, lki_fault *fault);
int mpi_link_share(void *link, size_t bytes, void **base, lki_fault *fault);
void mpi_link_unshare(void *link, void *own);

#endif
