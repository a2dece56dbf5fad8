/* What ranks of one host have in common. */
#include "model/common/common.h"

#include <string.h>

#include "base/check.h"
#include "model/model.h"
#include "numeric/hash.h"
#include "numeric/tree.h"
#include "program/rows.h"

static void *take(lki_common *common, size_t bytes)
{
    char *at = common->memory != NULL ? common->memory + common->bytes : NULL;
    common->bytes = lki_plus(common->bytes, lki_align(bytes));
    return at;
}

/* Whether gradients by rows are formed of the batch itself, of which a rank has only its part. */
static bool reads_x(const lki_program *program)
{
    for (int s = 0; s < program->stages; s++)
        if (lki_stage_forms_rows(&program->stage[s]) &&
            program->value[program->stage[s].in[0]].place == LKI_AT_BATCH_X)
            return true;
    return false;
}

/* Every array's place; first of all, without memory, how much that is. */
static void place(const lks_model *model, lki_common *common)
{
    const lki_program *program = &model->program;
    const size_t ranks = (size_t)model->across->ranks;
    const size_t batch = (size_t)program->global_batch;
    common->bytes = 0;
    common->meeting.seat = take(common, lki_comm_meeting_bytes(model->across->comm));
    for (int i = 0; i < 2; i++) {
        common->word[i] = take(common, ranks * sizeof(lki_word));
        common->tasks[i] = take(common, (1 + (size_t)model->across->workers) * LKI_ALIGN);
    }
    common->parameters = take(common, model->parameter_bytes);
    common->buffers = take(common, model->buffer_bytes);
    common->stats = take(common, (size_t)program->stats_count * sizeof(double));
    common->packed = take(common, program->packed_bytes);
    common->all = take(common, program->all_bytes);
    if (reads_x(program))
        common->x = take(common, lki_times(lki_tensor_bytes(program->graph->input), batch));
    common->sums[0] = take(common, (size_t)(model->blocks + 1) * sizeof(double));
    for (int i = 0; i < LKI_ROW_SUMS; i++)
        common->sums[i + 1] = take(common, (size_t)(model->rows + 1) * sizeof(double));
}

/* Sums by replica of all workers of all ranks: these lie in memory of their own. */
static size_t arrays_bytes(const lks_model *model)
{
    const lki_across *across = model->across;
    size_t arrays = 0;
    for (int p = 0; p < across->workers; p++)
        arrays += (size_t)lki_tree_slots_joined(model->program.replicas, across->border[p],
                                                across->border[p + 1]);
    return lki_times(arrays, (size_t)model->gradient_count * sizeof(float));
}

/* Where replicas meet in a pass, ranks send each other what they give there: such models have all of their own. */
static bool wanted(const lks_model *model)
{
    const lki_across *across = model->across;
    return across != NULL && model->program.loss != NULL && !lki_averages(model) &&
           model->program.meetings == 0 && model->opts.shard != LKS_SHARD_OFF &&
           model->opts.exchange != LKS_EXCHANGE_NONE &&
           model->opts.reduction == LKS_REDUCTION_STRICT &&
           lks_comm_local_size(across->comm) == across->ranks;
}

/* Of what packed parameters look like, and where arrays lie: kernels choose by the processor. */
static lks_status mark(const lks_model *model, uint64_t *out)
{
    const lki_program *program = &model->program;
    char text[64] = "";
    if (program->backend->fingerprint != NULL)
        LKI_TRY(program->backend->fingerprint(text, sizeof text));
    uint64_t parts[] = {lki_hash(text, strlen(text)), program->packed_bytes, program->all_bytes, 0};
    for (int s = 0; s < program->stages; s++) {
        const char *algorithm = program->stage[s].plan->needs.algorithm;
        parts[3] = lki_hash(algorithm, strlen(algorithm)) + 31 * parts[3];
    }
    *out = lki_hash(parts, sizeof parts);
    return LKS_OK;
}

/* Whether all ranks would pack the same. */
static lks_status compare(const lks_model *model, bool *same)
{
    const lki_across *across = model->across;
    uint64_t own = 0, *all = (uint64_t *)(void *)across->word; /* nobody has a word yet */
    *same = true;
    LKI_TRY(lks_comm_agree(across->comm, mark(model, &own)));
    LKI_TRY(lki_comm_gather(across->comm, &own, sizeof own, all, "what a model is"));
    for (int r = 0; r < across->ranks; r++) *same = *same && all[r] == own;
    return LKS_OK;
}

/* From here on the workers of all ranks share what those of one process do. */
static lks_status join(lks_model *model, lki_common *common)
{
    lki_across *across = model->across;
    lki_program *program = &model->program;
    common->memory = common->base[0];
    place(model, common);
    common->gradient = common->memory + common->bytes;
    if (across->rank == 0) memset(common->memory, 0, (size_t)(common->packed - common->memory));
    program->packed = common->packed;
    program->stats = common->stats;
    program->all = common->all;
    model->first_part = across->first;
    model->parts = across->workers;
    model->buckets = 1;
    model->border[1] = model->gradient_count;
    for (int w = 0; w < model->workers; w++) model->worker[w].local.formed = NULL;
    model->common = common;
    across->spread = NULL;
    LKI_TRY(lks_comm_agree(across->comm, LKS_OK)); /* before anyone says there that it leaves */
    lki_comm_meet_at(across->comm, &common->meeting, common->meeting.seat);
    return LKS_OK;
}

/* Then the optimizer is spread, if that is asked for (model/spread/). */
static lks_status not_made(const lks_model *model)
{
    if (model->across == NULL || model->program.loss == NULL || model->opts.shard != LKS_SHARD_ON ||
        lki_spreads(model))
        return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the optimizer cannot be sharded with %s: every process keeps all of it; leave "
                    "sharding to be chosen",
                    lki_averages(model)                             ? "average_every"
                    : model->opts.reduction != LKS_REDUCTION_STRICT ? "reduction: library"
                                                                    : "comm: none");
}

lks_status lki_common_make(lks_model *model)
{
    lki_across *across = model->across;
    void *memory;
    if (!wanted(model)) return not_made(model);
    const size_t size = sizeof(lki_common) + (size_t)across->ranks * sizeof(void *);
    const lks_status status = lki_arena_alloc(&model->arena, &memory, size,
                                              "what ranks have in common");
    LKI_TRY(lks_comm_agree(across->comm, status));
    lki_common *common = memory;
    common->base = (void **)(common + 1);
    lki_program_place_all(&model->program);
    bool same;
    LKI_TRY(compare(model, &same));
    if (!same) return not_made(model);
    place(model, common);
    /* Gradients take no memory before they are written; without arrays the others would not find room. */
    const size_t all = lki_plus(lki_plus(common->bytes, lki_gradients_bytes(model)),
                                arrays_bytes(model));
    LKI_TRY(lki_comm_share(across->comm, across->rank == 0 ? all : LKI_ALIGN, common->base));
    for (int r = 0; r < across->ranks; r++) {
        if (common->base[r] != NULL) continue;
        lki_comm_unshare(across->comm, common->base[across->rank]);
        return not_made(model);
    }
    return join(model, common);
}

/* Each rank has the arrays of its workers. */
static void place_arrays(lks_model *model)
{
    const lki_across *across = model->across;
    int rank = -1;
    char *at = NULL;
    for (int p = 0; p < model->parts; p++) {
        while (rank < 0 || across->border[p] == across->start[rank + 1]) at = across->base[++rank];
        model->reduce.holder[p].memory = (float *)(void *)at;
        at += lki_reduce_bytes(&model->reduce, p);
    }
}

lks_status lki_common_arrays(lks_model *model)
{
    lki_across *across = model->across;
    across->bytes = 0;
    for (int w = 0; w < model->workers; w++)
        across->bytes += lki_reduce_bytes(&model->reduce, model->first_part + w);
    LKI_TRY(lki_comm_share(across->comm, across->bytes, across->base));
    for (int r = 0; r < across->ranks; r++)
        if (across->base[r] == NULL)
            return LKI_FAIL(LKS_E_NOMEM,
                            "the ranks of this host have no %zu bytes each of memory in common for "
                            "sums of gradients; give /dev/shm more, or do not shard the optimizer",
                            across->bytes);
    place_arrays(model);
    return LKS_OK;
}

void lki_common_release(lks_model *model)
{
    lki_common *common = model->common;
    lki_program *program = &model->program;
    if (common == NULL) return;
    lki_comm_meet_no_more(model->across->comm, &common->meeting);
    if (model->forks == lki_forks())
        lki_comm_unshare(model->across->comm, common->base[model->across->rank]);
    program->packed = common->own_packed;
    program->stats = NULL;
    model->parameters = model->gradient_memory = NULL;
    model->buffers = NULL;
    model->common = NULL;
}

size_t lki_common_bytes(const lks_model *model)
{
    const lki_program *program = &model->program;
    const lki_common *common = model->common;
    const size_t own = common->own_packed != NULL ? program->packed_bytes : 0;
    return (common->bytes + model->gradient_bytes) / (size_t)model->across->ranks +
           program->kept_bytes + own;
}

void lki_common_place_x(const lks_model *model)
{
    const size_t bytes = lki_tensor_bytes(model->program.graph->input);
    if (model->common->x == NULL) return;
    memcpy(model->common->x + (size_t)model->pass.begin * bytes, model->pass.x,
           (size_t)lki_own_samples(model, &model->pass) * bytes);
}

/* The next step's. Nobody looks at them any more, as they were the last one's and all have said a word since then. */
static void clear_tasks(const lks_model *model)
{
    char *tasks = model->common->tasks[model->common->turn ^ 1];
    if (model->across->rank == 0) memset(tasks, 0, LKI_ALIGN);
    memset(tasks + (1 + (size_t)model->first_part) * LKI_ALIGN, 0,
           (size_t)model->workers * LKI_ALIGN);
}

/* A word is read until its rank has said the next one, which so has another place. */
lks_status lki_common_words(lks_model *model, const lki_word *own)
{
    lki_across *across = model->across;
    lki_common *common = model->common;
    LKI_TRY(lki_comm_failure(across->comm)); /* others may still read what this rank said last */
    lki_word *words = common->word[common->turn ^= 1];
    words[across->rank] = *own;
    LKI_TRY(lki_comm_meet(across->comm, &common->meeting, "words of a step"));
    memcpy(across->word, words, (size_t)across->ranks * sizeof *words);
    clear_tasks(model);
    return LKS_OK;
}

/* The nodes of a holder are the maximal ones of its range, and stand in its first arrays. */
static void hold(lks_model *model, int holder)
{
    const lki_reduce *reduce = &model->reduce;
    const lki_holder *other = &reduce->holder[holder];
    const int64_t *start = model->share_start;
    float *values = other->memory;
    lki_reduce_begin(&model->reduce, holder);
    for (int64_t at = other->first; at < other->last;) {
        const lki_tree_node node = lki_tree_maximal(reduce->replicas, at, other->last);
        const bool absent = start[node.lo] == start[node.hi];
        lki_reduce_push(&model->reduce, holder, 0, node, absent ? NULL : values);
        if (!absent) values += model->gradient_count;
        at = node.hi;
    }
}

void lki_common_hold(lks_model *model)
{
    for (int p = 0; p < model->parts; p++)
        if (p < model->first_part || p >= model->first_part + model->workers) hold(model, p);
}

lks_status lki_common_write(lks_model *model, void *to, const void *in, size_t bytes,
                            lks_status status)
{
    lki_common *common = model->common;
    LKI_TRY(lks_comm_agree(model->across->comm, status));
    if (model->across->rank == 0) memcpy(to, in, bytes);
    common->fresh = model->prepared = false;
    return lki_comm_meet(model->across->comm, &common->meeting, "state that is written");
}
