/* Ranks that compile a model meet: they compare what it is, and share its replicas. */
#include <string.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "model/across/across.h"
#include "model/across/digest.h"
#include "model/model.h"
#include "numeric/hash.h"

static lks_status meet_alloc(lks_model *model)
{
    const size_t ranks = (size_t)lks_comm_size(model->opts.comm);
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, sizeof(lki_across), "what ranks exchange"));
    model->across = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (ranks + 1) * sizeof(int64_t), "ranks"));
    model->across->start = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, ranks * sizeof(lki_word), "words of ranks"));
    model->across->word = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, ranks * sizeof(double), "norms of ranks"));
    model->across->norm = memory;
    const size_t borders = (size_t)model->opts.replicas * (size_t)model->opts.accumulate + 1;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, borders * sizeof(int64_t), "workers of ranks"));
    model->across->border = memory;
    return LKS_OK;
}

/* The digest of the first `count` nodes. */
static uint64_t digest_nodes(const lks_graph *graph, int64_t count)
{
    uint64_t digest = 0;
    for (const lki_node *node = graph->first; count > 0; node = node->next, count--)
        digest = lki_digest_node(digest, node);
    return digest;
}

enum { MOST_NUMBERS = 14 };
_Static_assert(MOST_NUMBERS * sizeof(int64_t) <= sizeof(lki_word), "they come where words do");

/* A number that all ranks must have the same of, if it has a name. */
typedef struct number {
    const char *name;
    int64_t value;
} number;

/* Tells these of this rank to all, so that all end in the same way; numbers of the last call stay in `word`. */
static lks_status compare(lki_across *across, const number *numbers, int count)
{
    int64_t own[MOST_NUMBERS] = {0};
    const int64_t *all = (const int64_t *)(void *)across->word; /* nobody has a word yet */
    char who[LKI_WHO_SIZE];
    for (int i = 0; i < count; i++) own[i] = numbers[i].value;
    LKI_TRY(lki_comm_gather(across->comm, own, sizeof own, across->word, "what a model is"));
    for (int i = 0; i < count; i++)
        for (int r = 1; r < across->ranks && numbers[i].name != NULL; r++)
            if (all[r * MOST_NUMBERS + i] != all[i])
                return LKI_FAIL(LKS_E_MISMATCH,
                                "%s compiles a model with %s %lld, rank 0 with %lld; all ranks "
                                "must compile the same",
                                lki_comm_who(across->comm, r, who), numbers[i].name,
                                (long long)all[r * MOST_NUMBERS + i], (long long)all[i]);
    return LKS_OK;
}

/* Of these numbers of the last call: the first rank whose number is not that of rank 0; 0: there is none. */
static int find_odd(const lki_across *across, int at)
{
    const int64_t *all = (const int64_t *)(const void *)across->word;
    for (int r = 1; r < across->ranks; r++)
        if (all[r * MOST_NUMBERS + at] != all[at]) return r;
    return 0;
}

/* The same of a digest, which says nothing itself. */
static lks_status compared_digest(const lki_across *across, int at, const char *what)
{
    char who[LKI_WHO_SIZE];
    const int odd = find_odd(across, at);
    if (odd == 0) return LKS_OK;
    return LKI_FAIL(
        LKS_E_MISMATCH,
        "%s compiles a model with another %s than rank 0; all ranks must compile the same",
        lki_comm_who(across->comm, odd, who), what);
}

/* Of graphs of equally many nodes, which differ on rank `odd`: the first node that does, found by halving, on all ranks alike. */
static lks_status name_node(lki_across *across, const lks_graph *graph, int odd)
{
    int64_t equal = 0, unequal = graph->count;
    char who[LKI_WHO_SIZE], line[LKS_LINE_SIZE];
    while (unequal - equal > 1) {
        const int64_t middle = (equal + unequal) / 2;
        LKI_TRY(compare(across, &(number){NULL, (int64_t)digest_nodes(graph, middle)}, 1));
        const int other = find_odd(across, 0);
        if (other == 0) {
            equal = middle;
        } else {
            unequal = middle;
            odd = other;
        }
    }
    const lki_node *node = graph->first;
    while (node->index < equal) node = node->next;
    return LKI_FAIL(
        LKS_E_MISMATCH,
        "%s compiles another layer %lld than rank 0, and all ranks must compile the same; "
        "on rank %d it is '%s': %s",
        lki_comm_who(across->comm, odd, who), (long long)unequal, across->rank, node->name,
        lks_tensor_line(&node->out, 1, line, sizeof line));
}

/* What is computed, from which numbers, and by which kernels. */
static lks_status compare_graphs(const lks_model *model, const lks_graph *graph)
{
    enum { DEVICE, NODES };
    lki_across *across = model->across;
    const lks_model_opts *o = &model->opts;
    const lks_kernel_opts *k = &o->kernels;
    const char *device = model->context->device;
    const number of[] = {[DEVICE] = {NULL, (int64_t)lki_hash(device, strlen(device))},
                         [NODES] = {NULL, (int64_t)digest_nodes(graph, graph->count)},
                         {"seed", (int64_t)lks_context_seed(model->context)},
                         {"layers:", graph->count},
                         {"the loss at layer", o->loss != NULL ? o->loss->node->index : -1},
                         {"the output at layer", o->output != NULL ? o->output->node->index : -1},
                         {"kernels.winograd", k->winograd},
                         {"kernels.single", k->single},
                         {"kernels.all_terms", k->all_terms},
                         {"kernels.bf16", k->bf16},
                         {"kernels.f16", k->f16},
                         {"kernels.bf16_storage", k->bf16_storage},
                         {"loss_scale", (int64_t)o->loss_scale},
                         {"loss_scale_steps", o->loss_scale_steps}};
    LKI_TRY(compare(across, of, sizeof of / sizeof *of));
    LKI_TRY(compared_digest(across, DEVICE, "device"));
    const int odd = find_odd(across, NODES);
    return odd == 0 ? LKS_OK : name_node(across, graph, odd);
}

/* The workers and the weight of a rank, as it has told them. */
static int64_t workers_of(const lki_across *across, int rank)
{
    return ((const int64_t *)(const void *)across->word)[rank * MOST_NUMBERS];
}

static double weight_of(const lki_across *across, int rank)
{
    double weight;
    memcpy(&weight, (const int64_t *)(const void *)across->word + rank * MOST_NUMBERS + 1,
           sizeof weight);
    return weight;
}

/* Every worker gets a replica at least, and what it weighs of all; equal weights share as without ranks. */
static void cut_replicas(lki_across *across, int64_t replicas)
{
    double all = 0, before = 0;
    int64_t worker = 0;
    for (int r = 0; r < across->ranks; r++)
        all += weight_of(across, r) * (double)workers_of(across, r);
    for (int r = 0; r < across->ranks; r++) {
        if (r == across->rank) across->first = (int)worker;
        across->start[r] = across->border[worker];
        for (int64_t w = workers_of(across, r); w > 0; w--) {
            before += weight_of(across, r);
            int64_t end = (int64_t)((double)replicas * before / all);
            const int64_t least = across->border[worker++] + 1;
            const int64_t most = replicas - (across->workers - worker);
            end = end < least ? least : end > most ? most : end;
            across->border[worker] = worker == across->workers ? replicas : end;
        }
    }
    across->start[across->ranks] = replicas;
}

static lks_status partition(lks_model *model)
{
    lki_across *across = model->across;
    const lks_model_opts *o = &model->opts;
    const int replicas = o->replicas * o->accumulate;
    int64_t weight, workers = 0;
    memcpy(&weight, &o->weight, sizeof weight);
    LKI_TRY(compare(across,
                    (const number[]){{NULL, o->workers},
                                     {NULL, weight},
                                     {"replicas", o->replicas},
                                     {"accumulate", o->accumulate},
                                     {"global_batch", o->global_batch},
                                     {"hash_every", o->hash_every},
                                     {"exchange", o->exchange},
                                     {"reduction", o->reduction},
                                     {"balance", o->balance},
                                     {"average_every", o->average_every},
                                     {"shard", o->shard},
                                     {"bucket_bytes", (int64_t)o->bucket_bytes}},
                    12));
    for (int r = 0; r < across->ranks; r++) workers += workers_of(across, r);
    if (workers > replicas)
        return LKI_FAIL(LKS_E_INVALID,
                        "%lld workers of %d ranks cannot share %d replica%s: a worker runs whole "
                        "replicas; use fewer ranks or workers, or replicas: %lld (other bits)",
                        (long long)workers, across->ranks, replicas, LKI_S(replicas),
                        (long long)workers);
    across->workers = (int)workers;
    cut_replicas(across, replicas);
    return LKS_OK;
}

lks_status lki_across_meet(lks_comm *comm, lks_model *model, const lks_graph *graph,
                           lks_status status)
{
    if (comm == NULL || lks_comm_size(comm) == 1) return status;
    if (status == LKS_OK) status = meet_alloc(model);
    LKI_TRY(lks_comm_agree(comm, status));
    lki_across *across = model->across;
    across->comm = comm;
    across->rank = lks_comm_rank(comm);
    across->ranks = lks_comm_size(comm);
    LKI_TRY(compare_graphs(model, graph));
    return partition(model);
}

lks_status lki_across_check(lks_model *model)
{
    lki_across *across = model->across;
    if (across == NULL) return LKS_OK;
    LKI_TRY(compare(across,
                    (const number[]){{NULL, (int64_t)lki_digest_update(model)},
                                     {"frozen parameters:", lki_frozen(model)},
                                     {"gradients by replica:", model->gradient_count},
                                     {"gradients by rows:", across->rows_count},
                                     {"sums of blocks and rows:",
                                      across->spread != NULL ? across->spread->told : 0}},
                    5));
    return compared_digest(across, 0,
                           "update (optimizer, clipping, average, decay and rates of groups)");
}
