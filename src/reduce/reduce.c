/* Sums over replicas: merges of what a holder holds, and totals over what all hold. */
#include "reduce/reduce.h"

#include <string.h>

#include "base/check.h"

lks_status lki_reduce_make(lki_reduce *reduce, lki_arena *arena, int holders, int buckets,
                           const int64_t *border)
{
    const size_t borders = ((size_t)buckets + 1) * sizeof *border;
    void *memory;
    LKI_TRY(lki_arena_alloc(arena, &memory, (size_t)holders * sizeof(lki_holder),
                            "holders of gradients"));
    reduce->holder = memory;
    LKI_TRY(lki_arena_alloc(arena, &memory, borders, "borders of buckets"));
    reduce->border = memory;
    memcpy(reduce->border, border, borders);
    reduce->holders = holders;
    reduce->buckets = buckets;
    return LKS_OK;
}

/* One piece of memory, in cache lines of its own: each holder writes to its part all the time. */
lks_status lki_reduce_assign(lki_reduce *reduce, lki_arena *arena, int holder, int64_t first,
                             int64_t last)
{
    lki_holder *own = &reduce->holder[holder];
    const size_t buckets = (size_t)reduce->buckets;
    const int most = reduce->apart ? (int)(last - first)
                                   : lki_tree_slots(reduce->replicas, first, last);
    const int joined = reduce->joins && !reduce->apart
                           ? lki_tree_slots_joined(reduce->replicas, first, last)
                           : most;
    own->first = first;
    own->last = last;
    own->arrays = joined;
    own->joins = joined < most;
    const size_t nodes = buckets * (size_t)most;
    void *memory;
    LKI_TRY(lki_arena_alloc(arena, &memory,
                            lki_align(buckets * sizeof(lki_holding) + nodes * sizeof(lki_held)),
                            "what a holder of gradients holds"));
    own->holding = memory;
    lki_held *held = (lki_held *)(own->holding + buckets);
    for (int b = 0; b < reduce->buckets; b++, held += most)
        own->holding[b] = (lki_holding){.held = held};
    return LKS_OK;
}

static int64_t floats(const lki_reduce *reduce)
{
    return reduce->border[reduce->buckets];
}

size_t lki_reduce_bytes(const lki_reduce *reduce, int holder)
{
    return (size_t)(reduce->holder[holder].arrays * floats(reduce)) * sizeof(float);
}

void lki_reduce_begin(lki_reduce *reduce, int holder)
{
    for (int b = 0; b < reduce->buckets; b++) reduce->holder[holder].holding[b].held_count = 0;
}

float *lki_reduce_apart(const lki_reduce *reduce, int holder, int64_t replica)
{
    const lki_holder *own = &reduce->holder[holder];
    return own->memory + (replica - own->first) * floats(reduce);
}

/* A merge frees the array that was taken last, so those that are held are the first ones. */
float *lki_reduce_array(lki_reduce *reduce, int holder, int bucket)
{
    const lki_holder *own = &reduce->holder[holder];
    const lki_holding *h = &own->holding[bucket];
    int64_t taken = 0;
    if (reduce->apart)
        return lki_reduce_apart(
            reduce, holder, h->held_count > 0 ? h->held[h->held_count - 1].node.hi : own->first);
    for (int i = 0; i < h->held_count; i++) taken += h->held[i].values != NULL;
    return own->memory + taken * floats(reduce);
}

float *lki_reduce_left(const lki_reduce *reduce, int holder, int bucket)
{
    const lki_holder *own = &reduce->holder[holder];
    const lki_holding *h = &own->holding[bucket];
    if (!own->joins || h->held_count == 0) return NULL;
    const lki_held *left = &h->held[h->held_count - 1];
    return lki_tree_siblings(reduce->replicas, left->node.lo, left->node.hi, left->node.hi + 1)
               ? left->values
               : NULL;
}

/* A right child that was joined is in the left one's array already. */
static void merge_last_two(const lki_reduce *reduce, lki_holding *h, int bucket)
{
    const lki_held *right = &h->held[--h->held_count];
    lki_held *left = &h->held[h->held_count - 1];
    left->node.hi = right->node.hi;
    if (left->values == NULL) {
        left->values = right->values;
    } else if (right->values != NULL && right->values != left->values) {
        const int64_t first = reduce->border[bucket];
        reduce->backend->add(reduce->border[bucket + 1] - first, left->values + first,
                             right->values + first);
    }
}

void lki_reduce_push(lki_reduce *reduce, int holder, int bucket, lki_tree_node node, float *values)
{
    lki_holding *h = &reduce->holder[holder].holding[bucket];
    h->held[h->held_count++] = (lki_held){.node = node, .values = values};
    while (h->held_count > 1) {
        const lki_tree_node *left = &h->held[h->held_count - 2].node;
        const lki_tree_node *right = &h->held[h->held_count - 1].node;
        if (!lki_tree_siblings(reduce->replicas, left->lo, right->lo, right->hi)) return;
        merge_last_two(reduce, h, bucket);
    }
}

/* Where we are in the nodes that all holders hold in a bucket, which ascend. */
typedef struct walk {
    const lki_reduce *reduce;
    int bucket, holder, next;
    int64_t first, count;
} walk;

static const lki_held *next_held(walk *at)
{
    const lki_holder *holder = at->reduce->holder;
    while (at->next == holder[at->holder].holding[at->bucket].held_count) {
        at->holder++;
        at->next = 0;
    }
    return &holder[at->holder].holding[at->bucket].held[at->next];
}

/* The next node where a holder holds it; otherwise its children, added into the left one. Replicas that
 * nobody has are absent. */
static float *sum_below(walk *at, lki_tree_node node)
{
    const lki_holder *holder = at->reduce->holder;
    if (node.hi <= holder[0].first || node.lo >= holder[at->reduce->holders - 1].last) return NULL;
    const lki_held *held = next_held(at);
    if (held->node.lo == node.lo && held->node.hi == node.hi) {
        at->next++;
        return held->values != NULL ? held->values + at->first : NULL;
    }
    const int64_t split = lki_tree_split(node.lo, node.hi);
    float *left = sum_below(at, (lki_tree_node){.lo = node.lo, .hi = split});
    float *right = sum_below(at, (lki_tree_node){.lo = split, .hi = node.hi});
    if (left != NULL && right != NULL) at->reduce->backend->add(at->count, left, right);
    return left != NULL ? left : right;
}

float *lki_reduce_total(const lki_reduce *reduce, lki_tree_node node, int64_t first, int64_t count)
{
    walk at = {.reduce = reduce, .first = first, .count = count};
    while (reduce->border[at.bucket + 1] <= first) at.bucket++;
    while (next_held(&at)->node.hi <= node.lo) at.next++;
    return sum_below(&at, node);
}
