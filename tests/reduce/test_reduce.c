/*
 * The table of nodes and buckets against the recursive sum over the tree: every number of replicas, every
 * way to cut them into holders, replicas without samples, buckets that are complete in any order.
 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "reduce/reduce.h"

enum {
    MOST = 20,   /* replicas */
    BUCKETS = 3, /* of */
    FLOATS = 11, /* an array: */
    RANGES = 5,  /* totals are formed of ranges, which stay in a bucket */
};
static const int64_t borders[] = {0, 4, 5, FLOATS};
static const int64_t range[RANGES + 1] = {0, 1, 4, 5, 8, FLOATS};

static int64_t additions;
static bool joins; /* holders join what is a right child */
static int64_t joined;

static void add(int64_t count, float *left, const float *right)
{
    additions += count;
    for (int64_t i = 0; i < count; i++) left[i] += right[i];
}
static const lki_backend adds = {.name = "adds", .add = add};

/* Gradients of every replica: of sizes so unlike that every other order of additions is seen. */
typedef struct gradients {
    int64_t replicas;
    bool absent[MOST];
    float of[MOST][FLOATS];
} gradients;

static void draw(gradients *g, lkt_random *random, int64_t replicas, bool some_absent)
{
    g->replicas = replicas;
    for (int64_t r = 0; r < replicas; r++) {
        g->absent[r] = some_absent && lkt_random_below(random, 3) == 0;
        for (int i = 0; i < FLOATS; i++)
            g->of[r][i] = (float)lkt_random_real(random, -1, 1) *
                          (float)(1 << lkt_random_below(random, 12));
    }
}

/* The definition; false where no replica of the node has a sample. */
static bool tree_sum(const gradients *g, int64_t lo, int64_t hi, int i, float *out)
{
    float left, right;
    if (hi - lo == 1) {
        *out = g->of[lo][i];
        return !g->absent[lo];
    }
    int64_t middle = lo + 1;
    while (2 * (middle - lo) < hi - lo) middle = lo + 2 * (middle - lo);
    const bool has_left = tree_sum(g, lo, middle, i, &left);
    const bool has_right = tree_sum(g, middle, hi, i, &right);
    *out = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

/* How many additions the sum over a node takes, of each float. */
static int64_t additions_of(const gradients *g, int64_t lo, int64_t hi)
{
    int64_t present = 0;
    for (int64_t r = lo; r < hi; r++) present += !g->absent[r];
    return present > 0 ? present - 1 : 0;
}

typedef struct table {
    lki_reduce reduce;
    lki_arena arena;
} table;

/* Its holders begin at these replicas and have arrays of their own. */
static void table_make(table *t, int64_t replicas, int holders, const int64_t *start, int buckets,
                       const int64_t *border)
{
    *t = (table){.reduce = {.backend = &adds, .replicas = replicas, .joins = joins}};
    LKT_OK(lki_reduce_make(&t->reduce, &t->arena, holders, buckets, border));
    for (int o = 0; o < holders; o++) {
        LKT_OK(lki_reduce_assign(&t->reduce, &t->arena, o, start[o], start[o + 1]));
        t->reduce.holder[o].memory = malloc(lki_reduce_bytes(&t->reduce, o) + 1);
        assert_int_equal(lki_reduce_bytes(&t->reduce, o),
                         sizeof(float) * FLOATS *
                             (size_t)(joins ? lki_tree_slots_joined
                                            : lki_tree_slots)(replicas, start[o], start[o + 1]));
    }
}

static void table_free(table *t)
{
    for (int o = 0; o < t->reduce.holders; o++) free(t->reduce.holder[o].memory);
    lki_arena_release(&t->arena);
}

static void begin(table *t)
{
    for (int o = 0; o < t->reduce.holders; o++) lki_reduce_begin(&t->reduce, o);
}

/* In pieces, which are formed in the same memory. */
static void join_replica(const table *t, const gradients *g, float *left, int bucket, int64_t r)
{
    float scratch;
    for (int64_t i = t->reduce.border[bucket]; i < t->reduce.border[bucket + 1]; i++) {
        scratch = g->of[r][i];
        add(1, left + i, &scratch);
    }
    joined++;
}

static void push_replica(table *t, const gradients *g, int holder, int bucket, int64_t r)
{
    const lki_tree_node leaf = {.lo = r, .hi = r + 1};
    const int64_t first = t->reduce.border[bucket], end = t->reduce.border[bucket + 1];
    if (g->absent[r]) {
        lki_reduce_push(&t->reduce, holder, bucket, leaf, NULL);
        return;
    }
    float *array = lki_reduce_left(&t->reduce, holder, bucket);
    if (array != NULL) {
        join_replica(t, g, array, bucket, r);
    } else {
        array = lki_reduce_array(&t->reduce, holder, bucket);
        memcpy(array + first, g->of[r] + first, (size_t)(end - first) * sizeof *array);
    }
    const lki_holder *own = &t->reduce.holder[holder];
    assert_in_range(array - own->memory, 0, (own->arrays - 1) * FLOATS);
    lki_reduce_push(&t->reduce, holder, bucket, leaf, array);
}

/* The maximal nodes of the holder's range, and nothing else. */
static void check_held(const table *t, int holder, int bucket)
{
    const lki_holder *own = &t->reduce.holder[holder];
    const lki_holding *h = &own->holding[bucket];
    int64_t at = own->first;
    for (int i = 0; i < h->held_count; i++) {
        const lki_tree_node node = lki_tree_maximal(t->reduce.replicas, at, own->last);
        assert_int_equal(h->held[i].node.lo, at);
        assert_int_equal(h->held[i].node.hi, node.hi);
        at = node.hi;
    }
    assert_int_equal(at, own->last);
    assert_true(h->held_count <= own->arrays);
}

static void check_sums(const gradients *g, lki_tree_node node, const float *sums, int64_t first,
                       int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float expected;
        const bool present = tree_sum(g, node.lo, node.hi, (int)(first + i), &expected);
        assert_int_equal(present, sums != NULL);
        if (present) assert_memory_equal(&expected, &sums[i], sizeof expected);
    }
}

/* Every range of the whole tree, from the last to the first. */
static void check_totals(const table *t, const gradients *g)
{
    const lki_tree_node all = {.lo = 0, .hi = g->replicas};
    for (int b = RANGES - 1; b >= 0; b--) {
        const int64_t first = range[b], count = range[b + 1] - first;
        check_sums(g, all, lki_reduce_total(&t->reduce, all, first, count), first, count);
    }
}

static void push_holder(table *t, const gradients *g, int holder, int bucket)
{
    const lki_holder *own = &t->reduce.holder[holder];
    for (int64_t r = own->first; r < own->last; r++) push_replica(t, g, holder, bucket, r);
    check_held(t, holder, bucket);
}

/* The borders of holders as bits: bit r is set where a holder begins at replica r + 1. */
static int holders_of(unsigned bits, int64_t replicas, int64_t *start)
{
    int holders = 0;
    start[0] = 0;
    for (int64_t r = 1; r < replicas; r++)
        if (bits & (1u << (r - 1))) start[++holders] = r;
    start[++holders] = replicas;
    return holders;
}

/* Every way to cut up to 13 replicas into holders, and many ways to cut up to 20. */
static void any_holders_same_bits(void **state)
{
    lkt_random random = lkt_random_make("any_holders_same_bits", 31);
    static const int64_t whole[] = {0, FLOATS};
    gradients g;
    (void)state;
    for (int64_t v = 1; v <= MOST; v++) {
        const unsigned ways = 1u << (v - 1);
        for (unsigned bits = 0; bits < ways; bits += v <= 13 ? 1 : (unsigned)1 + ways / 4096) {
            int64_t start[MOST + 1];
            table t;
            draw(&g, &random, v, bits % 2 == 1);
            table_make(&t, v, holders_of(bits, v, start), start, 1, whole);
            additions = 0;
            begin(&t);
            for (int o = t.reduce.holders - 1; o >= 0; o--) push_holder(&t, &g, o, 0);
            check_totals(&t, &g);
            assert_int_equal(additions, FLOATS * additions_of(&g, 0, v));
            table_free(&t);
        }
    }
}

/* The holder's next replica in a bucket, drawn among those that still lack some: so buckets are ahead of
 * each other by any number of replicas. */
static void push_in_any_order(table *t, const gradients *g, lkt_random *random)
{
    int64_t next[MOST][BUCKETS], left = 0;
    for (int o = 0; o < t->reduce.holders; o++)
        for (int b = 0; b < BUCKETS; b++) {
            next[o][b] = t->reduce.holder[o].first;
            left += t->reduce.holder[o].last - t->reduce.holder[o].first;
        }
    while (left > 0) {
        const int o = (int)lkt_random_below(random, t->reduce.holders);
        const int b = (int)lkt_random_below(random, BUCKETS);
        if (next[o][b] == t->reduce.holder[o].last) continue;
        push_replica(t, g, o, b, next[o][b]++);
        left--;
    }
    for (int o = 0; o < t->reduce.holders; o++)
        for (int b = 0; b < BUCKETS; b++) check_held(t, o, b);
}

/* Step after step, with the same table: a sum leaves nothing behind. */
static void buckets_in_any_order(void **state)
{
    lkt_random random = lkt_random_make("buckets_in_any_order", 32);
    gradients g;
    (void)state;
    for (int k = 0; k < 300; k++) {
        const int64_t v = lkt_random_from(&random, 1, MOST);
        int64_t start[MOST + 1];
        table t;
        table_make(&t, v, holders_of((unsigned)lkt_random_bits(&random), v, start), start, BUCKETS,
                   borders);
        for (int step = 0; step < 3; step++) {
            draw(&g, &random, v, step > 0);
            if (step == 2) memset(g.absent, true, sizeof g.absent);
            begin(&t);
            push_in_any_order(&t, &g, &random);
            check_totals(&t, &g);
        }
        table_free(&t);
    }
}

/* A step that ended in the middle has taken arrays and pushed little. */
static void begins_again_in_the_middle(void **state)
{
    lkt_random random = lkt_random_make("begins_again_in_the_middle", 33);
    static const int64_t start[] = {0, 3, 13};
    gradients g;
    table t;
    (void)state;
    table_make(&t, 13, 2, start, BUCKETS, borders);
    for (int64_t most = 0; most <= 10; most++) {
        draw(&g, &random, 13, true);
        lki_reduce_begin(&t.reduce, 1);
        for (int64_t r = 3; r < 3 + most; r++) push_replica(&t, &g, 1, (int)(most % BUCKETS), r);
        if (most < 10) (void)lki_reduce_array(&t.reduce, 1, (int)(most % BUCKETS));
        begin(&t);
        for (int o = 0; o < 2; o++)
            for (int b = 0; b < BUCKETS; b++) push_holder(&t, &g, o, b);
        check_totals(&t, &g);
    }
    table_free(&t);
}

static const float *array_of(table *t, int bucket)
{
    const float *left = lki_reduce_left(&t->reduce, 0, bucket);
    return left != NULL ? left : lki_reduce_array(&t->reduce, 0, bucket);
}

/* Where all buckets have the same replicas they take the same array for the next: one for backward. */
static void one_array_for_all_buckets(void **state)
{
    lkt_random random = lkt_random_make("one_array_for_all_buckets", 34);
    gradients g;
    (void)state;
    for (int64_t v = 1; v <= MOST; v++) {
        const int64_t start[] = {0, v};
        table t;
        table_make(&t, v, 1, start, BUCKETS, borders);
        draw(&g, &random, v, v % 2 == 0);
        begin(&t);
        for (int64_t r = 0; r < v; r++) {
            const float *array[BUCKETS];
            for (int b = 0; b < BUCKETS; b++) {
                const int bucket = (b + (int)r) % BUCKETS;
                array[b] = g.absent[r] ? NULL : array_of(&t, bucket);
                push_replica(&t, &g, 0, bucket, r);
            }
            for (int b = 1; b < BUCKETS; b++) assert_ptr_equal(array[0], array[b]);
        }
        check_totals(&t, &g);
        table_free(&t);
    }
}

/* What one process holds of a bucket, node by node, becomes what a holder of the other's table holds: the
 * bucket has arrays of its own there. */
static void send(const table *from, const gradients *g, table *to, int holder, int bucket)
{
    static float arrived[BUCKETS][MOST][FLOATS];
    const int64_t first = borders[bucket], count = borders[bucket + 1] - first;
    const int64_t end = to->reduce.holder[holder].last;
    for (int64_t at = to->reduce.holder[holder].first; at < end;) {
        const lki_tree_node node = lki_tree_maximal(g->replicas, at, end);
        const float *sums = lki_reduce_total(&from->reduce, node, first, count);
        float *array = sums != NULL ? arrived[bucket][at] : NULL;
        check_sums(g, node, sums, first, count);
        if (array != NULL) memcpy(array + first, sums, (size_t)count * sizeof *sums);
        lki_reduce_push(&to->reduce, holder, bucket, node, array);
        at = node.hi;
    }
    check_held(to, holder, bucket);
}

/*
 * As between processes: each forms the maximal nodes of its range, which need not be a subtree, from what
 * its workers hold, and gives them away; whoever has everybody's nodes forms the whole sum. A holder of
 * what arrives has no arrays.
 */
static void nodes_travel(void **state)
{
    lkt_random random = lkt_random_make("nodes_travel", 35);
    gradients g;
    (void)state;
    for (int64_t v = 2; v <= MOST; v++) {
        for (int64_t cut = 1; cut < v; cut++) {
            const int64_t ours[] = {0, cut / 2, cut, v};
            const int64_t theirs[] = {cut, cut + (v - cut) / 3, v};
            table here, there;
            draw(&g, &random, v, cut % 2 == 0);
            table_make(&here, v, 3, ours, BUCKETS, borders);
            table_make(&there, v, 2, theirs, BUCKETS, borders);
            free(here.reduce.holder[2].memory);
            here.reduce.holder[2].memory = NULL;
            begin(&here);
            begin(&there);
            for (int b = 0; b < BUCKETS; b++) {
                for (int o = 0; o < 2; o++) push_holder(&here, &g, o, b);
                for (int o = 0; o < 2; o++) push_holder(&there, &g, o, b);
                send(&there, &g, &here, 2, b);
            }
            check_totals(&here, &g);
            table_free(&here);
            table_free(&there);
        }
    }
}

/* A holder of arrays that are not its own may get a process's replicas one by one, too. */
static void replicas_of_others_are_merged(void **state)
{
    lkt_random random = lkt_random_make("replicas_of_others_are_merged", 36);
    static const int64_t start[] = {0, MOST};
    static float array[MOST][FLOATS];
    gradients g;
    table t;
    (void)state;
    table_make(&t, MOST, 1, start, BUCKETS, borders);
    free(t.reduce.holder[0].memory);
    t.reduce.holder[0].memory = NULL;
    draw(&g, &random, MOST, true);
    memcpy(array, g.of, sizeof array);
    begin(&t);
    for (int b = 0; b < BUCKETS; b++) {
        for (int64_t r = 0; r < MOST; r++)
            lki_reduce_push(&t.reduce, 0, b, (lki_tree_node){.lo = r, .hi = r + 1},
                            g.absent[r] ? NULL : array[r]);
        check_held(&t, 0, b);
    }
    check_totals(&t, &g);
    table_free(&t);
}

static int without(void **state)
{
    (void)state;
    joins = false;
    return 0;
}

static int joining(void **state)
{
    (void)state;
    joins = true;
    return 0;
}

/* Whether what went before has joined any. */
static int has_joined(void **state)
{
    (void)state;
    return (joined > 0) == joins ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_holders_same_bits),
        cmocka_unit_test(buckets_in_any_order),
        cmocka_unit_test(begins_again_in_the_middle),
        cmocka_unit_test(one_array_for_all_buckets),
        cmocka_unit_test(nodes_travel),
        cmocka_unit_test(replicas_of_others_are_merged),
    };
    return cmocka_run_group_tests(tests, without, has_joined) +
           cmocka_run_group_tests_name("joined", tests, joining, has_joined);
}
