/*
 * Sums over replicas between ranks, in the tree of docs/numerics.md 4.
 *
 * Every rank has consecutive replicas, so it can form a few nodes of the tree alone, the maximal ones of
 * its range. Arrays of sums are cut into buckets, which are summed each at its own time, and a bucket
 * into slices, one for every rank:
 *
 *   V = 6      rank 0 has [0,2) [2,3)              rank 1 has [3,4) [4,6)
 *   slice 0    rank 0 forms ([0,2) + ([2,3) + [3,4))) + [4,6)   of what rank 1 sends it
 *   slice 1    rank 1 forms the same, of other floats           of what rank 0 sends it
 *   return     everybody sends the total of its slice to all: the bucket's total is everywhere
 *
 * Who has which replicas changes neither the additions nor their order. A bucket goes through these, on
 * every rank, and buckets start each of their two exchanges in the same order on all:
 *
 *   send      starts to send own nodes and to receive those of others
 *   arrive    waits for them
 *   combine   any number of threads, each a part: the total of the own slice
 *   give      starts to send it to all
 *   finish    waits for the totals of all others
 *
 * combine is for several threads at once, behind a barrier; all else is one thread's. Nothing is
 * allocated behind lki_ranks_make().
 *
 * Where several hosts have several ranks each, as many, side by side, and slices are equal, there are two rounds: ranks of a
 * host exchange slices of their nodes with each other, of which they form the maximal nodes of their host; then those that have the same slice on all hosts
 * exchange these. What leaves a host is then what one rank of it would send, and a rank has fewer to send to:
 *
 *     hosts             a             b          first round      second round
 *     ranks           0   1         2   3        0-1, 2-3         0-2, 1-3
 *     slices of V    [0   1]       [0   1]       halves           halves of halves; totals go back the same way
 *
 *   send, arrive, combine     the first round
 *   next, arrive, combine     the second
 *   give, hand_on, finish     the totals, to the same ranks of other hosts, then to those of this one
 *
 * Where the library that carries messages is to add (`library`), send adds own nodes and starts its sum over
 * ranks, in place, arrive waits for that, and nothing is left for the others to do.
 */
#ifndef LKI_REDUCE_RANKS_H
#define LKI_REDUCE_RANKS_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "reduce/reduce.h"

typedef struct lki_ranks_bucket {
    int64_t count;      /* floats */
    const int64_t *cut; /* [ranks + 1]: rank r has the floats cut[r] .. cut[r + 1] - 1 */
    int64_t *equal;     /* their memory, where slices are equal; NULL: they are borrowed */
    lki_reduce table;   /* of the own slice: holders are the ranks */
    float *received;    /* [nodes of others][room] */
    int64_t room;       /* of the own slice, rounded up */
    int64_t
        *place; /* [nodes]: with memory in common, where the bucket's floats of a node are there, */
    int64_t *token; /* [ranks]: and what says that something is done */
    float *total;
    float *own;     /* the array of the first own node, */
    float **formed; /* [forms]: and of what was formed, of the first of two rounds */
    int flight;     /* of the exchange under way */
    lki_piece *outgoing, *incoming;
} lki_ranks_bucket;

typedef struct lki_ranks {
    const lki_backend *backend;
    lks_comm *comm;
    int64_t replicas;
    int rank, ranks;     /* of those that exchange, */
    const int *member;   /* [ranks]: and their numbers in the communicator; NULL: the same */
    lki_tree_node *form; /* [forms]: the maximal nodes of all of their replicas, which they form */
    int forms;
    bool library;        /* set behind lki_ranks_make(), and without memory in common */
    lki_tree_node *node; /* the maximal nodes of all ranks, ascending */
    int *node_of;        /* [ranks + 1]: those of rank r are node_of[r] .. node_of[r + 1] - 1 */
    bool *absent;        /* [nodes]: no replica has a sample, in this sum */
    int buckets;
    lki_ranks_bucket *bucket;
    void *const *base;       /* [ranks]: memory in common; NULL: there is none */
    atomic_int notices;      /* sent and received */
    bool releases;           /* a notice is on its way that */
    int release;             /* flies here */
    int64_t bytes;           /* that this process has sent in this sum, but for its rounds */
    struct lki_ranks *round; /* [2]: ranks of this host; one of each host. NULL: all at once */
} lki_ranks;

/* Rank r has the replicas border[r] .. border[r + 1] - 1, at least one, of `replicas`. */
typedef struct lki_ranks_opts {
    lks_comm *comm;
    const lki_backend *backend;
    int64_t replicas;
    const int64_t *border; /* [ranks + 1] */
    int buckets;
    const int64_t *count; /* [buckets]: floats of each, */
    const int64_t *cut;   /* and their slices, borrowed: [buckets][ranks + 1]; NULL: equal ones */
    const int *host;      /* [ranks]: where each is; NULL: there is one round whatever that is */
} lki_ranks_opts;
/* Lists live in the arena; then the owner gives it memory of lki_ranks_bytes(). */
lks_status lki_ranks_make(lki_ranks *ranks, lki_arena *arena, const lki_ranks_opts *opts);
static inline int lki_ranks_rounds(const lki_ranks *ranks)
{
    return ranks->round != NULL ? 2 : 1;
}
/*
 * Where all arrays that are sent lie in memory that all ranks have in common (of rank r at base[r], which
 * is borrowed), only notices travel: each rank adds its slice where the others have it, and the total
 * is where the tree forms it, in one rank's array. So own arrays are not to be written between sending and
 * lki_ranks_reuse(), which waits for lki_ranks_release() of all.
 */
void lki_ranks_share(lki_ranks *ranks, void *const *base);
lks_status lki_ranks_release(lki_ranks *ranks); /* this rank reads no total any more */
lks_status lki_ranks_reuse(lki_ranks *ranks);
size_t lki_ranks_bytes(const lki_ranks *ranks);
void lki_ranks_place(lki_ranks *ranks, void *memory);

/* Floats of a rank's slice. */
static inline int64_t lki_ranks_length(const lki_ranks_bucket *bucket, int rank)
{
    return bucket->cut[rank + 1] - bucket->cut[rank];
}

/* How many nodes are this rank's, and the k-th of them. */
static inline int lki_ranks_own(const lki_ranks *ranks)
{
    return ranks->node_of[ranks->rank + 1] - ranks->node_of[ranks->rank];
}
static inline lki_tree_node lki_ranks_node(const lki_ranks *ranks, int k)
{
    return ranks->node[ranks->node_of[ranks->rank] + k];
}

/* The bucket, of equal slices, has so many floats in this sum, at most those it was made with. */
void lki_ranks_resize(lki_ranks *ranks, int bucket, int64_t count);
/* A new sum. Replica r has the samples start[r] .. start[r + 1] - 1 of a batch that has one at least. */
void lki_ranks_begin(lki_ranks *ranks, const int64_t *start);
/* Own node k has the sums values[k], which are not looked at where it is absent. Both they and `total`,
 * which may be one of them, are borrowed until the bucket is finished; sums do not survive it. */
lks_status lki_ranks_send(lki_ranks *ranks, int bucket, float *const *values, float *total);
lks_status lki_ranks_arrive(lki_ranks *ranks, int bucket, int round);
/* Whether it would wait; makes progress with all that travels. */
lks_status lki_ranks_poll(lki_ranks *ranks, int bucket, int round, bool *landed);
void lki_ranks_combine(lki_ranks *ranks, int bucket, int round, int part, int parts);
/* Behind the first of two rounds: sends what was formed. */
lks_status lki_ranks_next(lki_ranks *ranks, int bucket);
/* What of the own slice that part is; count may be below 1. */
void lki_ranks_part(const lki_ranks *ranks, int bucket, int part, int parts, int64_t *first,
                    int64_t *count);
/* The total; or, where what was made of the own slice is given in its place, the bucket's values, of which those
 * of other slices arrive. */
lks_status lki_ranks_give(lki_ranks *ranks, int bucket, float *values);
/* Of two rounds: waits for the totals of other hosts, and sends them on. */
lks_status lki_ranks_hand_on(lki_ranks *ranks, int bucket);
lks_status lki_ranks_finish(lki_ranks *ranks, int bucket);
/* Of a bucket that is finished: `total` as it was given, or where it is in common memory. */
static inline const float *lki_ranks_total(const lki_ranks *ranks, int bucket)
{
    return ranks->bucket[bucket].total;
}
static inline int64_t lki_ranks_sent(const lki_ranks *ranks)
{
    int64_t bytes = ranks->bytes;
    for (int i = 0; i < 2 && ranks->round != NULL; i++) bytes += ranks->round[i].bytes;
    return bytes;
}

#endif
