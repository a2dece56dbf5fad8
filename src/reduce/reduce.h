/*
 * Sums over replicas, in the tree of docs/numerics.md 4: a table of nodes and buckets.
 *
 * Arrays of gradients are summed. They are cut into buckets, ranges that become complete each at its
 * own time. A holder has consecutive replicas: a worker, or another process whose sums have arrived.
 * In every bucket it holds nodes of the tree, ascending; the two children of a node become that node as
 * soon as both are there. Once all its replicas are in, these are the maximal nodes of its range.
 *
 *   V = 6         bucket 0             bucket 1
 *   holder 0      [0,2) [2,3)          [0,2)              replica 2 is still at work,
 *   holder 1      [3,4) [4,6)          [3,4) [4,5)        and so is replica 5
 *   total         ([0,2) + ([2,3) + [3,4))) + [4,6)
 *
 * Who holds what changes neither the additions nor their order. The table looks at no element: it gives
 * ranges of arrays to the backend's add.
 *
 * A replica that is a right child needs no array, if its owner forms a few of its gradients at a time in a scratch and
 * adds these to the left child's array, as the merge would. That takes the most arrays where holders would have most:
 *
 *   V = 4, one holder     array 0    array 1    array 2            joined:  array 0    array 1
 *   replica 0             [0,1)                                             [0,1)
 *   replica 1             [0,2)      [1,2)                                  [0,2)
 *   replica 2             [0,2)      [2,3)                                  [0,2)      [2,3)
 *   replica 3             [0,4)      [2,4)      [3,4)                       [0,4)      [2,4)
 *
 * A holder is one thread's at a time. When all have pushed, and behind a barrier, any number of
 * threads form totals, each of ranges of its own.
 */
#ifndef LKI_REDUCE_REDUCE_H
#define LKI_REDUCE_REDUCE_H

#include "base/memory.h"
#include "core/backend.h"
#include "numeric/tree.h"

/* A node's sum in one bucket. */
typedef struct lki_held {
    lki_tree_node node;
    float *values; /* an array, of which the bucket's range counts; NULL: no replica has a sample */
} lki_held;

/* What a holder holds in one bucket. */
typedef struct lki_holding {
    lki_held *held;
    int held_count;
} lki_holding;

typedef struct lki_holder {
    int64_t first, last;  /* replicas first .. last-1 */
    int arrays;           /* as many as it needs at most */
    bool joins;           /* right children have none, which saves one array at least */
    float *memory;        /* [arrays][floats of an array]; NULL: it pushes arrays of others */
    float *scratch;       /* the owner's, in which it forms what it joins */
    lki_holding *holding; /* [buckets] */
} lki_holder;

typedef struct lki_reduce {
    const lki_backend *backend;
    int64_t replicas;
    bool
        apart; /* a holder has an array for each of its replicas, all of which are formed together */
    bool joins; /* else a right child has none, where this saves memory */
    int holders, buckets;
    lki_holder *holder; /* [holders], ascending: each begins where the one before it ends */
    int64_t *border;    /* [buckets + 1]: bucket b is the floats border[b] .. border[b + 1] - 1 */
} lki_reduce;

/* Fill in the backend and the number of replicas, make it with the borders of its buckets (from 0 to the
 * floats of an array, at least one; they are copied), then give every holder its replicas; and its
 * arrays, if it has any of its own. All else lives in the arena. */
lks_status lki_reduce_make(lki_reduce *reduce, lki_arena *arena, int holders, int buckets,
                           const int64_t *border);
lks_status lki_reduce_assign(lki_reduce *reduce, lki_arena *arena, int holder, int64_t first,
                             int64_t last);
/* Of the holder's arrays. */
size_t lki_reduce_bytes(const lki_reduce *reduce, int holder);

/* A new sum: the holder holds nothing. */
void lki_reduce_begin(lki_reduce *reduce, int holder);
/* An array of the holder's for the gradients of its next replica in this bucket, until that is pushed. A
 * holder that has pushed the same replicas in two buckets gets the same array in both. */
float *lki_reduce_array(lki_reduce *reduce, int holder, int bucket);
/* The array that the holder's next replica is joined to: every float of its gradients is added there, once, before it
 * is pushed in the bucket with this array. NULL: it needs one of its own, as holders do not join, it is no right child, or
 * the left one is absent. */
float *lki_reduce_left(const lki_reduce *reduce, int holder, int bucket);
/* Where replicas are apart: the array that this one is going to get. */
float *lki_reduce_apart(const lki_reduce *reduce, int holder, int64_t replica);
/* The sum of a node, in general of a replica [r, r+1), in this bucket: in that array or, where the
 * holder has none of its own, another's, which stays with the table until the next beginning. NULL: absent. Nodes come in
 * ascending order. */
void lki_reduce_push(lki_reduce *reduce, int holder, int bucket, lki_tree_node node, float *values);
/* The sum of a node, whose replicas have all been pushed, for floats [first, first + count) of one
 * bucket; formed in place, so once. NULL: no replica has a sample. */
float *lki_reduce_total(const lki_reduce *reduce, lki_tree_node node, int64_t first, int64_t count);

#endif
