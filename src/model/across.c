/* Several ranks that train one model: who they are, and the memory for what they exchange. */
#include "model/across.h"

#include "base/check.h"
#include "model/model.h"
#include "numeric/tree.h"

enum {
    BUCKET = 1 << 20, /* floats, where that makes */
    BUCKETS = 24,     /* at most so many, and a few more */
};

lks_status lki_across_agree(lks_comm *comm, lks_status status)
{
    return comm != NULL && lks_comm_size(comm) > 1 ? lks_comm_agree(comm, status) : status;
}

int64_t lki_across_first(const lks_model *model, int worker)
{
    const lki_across *across = model->across;
    return across != NULL ? across->border[across->first + worker]
                          : lki_share(worker, model->opts.workers,
                                      (int64_t)model->opts.replicas * model->opts.accumulate);
}

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
    const size_t borders = (size_t)model->opts.replicas * (size_t)model->opts.accumulate + 1;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, borders * sizeof(int64_t), "workers of ranks"));
    model->across->border = memory;
    return LKS_OK;
}

enum { MOST_NUMBERS = 5 };

/* A number that all ranks must have the same of. */
typedef struct number {
    const char *name;
    int64_t value;
} number;

/* Tells these of this rank to all, so that all end in the same way; ranks' numbers stay in `word`. */
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

/* Every worker of every rank gets replicas. */
static lks_status partition(lks_model *model)
{
    lki_across *across = model->across;
    const lks_model_opts *o = &model->opts;
    const int replicas = o->replicas * o->accumulate;
    const int64_t *count = (const int64_t *)(void *)across->word;
    LKI_TRY(compare(across,
                    (const number[]){{NULL, o->workers},
                                     {"replicas", o->replicas},
                                     {"accumulate", o->accumulate},
                                     {"global_batch", o->global_batch},
                                     {"hash_every", o->hash_every}},
                    MOST_NUMBERS));
    int64_t workers = 0;
    for (int r = 0; r < across->ranks; r++) {
        if (r == across->rank) across->first = (int)workers;
        workers += count[r * MOST_NUMBERS];
    }
    if (workers > replicas)
        return LKI_FAIL(LKS_E_INVALID,
                        "%lld workers of %d ranks cannot share %d replica%s: a worker runs whole "
                        "replicas; use fewer ranks or workers, or replicas: %lld (other bits)",
                        (long long)workers, across->ranks, replicas, LKI_S(replicas),
                        (long long)workers);
    across->workers = (int)workers;
    for (int64_t p = 0; p <= workers; p++) across->border[p] = lki_share(p, workers, replicas);
    workers = 0;
    for (int r = 0; r < across->ranks; r++) {
        across->start[r] = across->border[workers];
        workers += count[r * MOST_NUMBERS];
    }
    across->start[across->ranks] = replicas;
    return LKS_OK;
}

lks_status lki_across_meet(lks_comm *comm, lks_model *model, lks_status status)
{
    if (comm == NULL || lks_comm_size(comm) == 1) return status;
    if (status == LKS_OK) status = meet_alloc(model);
    LKI_TRY(lks_comm_agree(comm, status));
    lki_across *across = model->across;
    across->comm = comm;
    across->rank = lks_comm_rank(comm);
    across->ranks = lks_comm_size(comm);
    return partition(model);
}

lks_status lki_across_check(lks_model *model)
{
    lki_across *across = model->across;
    int64_t parameters = 0;
    if (across == NULL) return LKS_OK;
    for (int w = 0; w < model->weights; w++) parameters += model->weight[w].count;
    return compare(across,
                   (const number[]){{"parameters:", parameters},
                                    {"gradients by replica:", model->gradient_count},
                                    {"gradients by rows:", across->rows_count},
                                    {"statistics:", across->stats_count}},
                   4);
}

/* Cuts an array of so many floats into buckets; their number. NULL: counts them. */
static int cut_array(lki_across *across, int array, int64_t floats, int64_t size, int64_t *count,
                     int buckets)
{
    for (int64_t at = 0; at < floats; at += size, buckets++) {
        if (count == NULL) continue;
        across->array_of[buckets] = array;
        across->at[buckets] = at;
        count[buckets] = floats - at < size ? floats - at : size;
    }
    return buckets;
}

static lks_status cut(lks_model *model)
{
    lki_across *across = model->across;
    const int64_t floats[2] = {model->gradient_count, across->rows_count};
    const int64_t even = (floats[0] + floats[1]) / BUCKETS + 1;
    const int64_t size = even > BUCKET ? (int64_t)lki_align((size_t)even) : BUCKET;
    int buckets = 0;
    void *memory;
    for (int a = 0; a < 2; a++) buckets = cut_array(across, a, floats[a], size, NULL, buckets);
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (size_t)buckets * sizeof(int), "buckets"));
    across->array_of = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (size_t)buckets * sizeof(int64_t), "buckets"));
    across->at = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (size_t)buckets * sizeof(int64_t), "buckets"));
    int64_t *count = memory;
    buckets = 0;
    for (int a = 0; a < 2; a++) buckets = cut_array(across, a, floats[a], size, count, buckets);
    return lki_ranks_make(&across->sums, &model->arena, across->comm, model->program.backend,
                          model->program.replicas, across->start, buckets, count);
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
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, ((size_t)model->weights + 1) * sizeof(int64_t),
                            "sums by rows"));
    across->rows_at = memory;
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        if (!weight->trained || weight->offset >= 0) continue;
        across->rows_at[w] = across->rows_count;
        across->rows_count += (int64_t)(lki_align((size_t)weight->count * sizeof(float)) /
                                        sizeof(float));
    }
    across->stats_count = program->stats_count / program->replicas;
    LKI_TRY(cut(model));
    LKI_TRY(lki_arena_alloc(&model->arena, &memory,
                            (size_t)lki_ranks_own(&across->sums) * sizeof(float *),
                            "nodes of ranks"));
    across->values = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, 2 * (size_t)across->ranks * sizeof(lki_piece),
                            "pieces of ranks"));
    across->outgoing = memory;
    across->incoming = across->outgoing + across->ranks;
    across->bytes = lki_plus(lki_ranks_bytes(&across->sums),
                             lki_plus(rows_bytes(across), lki_align(stats_bytes(across))));
    return LKS_OK;
}

size_t lki_across_bytes(const lks_model *model)
{
    return model->across != NULL ? model->across->bytes : 0;
}

lks_status lki_across_allocate(lks_model *model)
{
    lki_across *across = model->across;
    void *memory;
    if (across == NULL || model->program.loss == NULL) return LKS_OK;
    LKI_TRY(lki_alloc(model->context, &memory, across->bytes, "what ranks exchange"));
    across->memory = memory;
    lki_ranks_place(&across->sums, memory);
    char *at = across->memory + lki_ranks_bytes(&across->sums);
    across->rows = (float *)(void *)at;
    at += rows_bytes(across);
    across->stats = (double *)(void *)at;
    return LKS_OK;
}

void lki_across_release(lks_model *model)
{
    if (model->across != NULL)
        lki_free(model->context, model->across->memory, model->across->bytes);
}
