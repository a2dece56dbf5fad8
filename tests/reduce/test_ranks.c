/*
 * Sums between ranks against the recursive sum over the tree: any ranks with any ranges, replicas without
 * samples, several buckets under way at once, messages late and out of order; slices of any size, and what
 * their owners make of totals given in the place of these.
 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "reduce/ranks.h"
#include "support/ranks/fake.h"

enum {
    MOST_REPLICAS = 13,
    MOST_RANKS = 8,
    BUCKETS = 3,
    FLOATS = 1200, /* of all buckets */
    PARTS = 3,     /* threads that combine */
    STEPS = 3,
};

static void add(int64_t count, float *left, const float *right)
{
    for (int64_t i = 0; i < count; i++) left[i] += right[i];
}
static const lki_backend adds = {.name = "adds", .add = add};

typedef struct question {
    int64_t replicas;
    int ranks;
    int64_t border[MOST_RANKS + 1];
    int64_t count[BUCKETS], at[BUCKETS];
    int64_t start[STEPS][MOST_REPLICAS + 1]; /* samples of replicas */
    float of[STEPS][MOST_REPLICAS][FLOATS];
    bool backwards;                          /* buckets are sent in the other order */
    bool cuts;                               /* slices are these; otherwise equal */
    int64_t cut[BUCKETS * (MOST_RANKS + 1)]; /* [BUCKETS][ranks + 1] */
    bool gives;                              /* the negative of totals */
    int each;                                /* ranks of a host; 0: nobody asks */
    bool
        mixed; /* there are two hosts, which have two ranks each in turns: only 4 are side by side */
} question;

/* The definition; false where no replica of the node has a sample. */
static bool tree_sum(const question *q, int step, int64_t lo, int64_t hi, int64_t i, float *out)
{
    float left, right;
    if (hi - lo == 1) {
        *out = q->of[step][lo][i];
        return q->start[step][lo] < q->start[step][hi];
    }
    int64_t middle = lo + 1;
    while (2 * (middle - lo) < hi - lo) middle = lo + 2 * (middle - lo);
    const bool has_left = tree_sum(q, step, lo, middle, i, &left);
    const bool has_right = tree_sum(q, step, middle, hi, i, &right);
    *out = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

static void draw(question *q, lkt_random *random, int64_t replicas, int ranks)
{
    *q = (question){.replicas = replicas, .ranks = ranks};
    for (int r = 0; r <= ranks; r++) q->border[r] = r;
    q->border[ranks] = replicas;
    for (int64_t spare = replicas - ranks; spare > 0;
         spare--) /* more for some rank before the last */
        for (int64_t r = lkt_random_from(random, 1, ranks); r < ranks; r++) q->border[r]++;
    q->count[0] = lkt_random_from(random, 1, 40); /* slices without floats */
    q->count[1] = lkt_random_from(random, 1, 700);
    q->count[2] = FLOATS - q->count[0] - q->count[1];
    for (int b = 1; b < BUCKETS; b++) q->at[b] = q->at[b - 1] + q->count[b - 1];
    q->backwards = lkt_random_below(random, 2) == 0;
    q->cuts = lkt_random_below(random, 2) == 0;
    q->gives = lkt_random_below(random, 2) == 0;
    if (lkt_random_below(random, 2) == 0) { /* hosts with as many ranks, or nearly */
        q->each = (int)lkt_random_from(random, 1, 4);
        q->mixed = lkt_random_below(random, 4) == 0;
        q->cuts = q->gives = false;
    }
    for (int b = 0; b < BUCKETS; b++) {
        int64_t *cut = q->cut + b * (ranks + 1);
        cut[ranks] = q->count[b];
        for (int r = 1; r < ranks; r++) cut[r] = lkt_random_from(random, cut[r - 1], q->count[b]);
    }
    for (int step = 0; step < STEPS; step++) {
        int64_t *start = q->start[step];
        for (int64_t v = 0; v < replicas; v++)
            start[v + 1] = start[v] + (step == 0 || lkt_random_below(random, 3) > 0);
        if (start[replicas] == 0) start[replicas] = 1;
        for (int64_t v = 0; v < replicas; v++)
            for (int i = 0; i < FLOATS; i++)
                q->of[step][v][i] = (float)lkt_random_real(random, -1, 1) *
                                    (float)(1 << lkt_random_below(random, 12));
    }
}

typedef struct rank {
    const question *q;
    lki_arena arena;
    lki_ranks ranks;
    float *nodes; /* [own nodes + 1][FLOATS]: the last is nobody's */
    void *memory;
    float given[FLOATS];
} rank;

/* What of a rank's sums there is before the exchange. */
static void fill(rank *self, int step)
{
    for (int k = 0; k < lki_ranks_own(&self->ranks); k++) {
        const lki_tree_node node = lki_ranks_node(&self->ranks, k);
        for (int i = 0; i < FLOATS; i++)
            if (!tree_sum(self->q, step, node.lo, node.hi, i, &self->nodes[k * FLOATS + i]))
                self->nodes[k * FLOATS + i] = NAN; /* nobody may read it */
    }
}

/* What this rank makes of its slice of a total, part by part; NULL: nothing. */
static float *make_given(rank *self, const float *total, int b)
{
    const question *q = self->q;
    const lki_ranks_bucket *bucket = &self->ranks.bucket[b];
    int64_t begin, count;
    if (!q->gives) return NULL;
    for (int part = 0; part < PARTS; part++) {
        lki_ranks_part(&self->ranks, b, part, PARTS, &begin, &count);
        begin += q->at[b] + bucket->cut[self->ranks.rank];
        for (int64_t i = begin; i < begin + count; i++) self->given[i] = -total[i];
    }
    return self->given + q->at[b];
}

static lks_status exchange(rank *self, const float *total_of, int step)
{
    lki_ranks *ranks = &self->ranks;
    const question *q = self->q;
    float *values[MOST_REPLICAS];
    lki_ranks_begin(ranks, q->start[step]);
    for (int i = 0; i < BUCKETS; i++) {
        const int b = q->backwards ? BUCKETS - 1 - i : i;
        for (int k = 0; k < lki_ranks_own(ranks); k++)
            values[k] = self->nodes + k * FLOATS + q->at[b];
        lks_status status = lki_ranks_send(ranks, b, values,
                                           (float *)(uintptr_t)total_of + q->at[b]);
        if (status != LKS_OK) return status;
    }
    for (int b = 0; b < BUCKETS; b++) {
        lks_status status = LKS_OK;
        for (int round = 0; round < lki_ranks_rounds(ranks) && status == LKS_OK; round++) {
            if (round > 0) status = lki_ranks_next(ranks, b);
            if (status == LKS_OK) status = lki_ranks_arrive(ranks, b, round);
            for (int part = PARTS - 1; part >= 0 && status == LKS_OK; part--)
                lki_ranks_combine(ranks, b, round, part, PARTS);
        }
        if (status == LKS_OK) status = lki_ranks_give(ranks, b, make_given(self, total_of, b));
        if (status != LKS_OK) return status;
    }
    for (int b = 0; b < BUCKETS; b++) {
        const lks_status status = lki_ranks_hand_on(ranks, b);
        if (status != LKS_OK) return status;
    }
    for (int b = BUCKETS - 1; b >= 0; b--) {
        const lks_status status = lki_ranks_finish(ranks, b);
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

static int check_total(const rank *self, const float *total, int step)
{
    for (int64_t i = 0; i < FLOATS; i++) {
        float expected;
        LKT_CHECK(tree_sum(self->q, step, 0, self->q->replicas, i, &expected));
        if (self->q->gives) expected = -expected;
        LKT_CHECK(
            memcmp(&expected, self->q->gives ? &self->given[i] : &total[i], sizeof expected) == 0);
    }
    return 0;
}

static int steps(rank *self)
{
    const question *q = self->q;
    const int own = lki_ranks_own(&self->ranks);
    for (int step = 0; step < STEPS; step++) {
        /* The total has an array of its own, or the place of one of the nodes. */
        const float *total = self->nodes + (step == 0 ? own : step % own) * FLOATS;
        fill(self, step);
        LKT_CHECK(exchange(self, total, step) == LKS_OK);
        const int result = check_total(self, total, step);
        if (result != 0) {
            print_error("step %d, %lld replicas, %d ranks\n", step, (long long)q->replicas,
                        q->ranks);
            return result;
        }
    }
    return 0;
}

static int begin(rank *self, lks_comm *comm)
{
    const question *q = self->q;
    int host[MOST_RANKS];
    for (int r = 0; r < q->ranks && q->each > 0; r++) host[r] = q->mixed ? r / 2 % 2 : r / q->each;
    const lki_ranks_opts opts = {.comm = comm,
                                 .backend = &adds,
                                 .replicas = q->replicas,
                                 .border = q->border,
                                 .buckets = BUCKETS,
                                 .count = q->count,
                                 .cut = q->cuts ? q->cut : NULL,
                                 .host = q->each > 0 ? host : NULL};
    LKT_CHECK(lki_ranks_make(&self->ranks, &self->arena, &opts) == LKS_OK);
    const bool rounds = q->mixed ? q->ranks == 4
                                 : q->each > 1 && q->each < q->ranks && q->ranks % q->each == 0;
    LKT_CHECK(lki_ranks_rounds(&self->ranks) == (rounds && q->each > 0 ? 2 : 1));
    const size_t own = (size_t)lki_ranks_own(&self->ranks) + 1;
    LKT_CHECK(lki_alloc(NULL, &self->memory, lki_ranks_bytes(&self->ranks), "received") == LKS_OK);
    self->nodes = malloc(own * FLOATS * sizeof *self->nodes);
    LKT_CHECK(self->nodes != NULL);
    lki_ranks_place(&self->ranks, self->memory);
    return 0;
}

static void end(rank *self)
{
    lki_free(NULL, self->memory, lki_ranks_bytes(&self->ranks));
    free(self->nodes);
    lki_arena_release(&self->arena);
}

static int body(lks_comm *comm, int number, void *user)
{
    rank self = {.q = user};
    (void)number;
    LKT_CHECK(comm != NULL);
    int result = begin(&self, comm);
    if (result == 0) result = steps(&self);
    end(&self);
    return result;
}

static void any_ranks_same_bits(void **state)
{
    static const int ranks[] = {2, 3, 4, 5, 6, 8};
    lkt_random random = lkt_random_make("any_ranks_same_bits", 41);
    question *q = malloc(sizeof *q);
    (void)state;
    assert_non_null(q);
    for (size_t p = 0; p < sizeof ranks / sizeof ranks[0]; p++)
        for (int64_t v = ranks[p]; v <= MOST_REPLICAS; v++)
            for (int delay = 0; delay <= 6; delay += 3) {
                draw(q, &random, v, ranks[p]);
                const lkt_hub_opts hub = {
                    .size = ranks[p], .seed = lkt_random_bits(&random), .delay = delay};
                lkt_ranks(&hub, NULL, body, q);
            }
    free(q);
}

/* One rank: it has the root, and nothing is sent. */
static void one_rank(void **state)
{
    lkt_random random = lkt_random_make("one_rank", 42);
    question *q = malloc(sizeof *q);
    (void)state;
    assert_non_null(q);
    for (int64_t v = 1; v <= MOST_REPLICAS; v++) {
        draw(q, &random, v, 1);
        lkt_ranks(&(lkt_hub_opts){.size = 1}, NULL, body, q);
    }
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_same_bits),
        cmocka_unit_test(one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
