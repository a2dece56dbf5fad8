/* Exact metrics: integers, and losses in 128-bit fixed point. */
#include <math.h>

#include "base/check.h"
#include "base/float.h"
#include "model/model.h"
#include "model/step/batch.h"
#include "numeric/fixed.h"
#include "numeric/real.h"

void lks_metrics_add(lks_metrics *sum, const lks_metrics *part)
{
    if (sum == NULL || part == NULL) return;
    lki_fixed loss = {.high = sum->loss_high, .low = sum->loss_low};
    lki_fixed_merge(&loss, (lki_fixed){.high = part->loss_high, .low = part->loss_low});
    sum->loss_high = loss.high;
    sum->loss_low = loss.low;
    sum->samples += part->samples;
    sum->counted += part->counted;
    sum->correct += part->correct;
    sum->top5 += part->top5;
    sum->not_finite += part->not_finite;
}

double lks_metrics_loss(const lks_metrics *metrics)
{
    if (metrics == NULL) return (double)NAN;
    const int64_t finite = metrics->counted - metrics->not_finite;
    if (finite <= 0) return NAN;
    const lki_fixed sum = {.high = metrics->loss_high, .low = metrics->loss_low};
    const unsigned saved = lki_float_enter();
    const volatile double mean = lki_fixed_value(sum) / (double)finite; /* before leave */
    lki_float_leave(saved);
    return mean;
}

double lks_metrics_perplexity(const lks_metrics *metrics)
{
    const double loss = lks_metrics_loss(metrics);
    const unsigned saved = lki_float_enter();
    const volatile double perplexity = lki_exp(loss);
    lki_float_leave(saved);
    return perplexity;
}

/* Adds a loss of the sample at this position of the batch. */
static void count_loss(lki_worker *worker, lki_fixed *sum, float loss, int64_t position)
{
    worker->metrics.counted++;
    if (isfinite(loss)) {
        lki_fixed_add(sum, (double)loss);
        return;
    }
    worker->metrics.not_finite++;
    const int bad = worker->bad_count;
    if (bad < LKI_MAX_BAD && (bad == 0 || worker->bad_position[bad - 1] != position))
        worker->bad_position[worker->bad_count++] = position;
}

void lki_metrics_count(lks_model *model, lki_worker *worker, const lki_cohort *cohort)
{
    enum { BLOCK = 256 }; /* losses, where they have to be copied */
    float room[BLOCK];
    int32_t labels[BLOCK];
    const lki_program *program = &model->program;
    const lki_memory *memory = program->backend->memory;
    const lki_pass *pass = &model->pass;
    const int64_t positions = lki_program_positions(program), count = cohort->count * positions;
    const int64_t width = lks_shape_elements(&program->output->shape) / positions;
    const float *loss = lki_program_result(program, pass, cohort, &worker->local, program->loss);
    const float *output = lki_program_result(program, pass, cohort, &worker->local,
                                             program->output);
    const lks_tensor *target = program->graph->target;
    const int32_t *label = target != NULL && target->dtype == LKS_I32
                               ? (const int32_t *)pass->y +
                                     (cohort->begin - pass->begin) * positions
                               : NULL;
    const bool gaps = lki_positions_of(model) > 0;
    lki_fixed sum = {.high = worker->metrics.loss_high, .low = worker->metrics.loss_low};

    worker->metrics.samples += cohort->count;
    for (int64_t first = 0, some; first < count; first += some) {
        some = count - first < BLOCK ? count - first : BLOCK;
        const float *here = lki_to_host(memory, loss + first, room, (size_t)some * sizeof *loss);
        const int32_t *own = gaps ? lki_to_host(memory, label + first, labels,
                                                (size_t)some * sizeof *own)
                                  : NULL;
        for (int64_t i = 0; i < some; i++)
            if (!gaps || own[i] != LKS_NO_CLASS)
                count_loss(worker, &sum, here[i], cohort->begin + (first + i) / positions);
    }
    if (label != NULL)
        worker->metrics.correct += memory->count_correct(count, width, output, label,
                                                         &worker->metrics.top5);
    worker->metrics.loss_high = sum.high;
    worker->metrics.loss_low = sum.low;
}

lks_status lks_comm_metrics(lks_comm *comm, lks_metrics *sum)
{
    if (sum == NULL) return LKI_FAIL_NULL(sum);
    const int ranks = lks_comm_size(comm);
    if (ranks == 1) return LKS_OK;
    void *memory = NULL;
    lks_status status = lks_comm_agree(
        comm, lki_alloc(NULL, &memory, (size_t)ranks * sizeof *sum, "metrics of all ranks"));
    const lks_metrics own = *sum;
    lks_metrics *all = memory;
    if (status == LKS_OK) status = lki_comm_gather(comm, &own, sizeof own, all, "metrics");
    if (status == LKS_OK) *sum = (lks_metrics){0};
    for (int r = 0; status == LKS_OK && r < ranks; r++) lks_metrics_add(sum, &all[r]);
    lki_free(NULL, memory, (size_t)ranks * sizeof *sum);
    return status;
}
