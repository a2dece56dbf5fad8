/* average_every: ranks step alone, each on its own samples, and now and then have one model again. */
#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "comm/comm.h"
#include "model/model.h"
#include "optim/optimizer.h"

/* "average_every 8, replicas 4 + 4": of ranks. */
static lks_status print_law(lks_model *model)
{
    enum { DIGITS = 24, WORDS = 60 };
    const lki_across *across = model->across;
    const int ranks = across != NULL ? across->ranks : 1;
    const size_t size = (size_t)ranks * DIGITS + WORDS;
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, size, "ranges of ranks"));
    char *text = memory;
    size_t used = (size_t)snprintf(text, size, "average_every %d, replicas",
                                   model->opts.average_every);
    for (int r = 0; r < ranks; r++) {
        const int64_t own = across != NULL ? across->start[r + 1] - across->start[r]
                                           : model->program.replicas;
        used += (size_t)snprintf(text + used, size - used, "%s %lld", r > 0 ? " +" : "",
                                 (long long)own);
    }
    model->alone.law = text;
    return LKS_OK;
}

lks_status lki_average_plan(lks_model *model)
{
    const lks_model_opts *o = &model->opts;
    void *memory;
    if (o->average_every == 0) return LKS_OK;
    if (o->average_every < 0)
        return LKI_FAIL(LKS_E_INVALID, "average_every is %d, expected 1 or more, or 0: never",
                        o->average_every);
    if (o->exchange == LKS_EXCHANGE_NONE)
        return LKI_FAIL(LKS_E_INVALID,
                        "average_every is %d, but the processes are to exchange "
                        "nothing; choose one of the two",
                        o->average_every);
    if (o->reduction == LKS_REDUCTION_LIBRARY)
        return LKI_FAIL(LKS_E_INVALID,
                        "average_every is %d, with which processes have no sums "
                        "for reduction: library; choose one of the two",
                        o->average_every);
    LKI_TRY(print_law(model));
    if (!lki_averages(model)) return LKS_OK;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory,
                            (size_t)model->states * (sizeof(void *) + sizeof(int64_t)) + 1,
                            "what processes average"));
    model->alone.array = memory;
    model->alone.count = (int64_t *)(void *)(model->alone.array + model->states);
    return LKS_OK;
}

/* Of the next step, whose samples here are `own`. */
void lki_average_begin(lks_model *model, int64_t own)
{
    const int64_t step = model->progress.step + 1;
    model->alone.idle = own == 0;
    model->alone.ends = lki_averages(model) &&
                        (model->link_after || step % model->opts.average_every == 0);
}

void lki_average_note(lks_model *model)
{
    if (model->last.skipped) return;
    model->alone.steps++;
    model->alone.samples += lki_own_samples(model, &model->pass);
}

static void flush(float *values, int64_t count, bool squares)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = squares ? lki_flush_square(values[i]) : lki_flush(values[i]);
}

/* The numbers that the means of are means of squares, too. */
static bool are_squares(const lks_model *model, const float *values)
{
    const lki_optimizer *optimizer = lki_optimizer_of(model->opts.optim.kind);
    for (int w = 0; w < model->weights; w++)
        for (int i = 0; i < LKI_MAX_STATES; i++)
            if (model->weight[w].state[i] == values) return optimizer->squares[i];
    return false;
}

/* What is carried is of a rank's own samples, and stays as it is. */
static bool is_averaged(const lks_state_info *info)
{
    return info->kind != LKS_GRADIENT && info->kind != LKS_CARRIED;
}

/* Entries of this type: where they are, and how many numbers or bytes they have. */
static int list(lks_model *model, lks_dtype dtype)
{
    int count = 0;
    for (int i = 0; i < model->states; i++) {
        const lks_state_info *info = &model->state[i].info;
        if (!is_averaged(info) || info->dtype != dtype) continue;
        model->alone.array[count] = *model->state[i].memory;
        model->alone.count[count++] = dtype == LKS_F32 ? lks_shape_elements(&info->shape)
                                                       : (int64_t)info->bytes;
    }
    return count;
}

/* Counts of batches are those of the last rank, which has the last replica: it has a sample of every batch. */
static lks_status spread_counts(lks_model *model)
{
    lks_comm *comm = model->across->comm;
    const int count = list(model, LKS_I64);
    _Static_assert(sizeof(size_t) == sizeof(int64_t), "counts are sizes");
    return lks_comm_broadcast(comm, lks_comm_size(comm) - 1, model->alone.array,
                              (const size_t *)(const void *)model->alone.count, count);
}

lks_status lki_average(lks_model *model)
{
    if (model->alone.steps == 0) return LKS_OK;
    const int count = list(model, LKS_F32);
    LKI_TRY(lks_comm_average(model->across->comm, (float *const *)(void *)model->alone.array,
                             model->alone.count, count, (double)model->alone.samples));
    for (int i = 0; i < count; i++) {
        float *values = model->alone.array[i];
        flush(values, model->alone.count[i], are_squares(model, values));
        model->across->sums.bytes += model->alone.count[i] * 2 * (int64_t)sizeof(float);
    }
    LKI_TRY(spread_counts(model));
    model->alone.steps = model->alone.samples = 0;
    model->prepared = false;
    model->changes++;
    for (int w = 0; w < model->workers; w++) lki_lap(model->worker[w].local.laps, LKI_LAP_RANKS);
    return LKS_OK;
}

lks_status lks_model_average(lks_model *model)
{
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, lki_averages(model) ? lki_average(model) : LKS_OK);
}

int64_t lks_model_alone(const lks_model *model)
{
    return model != NULL && lki_averages(model) ? model->alone.steps : 0;
}

/* Everybody's norm; the first that is not finite becomes what the step says of itself. */
static lks_status tell_norms(lks_model *model, double norm)
{
    lki_across *across = model->across;
    LKI_TRY(lki_comm_gather(across->comm, &norm, sizeof norm, across->norm, "norms of gradients"));
    for (int r = 0; r < across->ranks && across->well; r++) {
        across->well = isfinite(across->norm[r]);
        if (!across->well) model->last.gradient_norm = across->norm[r];
    }
    return LKS_OK;
}

bool lki_average_finite(lks_model *model, int worker, double norm)
{
    if (!lki_averages(model)) return isfinite(norm);
    return lki_across_led(model, worker, worker == 0 ? tell_norms(model, norm) : LKS_OK);
}

void lki_average_idle(lks_model *model, int worker)
{
    if (worker == 0 && model->measures) model->last.gradient_norm = 0;
    if (model->measures) lki_workers_barrier(model->threads, worker); /* all know that they go on */
    if (model->measures && !lki_average_finite(model, worker, 0)) return;
    for (int w = 0; worker == 0 && w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        if (weight->average != NULL && weight->rule->update.step == 1)
            model->program.backend->memory->copy(weight->average, weight->value,
                                                 (size_t)weight->count * sizeof(float));
    }
}
