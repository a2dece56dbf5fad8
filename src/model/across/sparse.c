/* Which rows of an embedding occur on any rank: see sparse.h. */
#include "model/across/sparse.h"

#include <string.h>

#include "base/check.h"
#include "model/model.h"
#include "model/update.h"
#include "numeric/hash.h"
#include "program/rows.h"

enum { BITS = 64 }; /* of a word */

/* Rows that may occur in a batch; 0: not so few that it is worth while, or it is no embedding. */
static int64_t most_rows(const lks_model *model, const lki_stage *stage)
{
    if (!lki_stage_forms_rows(stage) || !stage->kernel->lists) return 0;
    const int64_t rows = model->weight[stage->weight[0]].shape.dim[0];
    const int64_t tokens = lks_shape_elements(&stage->cluster->in[0]->shape);
    const int64_t most = model->opts.global_batch * tokens;
    return most <= rows / 2 ? most : 0;
}

static void *sparse_list(lks_model *model, lks_status *status, size_t count, size_t size)
{
    void *memory = NULL;
    if (*status == LKS_OK)
        *status = lki_arena_alloc(&model->arena, &memory, count * size, "rows that occur");
    return memory;
}

lks_status lki_sparse_choose(lks_model *model)
{
    lki_across *across = model->across;
    lki_sparse chosen = {.most = 0};
    int64_t gain = 0;
    lks_status status = LKS_OK;
    if (lki_spreads(model) || model->opts.reduction == LKS_REDUCTION_LIBRARY ||
        model->opts.exchange == LKS_EXCHANGE_NONE)
        return LKS_OK;
    for (int s = 0; s < model->program.stages; s++) {
        const lki_stage *stage = &model->program.stage[s];
        const int64_t most = most_rows(model, stage);
        if (most == 0) continue;
        const lks_shape *shape = &model->weight[stage->weight[0]].shape;
        if ((shape->dim[0] - most) * shape->dim[1] <= gain) continue;
        gain = (shape->dim[0] - most) * shape->dim[1];
        chosen = (lki_sparse){.stage = s,
                              .rows = shape->dim[0],
                              .units = shape->dim[1],
                              .tokens = lks_shape_elements(&stage->cluster->in[0]->shape),
                              .most = most,
                              .words = (shape->dim[0] + BITS - 1) / BITS};
    }
    if (gain == 0) return LKS_OK;
    across->sparse = sparse_list(model, &status, 1, sizeof *across->sparse);
    chosen.bits = sparse_list(model, &status, (size_t)(across->ranks * (chosen.words + 1)),
                              sizeof *chosen.bits);
    chosen.row = sparse_list(model, &status, (size_t)chosen.most, sizeof *chosen.row);
    if (status == LKS_OK) *across->sparse = chosen;
    return status;
}

const lki_sparse *lki_sparse_of(const lks_model *model, int stage)
{
    const lki_sparse *sparse = model->across != NULL ? model->across->sparse : NULL;
    return sparse != NULL && sparse->stage == stage ? sparse : NULL;
}

static uint64_t *bits_of(const lki_sparse *sparse, int rank)
{
    return sparse->bits + rank * (sparse->words + 1);
}

static uint64_t hash_of(const lki_sparse *sparse, int rank)
{
    return lki_hash(bits_of(sparse, rank), (size_t)sparse->words * sizeof *sparse->bits);
}

/* Of this rank's samples; of none where it has failed, as nobody updates then. */
static void mark_own(const lks_model *model, const lki_sparse *sparse, uint64_t *bits, bool formed)
{
    memset(bits, 0, (size_t)sparse->words * sizeof *bits);
    if (!formed) return;
    const int64_t *start = model->share_start;
    const int64_t samples = start[model->pass.last] - start[model->pass.first];
    const int32_t *token = (const int32_t *)(const void *)lki_update_kept(
        model, model->program.stage[sparse->stage].in[0]);
    for (int64_t t = 0; t < samples * sparse->tokens; t++)
        bits[token[t] / BITS] |= UINT64_C(1) << token[t] % BITS;
}

lks_status lki_sparse_tell(lks_model *model, bool formed)
{
    lki_across *across = model->across;
    lki_sparse *sparse = across->sparse;
    if (sparse == NULL) return LKS_OK;
    const size_t bytes = (size_t)(sparse->words + 1) * sizeof *sparse->bits;
    uint64_t *own = bits_of(sparse, across->rank);
    int pieces = 0;
    mark_own(model, sparse, own, formed);
    own[sparse->words] = hash_of(sparse, across->rank);
    for (int r = 0; r < across->ranks; r++) {
        if (r == across->rank) continue;
        across->outgoing[pieces] = (lki_piece){.rank = r, .data = own, .bytes = bytes};
        across->incoming[pieces++] = (lki_piece){
            .rank = r, .data = bits_of(sparse, r), .bytes = bytes};
        across->sums.bytes += (int64_t)bytes;
    }
    return lki_comm_start(across->comm, &sparse->flight, across->outgoing, pieces, across->incoming,
                          pieces, "rows that occur");
}

/* The rows of all ranks. What has changed on its way would make ranks wait for rows that nobody sends. */
static lks_status list_rows(const lki_across *across, lki_sparse *sparse)
{
    sparse->count = 0;
    for (int r = 0; r < across->ranks; r++)
        if (bits_of(sparse, r)[sparse->words] != hash_of(sparse, r))
            return lki_comm_changed(across->comm, r);
    for (int64_t w = 0; w < sparse->words; w++) {
        uint64_t any = 0;
        for (int r = 0; r < across->ranks; r++) any |= bits_of(sparse, r)[w];
        for (; any != 0; any &= any - 1)
            sparse->row[sparse->count++] = (int32_t)(w * BITS + __builtin_ctzll(any));
    }
    return LKS_OK;
}

lks_status lki_sparse_hear(lks_model *model)
{
    lki_across *across = model->across;
    lki_sparse *sparse = across->sparse;
    if (sparse == NULL) return LKS_OK;
    LKI_TRY(lki_comm_wait(across->comm, sparse->flight));
    LKI_TRY(list_rows(across, sparse));
    for (int b = 0; b < across->far; b++) {
        const lki_chunk *chunk = &across->chunk[across->chunk_of[b]];
        if (chunk->stage == sparse->stage)
            lki_ranks_resize(&across->sums, across->near + b,
                             lki_sparse_here(sparse, chunk->first, chunk->count) * sparse->units);
    }
    return LKS_OK;
}

/* The first of the rows that occur which is `row` or comes behind it. */
static int64_t find_row(const lki_sparse *sparse, int64_t row)
{
    int64_t low = 0, high = sparse->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (sparse->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void lki_sparse_spread(const lki_sparse *sparse, const float *sums, int64_t first, int64_t count,
                       float *out)
{
    const int64_t units = sparse->units, end = first + count;
    memset(out, 0, (size_t)count * sizeof *out);
    for (int64_t i = find_row(sparse, first / units); i < sparse->count; i++) {
        const int64_t row = sparse->row[i] * units;
        if (row >= end) break;
        const int64_t from = row > first ? row : first, to = row + units < end ? row + units : end;
        memcpy(out + from - first, sums + i * units + from - row,
               (size_t)(to - from) * sizeof *out);
    }
}
