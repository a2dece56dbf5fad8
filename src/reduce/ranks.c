/* Sums between ranks: an exchange of slices, the tree over each, and a gathering of totals. */
#include "reduce/ranks.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"

enum { LINE = LKI_ALIGN / sizeof(float) };

void lki_ranks_begin(lki_ranks *ranks, const int64_t *start)
{
    for (int n = 0; n < ranks->node_of[ranks->ranks]; n++)
        ranks->absent[n] = start[ranks->node[n].lo] == start[ranks->node[n].hi];
    ranks->bytes = 0;
    for (int i = 0; i < 2 && ranks->round != NULL; i++) lki_ranks_begin(&ranks->round[i], start);
}

static int called(const lki_ranks *ranks, int rank)
{
    return ranks->member != NULL ? ranks->member[rank] : rank;
}

/* What was written before stands in memory in common before a notice of it, and nothing is read there before
 * the notice. (A fence would do; the thread sanitizer knows none.) */
static void in_order(lki_ranks *ranks)
{
    atomic_fetch_add_explicit(&ranks->notices, 1, memory_order_seq_cst);
}

typedef lks_status (*starter)(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                              const lki_piece *receive, int receives, const char *what);

static lks_status start(lki_ranks *ranks, lki_ranks_bucket *bucket, int *flight, int sends,
                        int receives, starter how, const char *what)
{
    for (int i = 0; i < sends; i++) ranks->bytes += (int64_t)bucket->outgoing[i].bytes;
    in_order(ranks);
    return how(ranks->comm, flight, bucket->outgoing, sends, bucket->incoming, receives, what);
}

static lks_status landed(lki_ranks *ranks, int flight)
{
    LKI_TRY(lki_comm_wait(ranks->comm, flight));
    in_order(ranks);
    return LKS_OK;
}

/* What a rank sends: slices that have floats. Absent nodes too: what travels depends on nothing that ranks
 * could have different ideas of. */
static int list_outgoing(const lki_ranks *ranks, lki_ranks_bucket *bucket, float *const *values)
{
    int pieces = 0;
    for (int r = 0; r < ranks->ranks; r++)
        for (int k = 0; k < lki_ranks_own(ranks); k++) {
            if (r == ranks->rank || lki_ranks_length(bucket, r) == 0) continue;
            bucket->outgoing[pieces++] = (lki_piece){.rank = called(ranks, r),
                                                     .data = values[k] + bucket->cut[r],
                                                     .bytes = (size_t)lki_ranks_length(bucket, r) *
                                                              sizeof(float)};
        }
    return pieces;
}

/* Everybody's nodes go into the table, those of others before they are there. */
static int list_incoming(const lki_ranks *ranks, lki_ranks_bucket *bucket, float *const *values)
{
    const int64_t own = lki_ranks_length(bucket, ranks->rank);
    float *room = bucket->received;
    int pieces = 0;
    for (int r = 0; r < ranks->ranks; r++) {
        lki_reduce_begin(&bucket->table, r);
        for (int n = ranks->node_of[r]; n < ranks->node_of[r + 1]; n++) {
            float *sums = r == ranks->rank
                              ? values[n - ranks->node_of[r]] + bucket->cut[ranks->rank]
                              : room;
            lki_reduce_push(&bucket->table, r, 0, ranks->node[n], ranks->absent[n] ? NULL : sums);
            if (r == ranks->rank) continue;
            room += bucket->room;
            if (own == 0) continue;
            bucket->incoming[pieces++] = (lki_piece){
                .rank = called(ranks, r), .data = sums, .bytes = (size_t)own * sizeof(float)};
        }
    }
    return pieces;
}

/* The places of all nodes, each rank's from it; their arrays stay where they are. */
static lks_status send_places(lki_ranks *ranks, lki_ranks_bucket *bucket, float *const *values)
{
    const int *of = ranks->node_of, own = lki_ranks_own(ranks);
    int pieces = 0;
    for (int k = 0; k < own; k++)
        bucket->place[of[ranks->rank] + k] = (char *)values[k] - (char *)ranks->base[ranks->rank];
    for (int r = 0; r < ranks->ranks; r++) {
        if (r == ranks->rank) continue;
        bucket->outgoing[pieces] = (lki_piece){.rank = r,
                                               .data = bucket->place + of[ranks->rank],
                                               .bytes = (size_t)own * sizeof(int64_t)};
        bucket->incoming[pieces++] = (lki_piece){.rank = r,
                                                 .data = bucket->place + of[r],
                                                 .bytes = (size_t)(of[r + 1] - of[r]) *
                                                          sizeof(int64_t)};
    }
    return start(ranks, bucket, &bucket->flight, pieces, pieces, lki_comm_start, "gradients");
}

/* The leftmost node that is not absent takes in all others. */
static void find_places(lki_ranks *ranks, lki_ranks_bucket *bucket)
{
    bucket->total = NULL;
    for (int r = 0; r < ranks->ranks; r++) {
        lki_reduce_begin(&bucket->table, r);
        for (int n = ranks->node_of[r]; n < ranks->node_of[r + 1]; n++) {
            float *sums = (float *)(void *)((char *)ranks->base[r] + bucket->place[n]);
            if (bucket->total == NULL && !ranks->absent[n]) bucket->total = sums;
            lki_reduce_push(&bucket->table, r, 0, ranks->node[n],
                            ranks->absent[n] ? NULL : sums + bucket->cut[ranks->rank]);
        }
    }
}

/* The first own node that is not absent takes in the others; where all are, there is nothing to add. */
static lks_status start_library(lki_ranks *ranks, lki_ranks_bucket *bucket, float *const *values)
{
    const bool *absent = ranks->absent + ranks->node_of[ranks->rank];
    const size_t bytes = (size_t)bucket->count * sizeof(float);
    float *sum = NULL;
    for (int k = 0; k < lki_ranks_own(ranks); k++) {
        if (absent[k]) continue;
        if (sum == NULL)
            sum = values[k];
        else if (values[k] != sum) /* sums were not formed, as something failed */
            ranks->backend->add(bucket->count, sum, values[k]);
    }
    bucket->total = sum != NULL ? sum : memset(values[0], 0, bytes);
    ranks->bytes += (int64_t)bytes;
    return lki_comm_all_reduce(ranks->comm, &bucket->flight, bucket->total, (size_t)bucket->count,
                               "gradients");
}

lks_status lki_ranks_send(lki_ranks *ranks, int b, float *const *values, float *total)
{
    lki_ranks_bucket *bucket = &ranks->bucket[b];
    if (ranks->library) return start_library(ranks, bucket, values);
    bucket->total = total;
    if (ranks->round != NULL) return lki_ranks_send(&ranks->round[0], b, values, total);
    bucket->own = values[0];
    if (ranks->base != NULL) return send_places(ranks, bucket, values);
    const int sends = list_outgoing(ranks, bucket, values);
    const int receives = list_incoming(ranks, bucket, values);
    return start(ranks, bucket, &bucket->flight, sends, receives, lki_comm_start, "gradients");
}

lks_status lki_ranks_arrive(lki_ranks *ranks, int b, int round)
{
    lki_ranks_bucket *bucket = &ranks->bucket[b];
    if (ranks->round != NULL) return lki_ranks_arrive(&ranks->round[round], b, 0);
    LKI_TRY(landed(ranks, bucket->flight));
    if (ranks->base != NULL) find_places(ranks, bucket);
    return LKS_OK;
}

lks_status lki_ranks_poll(lki_ranks *ranks, int b, int round, bool *landed)
{
    if (ranks->round != NULL) return lki_ranks_poll(&ranks->round[round], b, 0, landed);
    return lki_comm_poll(ranks->comm, ranks->bucket[b].flight, landed);
}

void lki_ranks_part(const lki_ranks *ranks, int b, int part, int parts, int64_t *first,
                    int64_t *count)
{
    const lki_ranks_bucket *bucket = &ranks->bucket[b];
    const int64_t own = lki_ranks_length(bucket, ranks->rank), lines = (own + LINE - 1) / LINE;
    const int64_t end = lki_share(part + 1, parts, lines) * LINE;
    *first = lki_share(part, parts, lines) * LINE;
    *count = (end < own ? end : own) - *first;
}

static bool forms_root(const lki_ranks *ranks)
{
    return ranks->form[0].hi - ranks->form[0].lo == ranks->replicas;
}

/* Where the total is to be, there may be a node: it has been added when the total is copied there. */
void lki_ranks_combine(lki_ranks *ranks, int b, int round, int part, int parts)
{
    lki_ranks_bucket *bucket = &ranks->bucket[b];
    int64_t first, count;
    if (ranks->round != NULL) lki_ranks_combine(&ranks->round[round], b, 0, part, parts);
    if (ranks->library || ranks->round != NULL) return;
    lki_ranks_part(ranks, b, part, parts, &first, &count);
    if (count <= 0) return;
    for (int k = 0; k < ranks->forms; k++) {
        const float *sums = lki_reduce_total(&bucket->table, ranks->form[k], first, count);
        float *total = bucket->total + bucket->cut[ranks->rank] + first;
        if (forms_root(ranks) && sums != total) memcpy(total, sums, (size_t)count * sizeof *total);
    }
}

/* What was formed of the own slice; one that is absent is not looked at. */
lks_status lki_ranks_next(lki_ranks *ranks, int b)
{
    const lki_ranks *round = &ranks->round[0];
    lki_ranks_bucket *bucket = &round->bucket[b];
    const int64_t at = bucket->cut[round->rank];
    for (int k = 0; k < round->forms; k++) {
        float *formed = lki_ranks_length(bucket, round->rank) > 0
                            ? lki_reduce_total(&bucket->table, round->form[k], 0, 0)
                            : NULL;
        bucket->formed[k] = formed != NULL ? formed : bucket->own + at;
    }
    return lki_ranks_send(&ranks->round[1], b, bucket->formed, bucket->total + at);
}

/* That something is done, to and from all. */
static lks_status send_notice(lki_ranks *ranks, lki_ranks_bucket *bucket, int *flight)
{
    int pieces = 0;
    for (int r = 0; r < ranks->ranks; r++) {
        if (r == ranks->rank) continue;
        bucket->outgoing[pieces] = (lki_piece){r, &bucket->token[ranks->rank], sizeof(int64_t)};
        bucket->incoming[pieces++] = (lki_piece){r, &bucket->token[r], sizeof(int64_t)};
    }
    return start(ranks, bucket, flight, pieces, pieces, lki_comm_start, "gradients");
}

/* A total that changes on its way makes one rank differ from the others; one that is handed on all of a host, so that nobody
 * could say which, and other values may be given anew before anybody looks. */
lks_status lki_ranks_give(lki_ranks *ranks, int b, float *values)
{
    lki_ranks_bucket *bucket = &ranks->bucket[b];
    const int64_t own = lki_ranks_length(bucket, ranks->rank);
    float *given = values != NULL ? values : bucket->total;
    int sends = 0, receives = 0;
    if (ranks->library) return LKS_OK;
    if (ranks->round != NULL) return lki_ranks_give(&ranks->round[1], b, NULL);
    if (ranks->base != NULL) return send_notice(ranks, bucket, &bucket->flight);
    for (int r = 0; r < ranks->ranks; r++) {
        if (r == ranks->rank) continue;
        if (own > 0)
            bucket->outgoing[sends++] = (lki_piece){.rank = called(ranks, r),
                                                    .data = given + bucket->cut[ranks->rank],
                                                    .bytes = (size_t)own * sizeof(float)};
        if (lki_ranks_length(bucket, r) > 0)
            bucket->incoming[receives++] = (lki_piece){
                .rank = called(ranks, r),
                .data = given + bucket->cut[r],
                .bytes = (size_t)lki_ranks_length(bucket, r) * sizeof(float)};
    }
    const bool handed_on = ranks->member != NULL && forms_root(ranks);
    return values != NULL ? start(ranks, bucket, &bucket->flight, sends, receives, lki_comm_start,
                                  "new parameters")
                          : start(ranks, bucket, &bucket->flight, sends, receives,
                                  handed_on ? lki_comm_start : lki_comm_start_bare, "gradients");
}

lks_status lki_ranks_hand_on(lki_ranks *ranks, int b)
{
    if (ranks->round == NULL) return LKS_OK;
    LKI_TRY(lki_ranks_finish(&ranks->round[1], b));
    return lki_ranks_give(&ranks->round[0], b, NULL);
}

lks_status lki_ranks_finish(lki_ranks *ranks, int b)
{
    if (ranks->round != NULL) return lki_ranks_finish(&ranks->round[0], b);
    return ranks->library ? LKS_OK : landed(ranks, ranks->bucket[b].flight);
}

lks_status lki_ranks_release(lki_ranks *ranks)
{
    if (ranks->base == NULL || ranks->ranks == 1) return LKS_OK;
    ranks->releases = true;
    return send_notice(ranks, &ranks->bucket[0], &ranks->release);
}

lks_status lki_ranks_reuse(lki_ranks *ranks)
{
    if (!ranks->releases) return LKS_OK;
    ranks->releases = false;
    return landed(ranks, ranks->release);
}
