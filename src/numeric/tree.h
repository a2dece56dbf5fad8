/*
 * The tree over replicas, docs/numerics.md 4.
 *
 *   [0,6): splits at 0 + 4        [lo, hi) splits at lo + the largest power of two below hi - lo
 *     [0,4)          [4,6)
 *   [0,2) [2,4)    [4,5) [5,6)
 *   ...
 *
 * And the shares: who takes what of n things, in order, sizes differing by at most one.
 */
#ifndef LKI_NUMERIC_TREE_H
#define LKI_NUMERIC_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* First thing of part `part` of `parts` over n: part*n/parts; part == parts gives n. */
static inline int64_t lki_share(int64_t part, int64_t parts, int64_t n)
{
    return part * n / parts; /* callers keep part * n below 2^63 */
}

/* A node: the replicas lo .. hi-1 below it. */
typedef struct lki_tree_node {
    int64_t lo, hi;
} lki_tree_node;

/* Where [lo, hi) splits; hi - lo is at least 2. */
int64_t lki_tree_split(int64_t lo, int64_t hi);

/* Whether [a, b) and [b, c) are the two children of a node of the tree over [0, leaves). */
bool lki_tree_siblings(int64_t leaves, int64_t a, int64_t b, int64_t c);

/* Of the nodes inside [first, last), first < last, the largest that begins at `first`. From one's end
 * to the next one's, these are the maximal nodes of the range. */
lki_tree_node lki_tree_maximal(int64_t leaves, int64_t first, int64_t last);

/* How many nodes a worker holds at most while it adds leaves first..last-1 one by one and merges
 * siblings at once (a merge needs no extra). 0 for an empty range. At most 2*log2(leaves) + 1. */
int lki_tree_slots(int64_t leaves, int64_t first, int64_t last);
/* The same where a leaf whose left sibling is held is added to that, and never stands beside it. */
int lki_tree_slots_joined(int64_t leaves, int64_t first, int64_t last);

/* The sum of values[lo] .. values[hi - 1] by the tree over [lo, hi), which is not empty. */
double lki_tree_sum(const double *values, int64_t lo, int64_t hi);

#endif
