/* The tree over replicas. */
#include "numeric/tree.h"

int64_t lki_tree_split(int64_t lo, int64_t hi)
{
    int64_t step = 1;
    while (step < hi - lo - step) step *= 2;
    return lo + step;
}

bool lki_tree_siblings(int64_t leaves, int64_t a, int64_t b, int64_t c)
{
    if (a < 0 || a >= b || b >= c || c > leaves) return false;
    int64_t lo = 0, hi = leaves;
    for (;;) {
        const int64_t middle = lki_tree_split(lo, hi);
        if (lo == a && hi == c) return middle == b;
        if (c <= middle) {
            hi = middle;
        } else if (a >= middle) {
            lo = middle;
        } else {
            return false;
        }
    }
}

lki_tree_node lki_tree_maximal(int64_t leaves, int64_t first, int64_t last)
{
    lki_tree_node node = {.lo = 0, .hi = leaves};
    while (node.lo != first || node.hi > last) {
        const int64_t middle = lki_tree_split(node.lo, node.hi);
        *(first < middle ? &node.hi : &node.lo) = middle;
    }
    return node;
}

/* `joined`: a leaf counts when siblings have been merged. */
static int most_held(int64_t leaves, int64_t first, int64_t last, bool joined)
{
    int64_t bound[2 * 64 + 2]; /* the nodes held are [bound[i], bound[i + 1]) for i < held */
    int held = 0, most = 0;
    bound[0] = first;
    for (int64_t leaf = first; leaf < last; leaf++) {
        bound[++held] = leaf + 1;
        if (held > most && !joined) most = held;
        while (held >= 2 &&
               lki_tree_siblings(leaves, bound[held - 2], bound[held - 1], bound[held])) {
            bound[held - 1] = bound[held];
            held--;
        }
        if (held > most) most = held;
    }
    return most;
}

int lki_tree_slots(int64_t leaves, int64_t first, int64_t last)
{
    return most_held(leaves, first, last, false);
}

int lki_tree_slots_joined(int64_t leaves, int64_t first, int64_t last)
{
    return most_held(leaves, first, last, true);
}

double lki_tree_sum(const double *values, int64_t lo, int64_t hi)
{
    if (hi - lo == 1) return values[lo];
    const int64_t split = lki_tree_split(lo, hi);
    const double left = lki_tree_sum(values, lo, split);
    return left + lki_tree_sum(values, split, hi);
}
