/* Batch norm: statistics of the replica in double, arithmetic on activations in f32. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct norm_plan {
    lki_cpu_plan cpu;
    int64_t channels;
    int64_t pixels; /* of a sample */
} norm_plan;

/* Kept for backward, for each channel. */
typedef struct moments {
    float *mean, *inverse; /* 1 / sqrt(variance + epsilon) */
} moments;

static const norm_plan *norm(const lki_plan *plan)
{
    return (const norm_plan *)(const void *)plan;
}

static moments cpu_batch_norm_moments_at(const norm_plan *p, void *replica)
{
    return (moments){replica, (float *)replica + p->channels};
}

static lks_status plan_norm(lki_plan *plan)
{
    norm_plan *p = (norm_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lks_shape *in = &plan->cluster.node[0]->in[0]->shape;
    p->channels = in->dim[in->ndim - 1];
    p->pixels = p->cpu.in / p->channels;
    plan->needs.reads = LKI_READS_IN;
    plan->needs.replica_bytes = lki_align(2 * sizeof(float) * (size_t)p->channels);
    plan->needs.workspace_bytes = 4 * sizeof(double) * (size_t)p->channels;
    return LKS_OK;
}

static float epsilon_of(const lki_plan *plan)
{
    return ((const lks_batch_norm_opts *)plan->cluster.node[0]->attr)->epsilon;
}

/* The replica's statistics, into `kept` and stats (their layout: op/batch_norm.c). */
static void cpu_batch_norm_measure(const lki_plan *plan, const lki_args *args, moments kept)
{
    const norm_plan *p = norm(plan);
    const lki_vector_norm *v = p->cpu.vector->norm;
    const int64_t channels = p->channels, rows = args->count * p->pixels;
    double *mean = args->workspace, *square = mean + channels, *stats = args->stats;
    memset(mean, 0, 2 * sizeof(double) * (size_t)channels);
    v->sums(rows, channels, channels, args->in[0], mean);
    for (int64_t c = 0; c < channels; c++) mean[c] /= (double)rows;
    v->squares(rows, channels, args->in[0], mean, square);
    stats[0] = (double)rows;
    stats[1] = rows > 1 ? (double)rows : 0;
    for (int64_t c = 0; c < channels; c++) {
        kept.mean[c] = (float)mean[c];
        kept.inverse[c] = (float)(1 / sqrt(square[c] / (double)rows + (double)epsilon_of(plan)));
        stats[2 + c] = stats[0] * mean[c];
        stats[2 + channels + c] = rows > 1 ? stats[1] * (square[c] / (double)(rows - 1)) : 0;
    }
}

static lks_status cpu_batch_norm_forward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const int64_t channels = p->channels;
    float *scratch = args->workspace;
    const float *mean = args->training ? NULL : args->buffer[0];
    if (args->training) {
        const moments kept = cpu_batch_norm_moments_at(p, args->replica);
        cpu_batch_norm_measure(plan, args, kept);
        mean = kept.mean;
        for (int64_t c = 0; c < channels; c++) scratch[c] = kept.inverse[c] * args->param[0][c];
    } else {
        const float *variance = args->buffer[1];
        for (int64_t c = 0; c < channels; c++)
            scratch[c] = (float)(1 / sqrt((double)variance[c] + (double)epsilon_of(plan))) *
                         args->param[0][c];
    }
    p->cpu.vector->norm->apply(args->count * p->pixels, channels,
                               &(lki_norm_apply){.x = args->in[0],
                                                 .mean = mean,
                                                 .scale = scratch,
                                                 .shift = args->param[1],
                                                 .out = args->out});
    return LKS_OK;
}

static lks_status cpu_batch_norm_backward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const int64_t channels = p->channels, rows = args->count * p->pixels;
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    double *sum_d = args->workspace, *sum_dx = sum_d + channels;
    float *scale = (float *)(sum_dx + channels), *level = scale + channels;
    float *slope = level + channels;
    memset(sum_d, 0, 2 * sizeof(double) * (size_t)channels);
    p->cpu.vector->norm->products(rows, channels,
                                  &(lki_norm_products){.x = args->in[0],
                                                       .mean = kept.mean,
                                                       .d_out = args->d_out,
                                                       .sum_d = sum_d,
                                                       .sum_dx = sum_dx});
    for (int64_t c = 0; c < channels; c++) {
        const double inverse = (double)kept.inverse[c];
        if (args->d_param[0] != NULL) args->d_param[0][c] = lki_flush((float)(sum_dx[c] * inverse));
        if (args->d_param[1] != NULL) args->d_param[1][c] = lki_flush((float)sum_d[c]);
        scale[c] = kept.inverse[c] * args->param[0][c];
        level[c] = (float)(sum_d[c] / (double)rows);
        slope[c] = (float)(sum_dx[c] * inverse * inverse / (double)rows);
    }
    if (args->d_in[0] != NULL)
        p->cpu.vector->norm->backward(rows, channels,
                                      &(lki_norm_backward){.x = args->in[0],
                                                           .d_out = args->d_out,
                                                           .mean = kept.mean,
                                                           .scale = scale,
                                                           .level = level,
                                                           .slope = slope,
                                                           .d_in = args->d_in[0]},
                                      args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_batch_norm = {
    .plan_bytes = sizeof(norm_plan),
    .span = LKI_SPAN_SHARE,
    .plan = plan_norm,
    .forward = cpu_batch_norm_forward,
    .backward = cpu_batch_norm_backward,
};
