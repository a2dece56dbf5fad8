/*
 * What carries bytes between the ranks of a training: the contract of a transport.
 *
 * A transport knows ranks and bytes and nothing else: what is sent, summed and compared stands in the
 * files beside this one, once for all transports. A module that is loaded while the program runs
 * includes this header alone and uses no symbol of the library.
 *
 *   rank 0   start(7) ... computes ... poll(7) poll(7) -> landed
 *   rank 1   start(7) ... computes ......... poll(7) -> landed
 *
 * One thread of a rank is in a transport at a time.
 */
#ifndef LKI_COMM_TRANSPORT_H
#define LKI_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Raised by every change of what stands here: modules of another build are refused. */
enum { LKI_TRANSPORT_ABI = 3 };

/* Bytes for that rank or from it; there may be more than an int can count. */
typedef struct lki_piece {
    int rank;
    void *data;
    size_t bytes;
} lki_piece;

/* Why a call failed. */
typedef struct lki_fault {
    int rank; /* whose fault it is; -1: not known */
    int code; /* 0: `text` is the transport's; else it came with give_up() from `rank`, as did `text`; of open()
                 LKS_E_TIMEOUT where a rank has not come in time, else 0 */
    char text
        [600]; /* "cannot be reached: connection reset"; whoever reports puts the rank before it */
} lki_fault;

/*
 * A flight is an exchange under way, with a number below this; of a number there is one at a time on a
 * rank. All ranks start the same flights in the same order, with equal numbers. A neighbour may have
 * landed and started the next of that number while the last is still under way here: between two
 * ranks, what is sent first with a number belongs to the flight that was started first.
 */
enum { LKI_MAX_FLIGHTS = 256 };

/*
 * Functions that can fail return 0, or something else and fill in the fault (which was zeroed, but
 * for rank -1). Behind a fault only give_up(), abort() and close() are called.
 */
typedef struct lki_transport {
    const char *name;    /* "mpi"; this and the next stand first in every build */
    int abi;             /* LKI_TRANSPORT_ABI */
    const char *library; /* "Open MPI 4.1.4", for records; NULL: none */
    bool copies; /* what goes to a rank of the same machine is copied in its memory: no checksums */

    /* Joins; `how` is the transport's own (mpi: an MPI_Comm *, or NULL for all of MPI). Collective. */
    int (*open)(void **link, const void *how, lki_fault *fault);
    /* Collective, but behind a fault or give_up(), where it waits for nobody. */
    void (*close)(void *link);
    int (*rank)(const void *link);
    int (*size)(const void *link);

    /*
     * Starts to send and to receive. Between two ranks pieces match in their order and have equal sizes;
     * a piece to oneself is not given. The arrays of pieces are the caller's again when this returns,
     * what they point to when the flight has landed.
     */
    int (*start)(void *link, int flight, const lki_piece *send, int sends, const lki_piece *receive,
                 int receives, lki_fault *fault);
    /* Everybody's `bytes` bytes in order of ranks: all[size][bytes]. `mine` may be its place in `all`. */
    int (*gather)(void *link, int flight, const void *mine, size_t bytes, void *all,
                  lki_fault *fault);
    /* Sums in place, in whatever order the library likes. NULL: there is none. */
    int (*all_reduce)(void *link, int flight, float *values, size_t count, lki_fault *fault);

    /* Makes progress with all flights and says whether this one has landed; then its number is free,
     * and nobody asks for it again. Never waits. */
    int (*poll)(void *link, int flight, bool *landed, lki_fault *fault);
    /* A rank from which something of this flight has not come, or to which something has not gone;
     * -1: none, or not known. */
    int (*missing)(void *link, int flight);

    /*
     * Memory that ranks of one host have in common: base[r] is where rank r's `bytes` bytes lie here,
     * NULL for ranks of other hosts. Where a host has not that much, base[own rank] is NULL on all its
     * ranks, which is no fault. Collective. NULL: there is none.
     */
    int (*share)(void *link, size_t bytes, void **base, lki_fault *fault);
    void (*unshare)(void *link, void *own); /* collective, like close() */

    /*
     * This rank leaves because of `fault` (code and a whole sentence). Nothing is sent or received any
     * more, and no array touched. Where the transport can it tells the others: what they still wait for
     * fails soon, with this code, this text and the rank. Does not wait. A fault of rank -1: some rank may
     * not hear of it, so that nobody is to wait for all later either. NULL: they notice by themselves, or
     * by a time-out.
     */
    void (*give_up)(void *link, const lki_fault *fault);
    /* Ends the processes of all ranks at once, in ways of its own; may not return. */
    void (*abort)(void *link, int code);
} lki_transport;

#endif
