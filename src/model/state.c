/* The list of state, and its hash: docs/numerics.md "The hash". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "numeric/hash.h"
#include "numeric/tree.h"

static lks_status add_state(lks_model *model, lks_state_kind kind, const char *prefix,
                            const char *name, void **memory)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    lki_state *state = &model->state[model->states];
    LKI_TRY(lki_arena_string(&model->arena, &state->info.name, full));
    state->info.kind = kind;
    state->memory = memory;
    model->states++;
    return LKS_OK;
}

static void describe_last(lks_model *model, lks_dtype dtype, const lks_shape *shape)
{
    lks_state_info *info = &model->state[model->states - 1].info;
    info->dtype = dtype;
    info->shape = *shape;
    info->bytes = (size_t)lks_shape_elements(shape) * lks_dtype_size(dtype);
}

static lks_status list_buffers(lks_model *model, lki_stage *stage, const lki_node *node)
{
    for (int i = 0; i < node->buffer_count; i++) {
        char name[2 * LKI_NAME_SIZE];
        snprintf(name, sizeof name, "%s.%s", node->name, node->buffer[i].suffix);
        LKI_TRY(add_state(model, LKS_BUFFER, "", name, &stage->buffer[i]));
        describe_last(model, node->buffer[i].dtype, &node->buffer[i].shape);
    }
    return LKS_OK;
}

/* What is carried, of stages: each is of a node that carries, in graph order. */
static lks_status list_carried(lks_model *model)
{
    lki_program *program = &model->program;
    for (int s = 0; s < program->stages && model->carried.floats > 0; s++) {
        lki_stage *stage = &program->stage[s];
        const lki_node *node = lki_cluster_tail(stage->cluster);
        const lks_shape shape = LKS_SHAPE(program->global_batch, node->carries);
        char name[2 * LKI_NAME_SIZE];
        if (node->carries == 0) continue;
        snprintf(name, sizeof name, "%s.carried", node->name);
        LKI_TRY(add_state(model, LKS_CARRIED, "", name, (void **)&stage->carried[LKI_CARRIED_NOW]));
        describe_last(model, LKS_F32, &shape);
        model->state[model->states - 1].info.spread = model->across != NULL;
    }
    return LKS_OK;
}

/* Parameters and buffers of the nodes in graph order: so are the weights. */
static lks_status list_hashed(lks_model *model)
{
    lki_program *program = &model->program;
    int w = 0;
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        for (; w < model->weights && lki_weight_owner(model, &model->weight[w]) == node; w++) {
            lki_weight *weight = &model->weight[w];
            LKI_TRY(add_state(model, LKS_PARAMETER, "", weight->name, (void **)&weight->value));
            describe_last(model, LKS_F32, &weight->shape);
        }
        for (int s = 0; s < program->stages; s++)
            if (program->stage[s].cluster->counted == node)
                LKI_TRY(list_buffers(model, &program->stage[s], node));
    }
    return LKS_OK;
}

static int by_name(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    return strcmp(*a, *b);
}

/* A file could not tell two entries of one name apart, so a model that has them could be saved, but
 * never loaded. */
static lks_status check_names(lks_model *model)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (size_t)model->states * sizeof(char *),
                            "names of the state"));
    const char **names = memory;
    for (int i = 0; i < model->states; i++) names[i] = model->state[i].info.name;
    qsort(names, (size_t)model->states, sizeof *names, by_name);
    for (int i = 1; i < model->states; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return LKI_FAIL(LKS_E_INVALID,
                            "two entries of the model's state are called '%s'; give one of the "
                            "layers another name",
                            names[i]);
    return LKS_OK;
}

lks_status lki_state_list(lks_model *model)
{
    const lki_program *program = &model->program;
    size_t most = (size_t)model->weights * (3 + LKI_MAX_STATES);
    for (int s = 0; s < program->stages; s++)
        most += 1 + (program->stage[s].cluster->counted != NULL
                         ? (size_t)program->stage[s].cluster->counted->buffer_count
                         : 0);
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, most * sizeof(lki_state), "the state list"));
    model->state = memory;
    LKI_TRY(list_hashed(model));
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        if (weight->average == NULL) continue;
        LKI_TRY(add_state(model, LKS_AVERAGE, LKI_NAMES_AVERAGE, weight->name,
                          (void **)&weight->average));
        describe_last(model, LKS_F32, &weight->shape);
    }
    model->hashed_states = model->states;
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        for (int i = 0; i < LKI_MAX_STATES; i++) {
            if (weight->state[i] == NULL) continue;
            char prefix[64];
            snprintf(prefix, sizeof prefix, LKI_NAMES_OPTIMIZER "%s.",
                     lki_optimizer_of(model->opts.optim.kind)->states[i]);
            LKI_TRY(
                add_state(model, LKS_OPTIMIZER, prefix, weight->name, (void **)&weight->state[i]));
            describe_last(model, LKS_F32, &weight->shape);
            model->state[model->states - 1].info.spread = lki_spreads(model);
        }
    }
    LKI_TRY(list_carried(model));
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        LKI_TRY(add_state(model, LKS_GRADIENT, LKI_NAMES_GRADIENT, weight->name,
                          (void **)&weight->gradient));
        describe_last(model, LKS_F32, &weight->shape);
    }
    LKI_TRY(check_names(model));
    model->digests = 0;
    for (int i = 0; i < model->hashed_states; i++)
        model->digests += 1 + (int64_t)((model->state[i].info.bytes + LKI_HASH_BLOCK - 1) /
                                        LKI_HASH_BLOCK);
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (size_t)model->digests * sizeof(uint64_t),
                            "digests of the state"));
    model->digest = memory;
    return LKS_OK;
}

lks_status lki_state_hash(lks_model *model, uint64_t *out)
{
    if (model->progress.step > 0 && model->progress.step % model->opts.hash_every == 0) {
        *out = model->progress.link;
        return LKS_OK;
    }
    if (model->progress.step == 0) model->progress.link = 0;
    LKI_TRY(lki_model_run(model, LKI_HASH));
    *out = lki_state_hash_finish(model);
    return LKS_OK;
}

lks_status lks_model_hash(lks_model *model, uint64_t *out)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, lki_state_hash(model, out));
}

/* Of what is no part of the hash: the optimizer's state and what is carried, unless ranks have different parts of it. */
static uint64_t hash_rest(const lks_model *model)
{
    uint64_t hash = 0;
    for (int s = model->hashed_states; s < model->states; s++) {
        const lks_state_info *info = &model->state[s].info;
        if (info->kind == LKS_GRADIENT || info->spread) continue;
        hash = lki_hash_link(hash, s, lki_hash(*model->state[s].memory, info->bytes));
    }
    return hash;
}

/* What a step compares at a link is what memory had then. */
static lks_status check_ranks(lks_model *model)
{
    if (model->across == NULL || model->opts.exchange == LKS_EXCHANGE_NONE) return LKS_OK;
    LKI_TRY(lki_comm_check(model->across->comm));
    LKI_TRY(lki_model_run(model, LKI_HASH));
    LKI_TRY(lki_across_same(model, "parameters", lki_state_hash_finish(model)));
    return lki_across_same(model, "optimizer's state", hash_rest(model));
}

lks_status lks_model_check_ranks(lks_model *model)
{
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, check_ranks(model));
}

int64_t lki_first_not_finite(const lki_memory *memory, const float *values, int64_t count,
                             float *found)
{
    enum { BLOCK = 256 }; /* values, where they have to be copied */
    float room[BLOCK];
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t size = count - first < BLOCK ? count - first : BLOCK;
        const float *at = lki_to_host(memory, values + first, room, (size_t)size * sizeof *at);
        for (int64_t i = 0; i < size; i++) {
            *found = at[i];
            if (!isfinite(at[i])) return first + i;
        }
    }
    return -1;
}

static lks_status state_check_finite(const lks_model *model)
{
    for (int s = 0; s < model->hashed_states; s++) {
        const lks_state_info *info = &model->state[s].info;
        if (info->dtype != LKS_F32) continue;
        float found;
        const int64_t bad = lki_first_not_finite(model->program.backend->memory,
                                                 *model->state[s].memory,
                                                 lks_shape_elements(&info->shape), &found);
        if (bad >= 0)
            return LKI_FAIL(LKS_E_NUMERIC,
                            "%s '%s' is not finite after step %lld: element %lld is %g; look "
                            "for data that is not finite, or lower the learning rate",
                            info->kind == LKS_BUFFER ? "buffer" : "parameter", info->name,
                            (long long)model->progress.step, (long long)bad, (double)found);
    }
    return LKS_OK;
}

lks_status lks_model_check_finite(lks_model *model)
{
    LKI_TRY(lki_model_enter_shared(model, __func__));
    return lki_model_leave_shared(model, state_check_finite(model));
}

lks_progress lks_model_progress(const lks_model *model)
{
    return model != NULL ? model->progress : (lks_progress){0};
}

void lks_model_set_progress(lks_model *model, lks_progress progress)
{
    if (model == NULL) return;
    const double own = model->progress.loss_scale;
    model->progress = progress;
    if (model->opts.loss_scale_steps == 0 || !(progress.loss_scale > 0))
        model->progress.loss_scale = own;
    model->alone.steps = model->alone.samples = 0;
}

int lks_model_state_count(const lks_model *model)
{
    return model != NULL ? model->states : 0;
}

lks_state_info lks_model_state_info(const lks_model *model, int index)
{
    if (index < 0 || index >= lks_model_state_count(model)) return (lks_state_info){0};
    return model->state[index].info;
}

int lks_model_state_find(const lks_model *model, const char *name)
{
    for (int i = 0; name != NULL && i < lks_model_state_count(model); i++)
        if (strcmp(model->state[i].info.name, name) == 0) return i;
    return -1;
}

static lks_status check_access(const lks_model *model, int index, size_t bytes)
{
    if (index < 0 || index >= model->states)
        return LKI_FAIL(LKS_E_INVALID, "the model has no state entry %d, expected 0 to %d", index,
                        model->states - 1);
    const lks_state_info *info = &model->state[index].info;
    if (bytes != info->bytes)
        return LKI_FAIL(LKS_E_INVALID, "state '%s' has %zu bytes, the buffer %zu", info->name,
                        info->bytes, bytes);
    if (*model->state[index].memory == NULL)
        return LKI_FAIL(LKS_E_STATE, "there is no '%s' yet; call lks_model_gradient() first",
                        info->name);
    return LKS_OK;
}

static lks_status read(const lks_model *model, int index, void *out, size_t bytes)
{
    LKI_TRY(check_access(model, index, bytes));
    model->program.backend->memory->copy_out(out, *model->state[index].memory, bytes);
    return LKS_OK;
}

/* An entry that ranks have parts of; `status` is what this one has against it. */
static lks_status read_spread(const lks_model *model, int index, void *out, size_t bytes,
                              lks_status status)
{
    if (model->state[index].info.kind != LKS_CARRIED)
        return lki_spread_read(model, index, out, bytes, status);
    LKI_TRY(lks_comm_agree(model->across->comm, status));
    LKI_TRY(lki_carried_gather(model, lki_carried_stage(model, index)));
    return read(model, index, out, bytes);
}

lks_status lks_model_state_read(lks_model *model, int index, void *out, size_t bytes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    if (lks_model_state_info(model, index).spread) {
        LKI_TRY(lki_model_enter(model, __func__));
        return lki_model_leave(
            model, read_spread(model, index, out, bytes, check_access(model, index, bytes)));
    }
    LKI_TRY(lki_model_enter_shared(model, __func__));
    return lki_model_leave_shared(model, read(model, index, out, bytes));
}

static lks_status check_write(const lks_model *model, int index, size_t bytes)
{
    if (index >= 0 && index < model->states && model->state[index].info.kind == LKS_GRADIENT)
        return LKI_FAIL(LKS_E_INVALID, "'%s' can only be read", model->state[index].info.name);
    return check_access(model, index, bytes);
}

static lks_status write(lks_model *model, int index, const void *in, size_t bytes)
{
    model->changes++;
    const lks_status status = check_write(model, index, bytes);
    const bool carried = lks_model_state_info(model, index).kind == LKS_CARRIED;
    if (model->common != NULL && !carried)
        return lki_common_write(model, status == LKS_OK ? *model->state[index].memory : NULL, in,
                                bytes, status);
    LKI_TRY(status);
    if (model->state[index].info.spread && !carried) {
        lki_spread_write(model, index, in);
        return LKS_OK;
    }
    model->program.backend->memory->copy_in(*model->state[index].memory, in, bytes);
    model->prepared = false;
    return LKS_OK;
}

lks_status lks_model_state_write(lks_model *model, int index, const void *in, size_t bytes)
{
    if (in == NULL) return LKI_FAIL_NULL(in);
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, write(model, index, in, bytes));
}
