/* Sums between ranks: who exchanges what with whom, and the memory for it. */
#include "reduce/ranks.h"

#include "base/check.h"

enum { LINE = LKI_ALIGN / sizeof(float) };

static lks_status make_list(lki_arena *arena, void **out, size_t count, size_t size)
{
    return lki_arena_alloc(arena, out, count * size, "sums between ranks");
}

/* The maximal nodes of every rank's range. */
static lks_status list_nodes(lki_ranks *ranks, lki_arena *arena, const int64_t *border)
{
    size_t most = 0;
    void *memory;
    for (int r = 0; r < ranks->ranks; r++)
        most += (size_t)lki_tree_slots(ranks->replicas, border[r], border[r + 1]);
    LKI_TRY(make_list(arena, &memory, most, sizeof(lki_tree_node)));
    ranks->node = memory;
    LKI_TRY(make_list(arena, &memory, most, sizeof(bool)));
    ranks->absent = memory;
    LKI_TRY(make_list(arena, &memory, (size_t)ranks->ranks + 1, sizeof(int)));
    ranks->node_of = memory;
    int nodes = 0;
    for (int r = 0; r < ranks->ranks; r++) {
        for (int64_t at = border[r]; at < border[r + 1]; at = ranks->node[nodes++].hi)
            ranks->node[nodes] = lki_tree_maximal(ranks->replicas, at, border[r + 1]);
        ranks->node_of[r + 1] = nodes;
    }
    return LKS_OK;
}

static int nodes_of_others(const lki_ranks *ranks)
{
    return ranks->node_of[ranks->ranks] - lki_ranks_own(ranks);
}

/* Equal slices, which begin at cache lines. */
static void cut_lines(const lki_ranks *ranks, lki_ranks_bucket *bucket)
{
    const int64_t lines = (bucket->count + LINE - 1) / LINE;
    for (int r = 0; r <= ranks->ranks; r++) {
        const int64_t at = lki_share(r, ranks->ranks, lines) * LINE;
        bucket->equal[r] = at < bucket->count ? at : bucket->count;
    }
}

static lks_status make_bucket(lki_ranks *ranks, lki_arena *arena, const int64_t *border, int b)
{
    lki_ranks_bucket *bucket = &ranks->bucket[b];
    const size_t others = (size_t)ranks->ranks - 1;
    void *memory;
    if (bucket->cut == NULL) {
        LKI_TRY(make_list(arena, &memory, (size_t)ranks->ranks + 1, sizeof(int64_t)));
        bucket->cut = bucket->equal = memory;
        cut_lines(ranks, bucket);
    }
    const int64_t own = bucket->cut[ranks->rank + 1] - bucket->cut[ranks->rank];
    bucket->room = (own + LINE - 1) / LINE * LINE;
    LKI_TRY(
        make_list(arena, &memory, others * (size_t)(lki_ranks_own(ranks) + 1), sizeof(lki_piece)));
    bucket->outgoing = memory;
    LKI_TRY(make_list(arena, &memory, others + (size_t)nodes_of_others(ranks), sizeof(lki_piece)));
    bucket->incoming = memory;
    LKI_TRY(make_list(arena, &memory, (size_t)ranks->node_of[ranks->ranks], sizeof(int64_t)));
    bucket->place = memory;
    LKI_TRY(make_list(arena, &memory, (size_t)ranks->ranks, sizeof(int64_t)));
    bucket->token = memory;
    LKI_TRY(make_list(arena, &memory, (size_t)ranks->forms, sizeof(float *)));
    bucket->formed = memory;
    bucket->table = (lki_reduce){.backend = ranks->backend, .replicas = ranks->replicas};
    LKI_TRY(lki_reduce_make(&bucket->table, arena, ranks->ranks, 1, (const int64_t[]){0, own}));
    for (int r = 0; r < ranks->ranks; r++)
        LKI_TRY(lki_reduce_assign(&bucket->table, arena, r, border[r], border[r + 1]));
    return LKS_OK;
}

/* What all of these form together. */
static lks_status list_forms(lki_ranks *ranks, lki_arena *arena, const int64_t *border)
{
    const int64_t last = border[ranks->ranks];
    void *memory;
    LKI_TRY(make_list(arena, &memory, (size_t)lki_tree_slots(ranks->replicas, border[0], last),
                      sizeof(lki_tree_node)));
    ranks->form = memory;
    for (int64_t at = border[0]; at < last; at = ranks->form[ranks->forms++].hi)
        ranks->form[ranks->forms] = lki_tree_maximal(ranks->replicas, at, last);
    return LKS_OK;
}

/* Ranks `member`, of which this is number `rank`, of as many replicas as the borders say. */
static lks_status make_exchange(lki_ranks *ranks, lki_arena *arena, const lki_ranks_opts *opts,
                                const int *member, int rank, int count)
{
    void *memory;
    *ranks = (lki_ranks){.backend = opts->backend,
                         .comm = opts->comm,
                         .replicas = opts->replicas,
                         .rank = rank,
                         .ranks = count,
                         .member = member,
                         .buckets = opts->buckets};
    LKI_TRY(list_nodes(ranks, arena, opts->border));
    LKI_TRY(list_forms(ranks, arena, opts->border));
    LKI_TRY(make_list(arena, &memory, (size_t)opts->buckets, sizeof(lki_ranks_bucket)));
    ranks->bucket = memory;
    for (int b = 0; b < opts->buckets; b++) {
        ranks->bucket[b].count = opts->count[b];
        if (opts->cut != NULL) ranks->bucket[b].cut = opts->cut + b * (count + 1);
        LKI_TRY(make_bucket(ranks, arena, opts->border, b));
    }
    return LKS_OK;
}

/* How many ranks each host has, if these are as many on all, several, and stand side by side; else 1. */
static int ranks_of_host(const lki_ranks_opts *opts)
{
    const int ranks = lks_comm_size(opts->comm);
    int each = 1;
    if (opts->host == NULL || opts->cut != NULL) return 1;
    while (each < ranks && opts->host[each] == opts->host[0]) each++;
    if (each == ranks || ranks % each != 0) return 1;
    for (int r = 0; r < ranks; r++)
        for (int s = 0; s < r; s++)
            if ((opts->host[r] == opts->host[s]) != (r / each == s / each)) return 1;
    return each;
}

/* The ranks of this host, and those of all hosts that have the same place there. */
static lks_status make_rounds(lki_ranks *ranks, lki_arena *arena, const lki_ranks_opts *opts,
                              int each)
{
    const int hosts = ranks->ranks / each, place = ranks->rank % each;
    const int first = ranks->rank - place;
    lki_ranks_opts own = *opts;
    void *memory;
    LKI_TRY(make_list(arena, &memory, 2, sizeof(lki_ranks)));
    lki_ranks *round = memory;
    LKI_TRY(make_list(arena, &memory, (size_t)(each + hosts), sizeof(int)));
    int *member = memory;
    for (int r = 0; r < each; r++) member[r] = first + r;
    for (int h = 0; h < hosts; h++) member[each + h] = h * each + place;
    own.border = opts->border + first;
    LKI_TRY(make_exchange(&round[0], arena, &own, member, place, each));
    LKI_TRY(make_list(arena, &memory, (size_t)hosts + 1, sizeof(int64_t)));
    int64_t *border = memory;
    for (int h = 0; h <= hosts; h++) border[h] = opts->border[h * each];
    LKI_TRY(make_list(arena, &memory, (size_t)opts->buckets, sizeof(int64_t)));
    int64_t *count = memory;
    for (int b = 0; b < opts->buckets; b++) count[b] = lki_ranks_length(&round[0].bucket[b], place);
    own.border = border;
    own.count = count;
    LKI_TRY(make_exchange(&round[1], arena, &own, member + each, first / each, hosts));
    ranks->round = round;
    return LKS_OK;
}

lks_status lki_ranks_make(lki_ranks *ranks, lki_arena *arena, const lki_ranks_opts *opts)
{
    const int each = ranks_of_host(opts);
    LKI_TRY(make_exchange(ranks, arena, opts, NULL, lks_comm_rank(opts->comm),
                          lks_comm_size(opts->comm)));
    return each > 1 ? make_rounds(ranks, arena, opts, each) : LKS_OK;
}

void lki_ranks_share(lki_ranks *ranks, void *const *base)
{
    ranks->base = base;
}

size_t lki_ranks_bytes(const lki_ranks *ranks)
{
    size_t bytes = 0;
    if (ranks->base != NULL || ranks->library) return 0;
    if (ranks->round != NULL)
        return lki_plus(lki_ranks_bytes(&ranks->round[0]), lki_ranks_bytes(&ranks->round[1]));
    for (int b = 0; b < ranks->buckets; b++)
        bytes += (size_t)(ranks->bucket[b].room * nodes_of_others(ranks)) * sizeof(float);
    return bytes;
}

void lki_ranks_place(lki_ranks *ranks, void *memory)
{
    float *at = memory;
    if (ranks->base != NULL || ranks->library) return;
    if (ranks->round != NULL) {
        lki_ranks_place(&ranks->round[0], memory);
        lki_ranks_place(&ranks->round[1], (char *)memory + lki_ranks_bytes(&ranks->round[0]));
        return;
    }
    for (int b = 0; b < ranks->buckets; b++) {
        ranks->bucket[b].received = at;
        at += ranks->bucket[b].room * nodes_of_others(ranks);
    }
}

void lki_ranks_resize(lki_ranks *ranks, int bucket, int64_t count)
{
    ranks->bucket[bucket].count = count;
    cut_lines(ranks, &ranks->bucket[bucket]);
    if (ranks->round == NULL) return;
    lki_ranks_resize(&ranks->round[0], bucket, count);
    lki_ranks_resize(&ranks->round[1], bucket,
                     lki_ranks_length(&ranks->round[0].bucket[bucket], ranks->round[0].rank));
}
