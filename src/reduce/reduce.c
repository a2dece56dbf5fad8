/* Sums over replicas: merges of what an owner holds, and totals over what all hold. */
#include "reduce/reduce.h"

#include <string.h>

#include "base/check.h"

lks_status lki_reduce_make(lki_reduce *reduce, lki_arena *arena, int owners, int buckets,
                           const int64_t *border)
{
    const size_t borders = ((size_t)buckets + 1) * sizeof *border;
    void *memory;
    LKI_TRY(
        lki_arena_alloc(arena, &memory, (size_t)owners * sizeof(lki_owner), "owners of gradients"));
    reduce->owner = memory;
    LKI_TRY(lki_arena_alloc(arena, &memory, borders, "borders of buckets"));
    reduce->border = memory;
    memcpy(reduce->border, border, borders);
    reduce->owners = owners;
    reduce->buckets = buckets;
    return LKS_OK;
}

/* One piece of memory, in cache lines of its own: each owner writes to its part all the time. */
lks_status lki_reduce_own(lki_reduce *reduce, lki_arena *arena, int owner, int64_t first,
                          int64_t last)
{
    lki_owner *own = &reduce->owner[owner];
    const size_t buckets = (size_t)reduce->buckets;
    own->first = first;
    own->last = last;
    own->slots = lki_tree_slots(reduce->replicas, first, last);
    const size_t nodes = buckets * (size_t)own->slots;
    void *memory;
    LKI_TRY(lki_arena_alloc(arena, &memory,
                            lki_align(buckets * sizeof(lki_holding) + nodes * sizeof(lki_held) +
                                      nodes * sizeof(float *)),
                            "what an owner of gradients holds"));
    own->holding = memory;
    lki_held *held = (lki_held *)(own->holding + buckets);
    float **unused = (float **)(held + nodes);
    for (int b = 0; b < reduce->buckets; b++, held += own->slots, unused += own->slots)
        own->holding[b] = (lki_holding){.held = held, .unused = unused};
    return LKS_OK;
}

static int64_t floats(const lki_reduce *reduce)
{
    return reduce->border[reduce->buckets];
}

size_t lki_reduce_bytes(const lki_reduce *reduce, int owner)
{
    return (size_t)(reduce->owner[owner].slots * floats(reduce)) * sizeof(float);
}

void lki_reduce_begin(lki_reduce *reduce, int owner)
{
    const lki_owner *own = &reduce->owner[owner];
    const int slots = own->memory != NULL ? own->slots : 0;
    for (int b = 0; b < reduce->buckets; b++) {
        lki_holding *h = &own->holding[b];
        h->held_count = 0;
        h->unused_count = slots;
        for (int i = 0; i < slots; i++) /* the first one is taken first */
            h->unused[i] = own->memory + (slots - 1 - i) * floats(reduce);
    }
}

float *lki_reduce_array(lki_reduce *reduce, int owner, int bucket)
{
    lki_holding *h = &reduce->owner[owner].holding[bucket];
    return h->unused[--h->unused_count];
}

static void merge_last_two(const lki_reduce *reduce, const lki_owner *own, int bucket)
{
    lki_holding *h = &own->holding[bucket];
    const lki_held *right = &h->held[--h->held_count];
    lki_held *left = &h->held[h->held_count - 1];
    left->node.hi = right->node.hi;
    if (left->values == NULL) {
        left->values = right->values;
    } else if (right->values != NULL) {
        const int64_t first = reduce->border[bucket];
        reduce->backend->add(reduce->border[bucket + 1] - first, left->values + first,
                             right->values + first);
        if (own->memory != NULL) h->unused[h->unused_count++] = right->values;
    }
}

void lki_reduce_push(lki_reduce *reduce, int owner, int bucket, lki_tree_node node, float *values)
{
    const lki_owner *own = &reduce->owner[owner];
    lki_holding *h = &own->holding[bucket];
    h->held[h->held_count++] = (lki_held){.node = node, .values = values};
    while (h->held_count > 1) {
        const lki_tree_node *left = &h->held[h->held_count - 2].node;
        const lki_tree_node *right = &h->held[h->held_count - 1].node;
        if (!lki_tree_siblings(reduce->replicas, left->lo, right->lo, right->hi)) return;
        merge_last_two(reduce, own, bucket);
    }
}

/* Where we are in the nodes that all owners hold in a bucket, which ascend. */
typedef struct walk {
    const lki_reduce *reduce;
    int bucket, owner, next;
    int64_t first, count;
} walk;

static const lki_held *next_held(walk *at)
{
    const lki_owner *owner = at->reduce->owner;
    while (at->next == owner[at->owner].holding[at->bucket].held_count) {
        at->owner++;
        at->next = 0;
    }
    return &owner[at->owner].holding[at->bucket].held[at->next];
}

/* The next node where an owner holds it; otherwise its children, added into the left one. */
static float *sum_below(walk *at, lki_tree_node node)
{
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

const float *lki_reduce_total(const lki_reduce *reduce, lki_tree_node node, int64_t first,
                              int64_t count)
{
    walk at = {.reduce = reduce, .first = first, .count = count};
    while (reduce->border[at.bucket + 1] <= first) at.bucket++;
    while (next_held(&at)->node.hi <= node.lo) at.next++;
    return sum_below(&at, node);
}
