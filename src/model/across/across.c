/* Several ranks that train one model: the memory for what they exchange. */
#include "model/across/across.h"

#include <string.h>

#include "base/check.h"
#include "model/model.h"
#include "numeric/tree.h"
#include "program/rows.h"

enum {
    BUCKET_BYTES = 1 << 20,
    BUCKETS = 20,    /* of a kind, */
    MORE_BUCKETS = 2 /* and those that end where rows that occur begin and end */
};
/* Behind the first that is given back, which is waited for at the end, all others may be sent, in two rounds, and given back;
 * a number of a flight comes back after LKI_MAX_FLIGHTS - 1. */
_Static_assert(3 * (2 * BUCKETS + MORE_BUCKETS) <= LKI_MAX_FLIGHTS - 2,
               "a flight is waited for before its number comes back");

static int64_t aligned(int64_t floats)
{
    return (int64_t)(lki_align((size_t)floats * sizeof(float)) / sizeof(float));
}

/* Floats of a bucket, which its last rows may exceed: so that there are not many more than BUCKETS of a kind. */
static int64_t bucket_floats(const lks_model *model, int64_t all)
{
    const size_t bytes = model->opts.bucket_bytes;
    const int64_t even = all / BUCKETS + 1;
    const int64_t wanted = bytes > 0 && bytes < BUCKET_BYTES
                               ? (int64_t)(bytes / sizeof(float)) + 1
                               : (int64_t)((bytes > 0 ? bytes : BUCKET_BYTES) / sizeof(float));
    return (int64_t)lki_align((size_t)(even > wanted ? even : wanted));
}

/* One more than is asked for; NULL behind a failure, which `status` keeps. */
static void *list(lks_model *model, lks_status *status, size_t count, size_t size)
{
    void *memory = NULL;
    if (*status == LKS_OK)
        *status = lki_arena_alloc(&model->arena, &memory, (count + 1) * size, "buckets of sums");
    return memory;
}

/* The first segment in whose backward floats [at, at + count) of the array change. */
static int first_segment(const lks_model *model, int64_t at, int64_t count)
{
    int first = model->program.segments;
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        if (weight->offset < 0 || weight->offset >= at + count ||
            weight->offset + weight->count <= at)
            continue;
        const int part = model->program.stage[weight->stage].first;
        const int segment = model->program.part[part].segment;
        first = segment < first ? segment : first;
    }
    return first;
}

/* Where the bucket of sums by replica begins that ends there: the first one is what is left over. */
static int64_t near_begin(const lks_model *model, int64_t end, int64_t size)
{
    return lki_spread_floor(model, 0, end > size ? end - size : 0);
}

lks_status lki_across_near(lks_model *model)
{
    lki_across *across = model->across;
    const int64_t floats = model->gradient_count, size = bucket_floats(model, floats);
    lks_status status = LKS_OK;
    for (int64_t end = floats; end > 0; end = near_begin(model, end, size)) model->buckets++;
    const int near = across->near = model->buckets;
    model->border = list(model, &status, (size_t)near, sizeof *model->border);
    across->segment_of = list(model, &status, (size_t)near, sizeof(int));
    across->pushed = list(model, &status, (size_t)near, sizeof(atomic_int));
    LKI_TRY(status);
    model->border[near] = floats;
    for (int b = 0; b < near; b++) {
        const int64_t end = model->border[near - b], at = near_begin(model, end, size);
        model->border[near - 1 - b] = at;
        across->segment_of[b] = first_segment(model, at, end - at);
    }
    return LKS_OK;
}

/* How many rows of a stage's first weight have a place, */
static int64_t rows_of(const lks_model *model, int s)
{
    const lki_sparse *sparse = lki_sparse_of(model, s);
    return sparse != NULL ? sparse->most
                          : model->weight[model->program.stage[s].weight[0]].shape.dim[0];
}

/* and how many floats that of its weight in a slot takes. */
static int64_t rows_room(const lks_model *model, int s, int slot)
{
    const lki_sparse *sparse = lki_sparse_of(model, s);
    return aligned(sparse != NULL ? sparse->most * sparse->units
                                  : model->weight[model->program.stage[s].weight[slot]].count);
}

/* Places in the arrays of sums by rows, and how many stages have some. */
static int place_rows(lks_model *model)
{
    lki_across *across = model->across;
    int stages = 0;
    for (int s = 0; s < model->program.stages; s++) {
        const lki_stage *stage = &model->program.stage[s];
        if (!lki_stage_forms_rows(stage)) continue;
        for (int p = 0; p < stage->cluster->param_count; p++) {
            across->rows_at[stage->weight[p]] = across->rows_count;
            across->rows_count += rows_room(model, s, p);
        }
        stages++;
    }
    return stages;
}

/* Ends the bucket that has these chunks, if it has any. */
static void end_bucket(lki_across *across, int chunks, const int64_t *end, int64_t *begin)
{
    if (across->chunk_of[across->far] < chunks) *begin = end[across->far++];
}

/* Cuts rows of stages into buckets of so many floats; a bucket may have the last rows of one and the first
 * of the next: a chunk ends a stage or a bucket. What a stage has beside its first parameter goes with its
 * last rows; what is no whole unit of a spread optimizer with the next bucket. Where rows are those that occur, buckets are
 * of these alone, as their sizes change. */
static void cut_rows(lks_model *model, int64_t size, int64_t *end)
{
    lki_across *across = model->across;
    int chunks = 0;
    int64_t begin = 0;
    for (int s = 0; s < model->program.stages; s++) {
        const lki_stage *stage = &model->program.stage[s];
        if (!lki_stage_forms_rows(stage)) continue;
        const lki_weight *weight = &model->weight[stage->weight[0]];
        const int last = stage->cluster->param_count - 1;
        const int64_t rows = rows_of(model, s), row = weight->count / weight->shape.dim[0];
        const int64_t at = across->rows_at[stage->weight[0]];
        const int64_t full = size + lki_spread_unit(model, weight) - 1;
        const bool apart = lki_sparse_of(model, s) != NULL;
        if (apart) end_bucket(across, chunks, end, &begin);
        for (int64_t r = 0, count; r < rows; r += count) {
            const int64_t room = (begin + full - at + row - 1) / row - r; /* at least one */
            count = room < rows - r ? room : rows - r;
            across->chunk[chunks++] = (lki_chunk){.stage = s, .first = r, .count = count};
            end[across->far] = r + count < rows ? lki_spread_floor(model, 1, at + (r + count) * row)
                                                : across->rows_at[stage->weight[last]] +
                                                      rows_room(model, s, last);
            across->chunk_of[across->far + 1] = chunks;
            if (end[across->far] >= begin + size) end_bucket(across, chunks, end, &begin);
        }
        if (apart) end_bucket(across, chunks, end, &begin);
    }
    end_bucket(across, chunks, end, &begin);
}

/* Buckets by replica and by rows, with their sizes. */
static lks_status cut(lks_model *model)
{
    lki_across *across = model->across;
    const int near = across->near;
    int64_t *end;
    lks_status status = LKS_OK;
    across->rows_at = list(model, &status, (size_t)model->weights, sizeof(int64_t));
    LKI_TRY(status);
    LKI_TRY(lki_sparse_choose(model));
    const int stages = place_rows(model);
    const int64_t size = bucket_floats(model, across->rows_count);
    const size_t most = (size_t)(across->rows_count / size) + 1 +
                        (across->sparse != NULL ? MORE_BUCKETS : 0);
    across->chunk = list(model, &status, (size_t)stages + most, sizeof(lki_chunk));
    across->chunk_of = list(model, &status, most, sizeof(int));
    end = list(model, &status, most, sizeof *end);
    LKI_TRY(status);
    cut_rows(model, size, end);
    const int buckets = near + across->far;
    across->array_of = list(model, &status, (size_t)buckets, sizeof(int));
    across->at = list(model, &status, (size_t)buckets, sizeof(int64_t));
    across->count = list(model, &status, (size_t)buckets, sizeof(int64_t));
    LKI_TRY(status);
    for (int b = 0; b < near; b++) {
        across->at[b] = model->border[near - 1 - b];
        across->count[b] = model->border[near - b] - across->at[b];
    }
    for (int b = near; b < buckets; b++) {
        across->array_of[b] = 1;
        across->at[b] = b == near ? 0 : end[b - near - 1];
        across->count[b] = end[b - near] - across->at[b];
    }
    return LKS_OK;
}

static size_t rows_bytes(const lki_across *across)
{
    return lki_times((size_t)lki_ranks_own(&across->sums) * sizeof(float),
                     (size_t)across->rows_count);
}

static size_t stats_bytes(const lki_across *across)
{
    return (size_t)(across->sums.node_of[across->ranks] * across->stats_count) * sizeof(double);
}

lks_status lki_across_plan(lks_model *model)
{
    lki_across *across = model->across;
    const lki_program *program = &model->program;
    if (across == NULL || program->loss == NULL) return LKS_OK;
    if (!program->backend->memory->host)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' cannot train in several processes, as its memory is not the "
                        "host's; choose another device, or use one process",
                        program->backend->name);
    if (model->opts.reduction == LKS_REDUCTION_LIBRARY && !lki_comm_sums(across->comm))
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "reduction: library leaves sums to what joins the processes, which here "
                        "has none; start them by mpirun or srun, or use reduction: strict");
    if (!lki_sums_across(model)) return LKS_OK;
    void *memory;
    across->stats_count = program->stats_count / program->replicas;
    LKI_TRY(cut(model));
    LKI_TRY(lki_spread_plan(model));
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, 2 * (size_t)across->ranks * sizeof(lki_piece),
                            "pieces of ranks"));
    across->outgoing = memory;
    across->incoming = across->outgoing + across->ranks;
    lks_status status = LKS_OK;
    across->forming = list(model, &status, (size_t)model->workers, sizeof(lki_forming));
    LKI_TRY(status);
    for (int w = 0; w < model->workers; w++) {
        model->worker[w].local.formed = lki_across_formed;
        model->worker[w].local.formed_user = &across->forming[w];
    }
    return LKS_OK;
}

lks_status lki_across_ranges(lks_model *model)
{
    lki_across *across = model->across;
    void *memory;
    if (across == NULL || lki_averages(model) || model->program.loss == NULL) return LKS_OK;
    LKI_TRY(lki_arena_alloc(&model->ranges, &memory, (size_t)across->ranks * sizeof(void *),
                            "arrays of ranks"));
    across->base = memory;
    if (model->common != NULL) return LKS_OK;
    LKI_TRY(lki_arena_alloc(&model->ranges, &memory, (size_t)across->ranks * sizeof(int),
                            "hosts of ranks"));
    int *host = memory;
    for (int r = 0; r < across->ranks; r++) host[r] = lki_comm_host(across->comm, r);
    const bool library = model->opts.reduction == LKS_REDUCTION_LIBRARY;
    const lki_ranks_opts opts = {.comm = across->comm,
                                 .backend = model->program.backend,
                                 .replicas = model->program.replicas,
                                 .border = across->start,
                                 .buckets = across->near + across->far,
                                 .count = across->count,
                                 .cut = across->spread != NULL ? across->spread->cut : NULL,
                                 .host = library ? NULL : host};
    LKI_TRY(lki_ranks_make(&across->sums, &model->ranges, &opts));
    across->sums.library = library;
    LKI_TRY(lki_arena_alloc(&model->ranges, &memory,
                            (size_t)lki_ranks_own(&across->sums) * sizeof(float *),
                            "nodes of ranks"));
    across->values = memory;
    across->bytes = lki_plus(lki_ranks_bytes(&across->sums),
                             lki_plus(rows_bytes(across), lki_align(stats_bytes(across))));
    return LKS_OK;
}

size_t lki_across_bytes(const lks_model *model)
{
    return model->across != NULL ? model->across->bytes : 0;
}

/* What travels lies behind each other: the arrays of workers, then those by rows. */
static void place_arrays(lks_model *model, char *at)
{
    for (int w = 0; w < model->workers; w++) {
        model->reduce.holder[w].memory = (float *)(void *)at;
        at += lki_reduce_bytes(&model->reduce, w);
    }
    model->across->rows = (float *)(void *)at;
}

/* Whether all ranks see the arrays of all. Where new parameters travel, so do sums. */
static lks_status share(lks_model *model, size_t bytes, bool *shared)
{
    lki_across *across = model->across;
    *shared = false;
    if (lks_comm_local_size(across->comm) < across->ranks ||
        model->opts.exchange == LKS_EXCHANGE_NONE || across->sums.library || across->spread != NULL)
        return LKS_OK;
    LKI_TRY(lki_comm_share(across->comm, bytes, across->base));
    *shared = true;
    for (int r = 0; r < across->ranks; r++) *shared = *shared && across->base[r] != NULL;
    return LKS_OK;
}

lks_status lki_across_allocate(lks_model *model)
{
    lki_across *across = model->across;
    size_t arrays, own;
    bool shared;
    void *memory;
    if (model->common != NULL) return lki_common_arrays(model);
    if (!lki_sums_across(model) || model->program.loss == NULL) return LKS_OK;
    arrays = rows_bytes(across);
    for (int w = 0; w < model->workers; w++) arrays += lki_reduce_bytes(&model->reduce, w);
    LKI_TRY(share(model, arrays, &shared));
    const size_t received = shared ? 0 : lki_ranks_bytes(&across->sums);
    across->bytes = received + rows_bytes(across) + lki_align(stats_bytes(across));
    own = received + lki_align(stats_bytes(across)) + (shared ? 0 : arrays);
    LKI_TRY(lki_alloc(model->context, &memory, own, "what ranks exchange"));
    across->memory = memory;
    across->memory_bytes = own;
    across->stats = (double *)(void *)(across->memory + received);
    if (shared)
        lki_ranks_share(&across->sums, across->base);
    else
        lki_ranks_place(&across->sums, memory);
    place_arrays(model, shared ? across->base[across->rank]
                               : across->memory + received + lki_align(stats_bytes(across)));
    return LKS_OK;
}

void lki_across_release(lks_model *model)
{
    lki_across *across = model->across;
    if (across == NULL) return;
    if (across->base != NULL && model->forks == lki_forks()) {
        (void)!lki_ranks_reuse(&across->sums); /* nobody reads it any more */
        lki_comm_unshare(across->comm, across->base[across->rank]);
    }
    lki_free(model->context, across->memory, across->memory_bytes);
}
