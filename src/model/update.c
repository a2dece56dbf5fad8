/* From sums of gradients to new parameters and buffers: every worker a part of each. */
#include <math.h>
#include <string.h>

#include "model/update.h"
#include "numeric/tree.h"

void lki_update_values(const lks_model *model, const lki_weight *weight, const lki_update *update,
                       int64_t first, int64_t kept, int64_t count, const float *sums)
{
    float *state[LKI_MAX_STATES];
    for (int i = 0; i < LKI_MAX_STATES; i++)
        state[i] = weight->state[i] != NULL ? weight->state[i] + kept : NULL;
    model->program.backend->update(update, count, weight->value + first, state, sums);
}

/* Behind update number `step` of a range. */
static void update_average(const lks_model *model, const lki_weight *weight, int64_t step,
                           int64_t first, int64_t count)
{
    const lki_backend *backend = model->program.backend;
    float *average = weight->average + first;
    const float *value = weight->value + first;
    if (step == 1)
        backend->memory->copy(average, value, (size_t)count * sizeof *value);
    else
        backend->approach(count, (float)(1.0 - model->opts.ema_decay), average, value);
}

void lki_update_range(const lks_model *model, const lki_weight *weight, const lki_update *update,
                      int64_t first, int64_t kept, int64_t count, const float *sums)
{
    lki_update_values(model, weight, update, first, kept, count, sums);
    if (weight->average != NULL && !lki_spreads(model))
        update_average(model, weight, update->step, first, count);
}

void lki_update_averages(const lks_model *model, int worker)
{
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        int64_t begin, end;
        if (weight->average == NULL) continue;
        lki_own_part(model, worker, weight->count, &begin, &end);
        update_average(model, weight, weight->rule->update.step, begin, end - begin);
    }
}

void lki_update_mean(const lks_model *model, int64_t count, const float *sums, float *mean)
{
    const double limit = model->mode == LKI_TRAIN ? model->opts.clip_value : 0;
    model->program.backend->memory->mean(count, model->scale,
                                         limit > 0 ? lki_round(limit) : INFINITY, sums, mean);
}

/* The sum of the whole batch from a weight's float `first` on, formed in the arrays of replicas that are all here. */
static float *reduced(const lks_model *model, const lki_weight *weight, int64_t first,
                      int64_t count)
{
    const lki_tree_node all = {.lo = 0, .hi = model->program.replicas};
    return lki_reduce_total(&model->reduce, all, weight->offset + first, count);
}

bool lki_update_stays(const lks_model *model, const lki_weight *weight)
{
    return model->mode == LKI_TRAIN && model->forms_whole && weight->offset >= 0 &&
           weight->trained && model->common == NULL && !lki_sums_across(model);
}

float *lki_update_gradient(const lks_model *model, const lki_weight *weight)
{
    return lki_update_stays(model, weight) ? reduced(model, weight, 0, 0) : weight->gradient;
}

void lki_update_square(lks_model *model, const lki_weight *weight, int64_t first, int64_t count,
                       const float *mean)
{
    if (model->measures)
        model->square[weight->block + first / LKI_UPDATE_BLOCK] = model->program.backend->dot(
            count, mean, mean);
}

/* Sums of a range of a weight's gradient are there: update it, or keep the mean. */
static void update_apply(lks_model *model, lki_weight *weight, int64_t first, int64_t count,
                         const float *sums)
{
    if (model->mode == LKI_GRADIENT || model->forms_whole)
        lki_update_mean(model, count, sums, weight->gradient + first);
    else
        lki_update_range(model, weight, &weight->rule->update, first, first, count, sums);
}

typedef struct rows_target {
    lks_model *model;
    lki_stage *stage;
    lki_laps *laps;
} rows_target;

static int lap_of(const lks_model *model, const lki_stage *stage, lki_phase pass)
{
    return lki_lap_of(stage - model->program.stage, pass);
}

/* Which of this rank's nodes it is. */
static int64_t place_of(const lki_ranks *sums, lki_tree_node node)
{
    int k = 0;
    while (lki_ranks_node(sums, k).lo != node.lo) k++;
    return k;
}

/* The node is the root where all replicas are here; otherwise its sums are kept for all ranks. */
static void rows_sum(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                     const float *sums)
{
    const rows_target *target = user;
    const int weight = target->stage->weight[slot];
    if (lki_sums_across(target->model)) {
        const lki_across *across = target->model->across;
        memcpy(across->rows + place_of(&across->sums, node) * across->rows_count +
                   across->rows_at[weight] + first,
               sums, (size_t)count * sizeof *sums);
        return;
    }
    lki_lap_part(target->laps, lap_of(target->model, target->stage, LKI_PHASE_ROWS));
    if (!target->model->weight[weight].trained) return; /* frozen, beside one that is not */
    update_apply(target->model, &target->model->weight[weight], first, count, sums);
    lki_lap(target->laps, lap_of(target->model, target->stage, LKI_PHASE_UPDATE));
}

/* What update_apply() reads and writes. */
static void rows_soon(void *user, int slot, int64_t first, int64_t count, int64_t rows,
                      int64_t step)
{
    const rows_target *target = user;
    const lki_weight *weight = &target->model->weight[target->stage->weight[slot]];
    if (lki_sums_across(target->model)) return; /* sums are kept, not used */
    for (int64_t r = 0; r < rows; r++, first += step)
        for (int64_t i = first; i < first + count; i += 16) {
            __builtin_prefetch(weight->value + i, 1);
            for (int k = 0; k < LKI_MAX_STATES && weight->state[k] != NULL; k++)
                __builtin_prefetch(weight->state[k] + i, 1);
        }
}

void lki_update_part(lks_model *model, int worker, int s, lki_rows *part)
{
    const lki_program *program = &model->program;
    lki_stage *stage = &model->program.stage[s];
    rows_target target = {.model = model, .stage = stage, .laps = model->worker[worker].local.laps};
    part->in = lki_update_kept(model, stage->in[0]);
    part->d_out = lki_update_kept(model, stage->d_out);
    for (int i = 0; i < LKI_MAX_FACTORS; i++)
        part->factor[i] = lki_update_kept(model, stage->factor[i]);
    if (stage->front != LKI_NO_STAGE) {
        const lki_stage *front = &program->stage[stage->front];
        part->added = (lki_rows_added){
            .sum = lki_update_kept(model, front->factor[0]),
            .row = (const int32_t *)(const void *)lki_update_kept(model, front->factor[1]),
            .positions = lks_shape_elements(&front->cluster->in[0]->shape)};
    }
    part->start = model->share_start;
    part->replicas = program->replicas;
    part->first = lki_averages(model) ? 0 : model->pass.first;
    part->last = lki_averages(model) ? program->replicas : model->pass.last;
    part->workspace = model->worker[worker].local.memory + program->local_bytes;
    part->sum = rows_sum;
    part->soon = rows_soon;
    part->user = &target;
    if (lki_rows_pack(model)) {
        part->param = (const float *const *)stage->param;
        part->packed = program->packed + stage->packed_offset;
    }
    if (model->common != NULL) {
        part->first = 0;
        part->last = program->replicas;
    }
    stage->kernel->rows(stage->plan, part);
    lki_lap(target.laps, lap_of(model, stage, LKI_PHASE_ROWS));
}

void lki_update_rows(lks_model *model, int worker, int s, int64_t begin, int64_t rows)
{
    const lki_sparse *sparse = lki_sparse_of(model, s);
    if (sparse != NULL) rows = lki_sparse_here(sparse, begin, rows);
    const int64_t first = lki_share(worker, model->workers, rows);
    const int64_t last = lki_share(worker + 1, model->workers, rows);
    const lki_weight *weight = &model->weight[model->program.stage[s].weight[0]];
    lki_rows own = {.row_first = begin + first,
                    .row_count = last - first,
                    .row = sparse != NULL ? sparse->row + begin + first : NULL,
                    .column_count = weight->count / weight->shape.dim[0]};
    if (first < last) lki_update_part(model, worker, s, &own);
}

void lki_update_sums(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                     int64_t all, void *user)
{
    lki_laps *laps = model->worker[worker].local.laps;
    lki_weight *weight = stretch->weight;
    float space[LKI_UPDATE_BLOCK];
    (void)user;
    for (const int64_t end = first + all; first < end; first += LKI_UPDATE_BLOCK) {
        const int64_t count = end - first < LKI_UPDATE_BLOCK ? end - first : LKI_UPDATE_BLOCK;
        float *own = lki_sums_across(model) ? NULL : reduced(model, weight, first, count);
        lki_lap(laps, LKI_LAP_TREE);
        if (lki_update_stays(model, weight)) {
            lki_update_mean(model, count, own, own);
            lki_update_square(model, weight, first, count, own);
        } else {
            const int w = (int)(weight - model->weight);
            update_apply(model, weight, first, count,
                         own != NULL ? own : lki_across_total(model, w, first, count, space));
        }
        lki_lap(laps, lki_lap_of(weight->stage, LKI_PHASE_UPDATE));
    }
}

void lki_update_buffers(lks_model *model, int worker, int64_t part, int64_t parts)
{
    for (int s = 0; s < model->program.stages; s++) {
        lki_stage *stage = &model->program.stage[s];
        const lki_node *counted = stage->cluster->counted;
        if (counted == NULL || counted->stats + counted->meets == 0) continue;
        if (s % parts != part) continue;
        const int64_t replicas = model->program.replicas, at = (int64_t)stage->stats_offset;
        const double *sum = counted->meets > 0 ? lki_meet_result(model, stage)
                            : lki_sums_across(model)
                                ? lki_across_stats(model, at / replicas, counted->stats)
                                : lki_sum_stats(model, model->program.stats + at, counted->stats, 0,
                                                replicas);
        if (sum != NULL)
            model->program.backend->memory->update_buffers(counted, sum, stage->buffer);
        lki_lap(model->worker[worker].local.laps, lki_lap_of(s, LKI_PHASE_UPDATE));
    }
}
