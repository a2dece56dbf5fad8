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

/* Of a replica, for each channel: sums that pieces leave, of x, or of d and of d * (x - mean); and what
 * follows from them. */
typedef struct moments {
    double *sum, *other;
    float *mean, *inverse; /* 1 / sqrt(variance + epsilon) */
    float *scale;          /* inverse * weight */
    float *level, *slope;  /* of backward */
} moments;

static const norm_plan *norm(const lki_plan *plan)
{
    return (const norm_plan *)(const void *)plan;
}

static moments cpu_batch_norm_moments_at(const norm_plan *p, void *replica)
{
    double *sums = replica;
    float *values = (float *)(sums + 2 * p->channels);
    return (moments){.sum = sums,
                     .other = sums + p->channels,
                     .mean = values,
                     .inverse = values + p->channels,
                     .scale = values + 2 * p->channels,
                     .level = values + 3 * p->channels,
                     .slope = values + 4 * p->channels};
}

static lks_status plan_norm(lki_plan *plan)
{
    norm_plan *p = (norm_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lks_shape *in = &plan->cluster.node[0]->in[0]->shape;
    p->channels = in->dim[in->ndim - 1];
    p->pixels = p->cpu.in / p->channels;
    plan->needs.reads = LKI_READS_IN;
    plan->needs.apply_in = 1;
    plan->needs.replica_bytes = lki_align((2 * sizeof(double) + 5 * sizeof(float)) *
                                          (size_t)p->channels);
    return LKS_OK;
}

static float epsilon_of(const lki_plan *plan)
{
    return ((const lks_batch_norm_opts *)plan->cluster.node[0]->attr)->epsilon;
}

static lks_status cpu_batch_norm_forward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    if (!args->training) return LKS_OK;
    if (args->sample == 0) memset(kept.sum, 0, sizeof(double) * (size_t)p->channels);
    p->cpu.vector->norm->sums(args->count * p->pixels, p->channels, p->channels, args->in[0],
                              kept.sum);
    return LKS_OK;
}

/* The replica's statistics, for apply and into stats (their layout: op/batch_norm.c). */
static void measure_norm(const lki_plan *plan, const lki_args *args, const moments *kept)
{
    const norm_plan *p = norm(plan);
    const int64_t channels = p->channels, rows = args->count * p->pixels;
    double *mean = kept->sum, *square = kept->other, *stats = args->stats;
    for (int64_t c = 0; c < channels; c++) mean[c] /= (double)rows;
    memset(square, 0, sizeof(double) * (size_t)channels);
    p->cpu.vector->norm->squares(rows, channels, args->in[0], mean, square);
    stats[0] = (double)rows;
    stats[1] = rows > 1 ? (double)rows : 0;
    for (int64_t c = 0; c < channels; c++) {
        kept->mean[c] = (float)mean[c];
        kept->inverse[c] = (float)(1 / sqrt(square[c] / (double)rows + (double)epsilon_of(plan)));
        stats[2 + c] = stats[0] * mean[c];
        stats[2 + channels + c] = rows > 1 ? stats[1] * (square[c] / (double)(rows - 1)) : 0;
    }
}

static lks_status cpu_batch_norm_finish(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    if (args->training) measure_norm(plan, args, &kept);
    for (int64_t c = 0; c < p->channels && !args->training; c++) {
        const float *mean = args->buffer[0], *variance = args->buffer[1];
        kept.mean[c] = mean[c];
        kept.inverse[c] = (float)(1 / sqrt((double)variance[c] + (double)epsilon_of(plan)));
    }
    for (int64_t c = 0; c < p->channels; c++) kept.scale[c] = kept.inverse[c] * args->param[0][c];
    return LKS_OK;
}

static lks_status cpu_batch_norm_apply(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    p->cpu.vector->norm->apply(args->count * p->pixels, p->channels,
                               &(lki_norm_apply){.x = args->in[0],
                                                 .mean = kept.mean,
                                                 .scale = kept.scale,
                                                 .shift = args->param[1],
                                                 .out = args->out});
    return LKS_OK;
}

static lks_status cpu_batch_norm_gather(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    if (args->sample == 0) memset(kept.sum, 0, 2 * sizeof(double) * (size_t)p->channels);
    p->cpu.vector->norm->products(args->count * p->pixels, p->channels,
                                  &(lki_norm_products){.x = args->in[0],
                                                       .mean = kept.mean,
                                                       .d_out = args->d_out,
                                                       .sum_d = kept.sum,
                                                       .sum_dx = kept.other});
    return LKS_OK;
}

static lks_status cpu_batch_norm_finish_backward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    const double rows = (double)(args->count * p->pixels);
    for (int64_t c = 0; c < p->channels; c++) {
        const double inverse = (double)kept.inverse[c];
        if (args->d_param[0] != NULL)
            args->d_param[0][c] = lki_flush((float)(kept.other[c] * inverse));
        if (args->d_param[1] != NULL) args->d_param[1][c] = lki_flush((float)kept.sum[c]);
        kept.level[c] = (float)(kept.sum[c] / rows);
        kept.slope[c] = (float)(kept.other[c] * inverse * inverse / rows);
    }
    return LKS_OK;
}

static lks_status cpu_batch_norm_backward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const moments kept = cpu_batch_norm_moments_at(p, args->replica);
    if (args->d_in[0] != NULL)
        p->cpu.vector->norm->backward(args->count * p->pixels, p->channels,
                                      &(lki_norm_backward){.x = args->in[0],
                                                           .d_out = args->d_out,
                                                           .mean = kept.mean,
                                                           .scale = kept.scale,
                                                           .level = kept.level,
                                                           .slope = kept.slope,
                                                           .d_in = args->d_in[0]},
                                      args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_batch_norm = {
    .plan_bytes = sizeof(norm_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_norm,
    .forward = cpu_batch_norm_forward,
    .finish = cpu_batch_norm_finish,
    .apply = cpu_batch_norm_apply,
    .gather = cpu_batch_norm_gather,
    .finish_backward = cpu_batch_norm_finish_backward,
    .backward = cpu_batch_norm_backward,
};
