/* Batch norm alone, in two halves: statistics of the replica in double, arithmetic on activations in f32. */
#include "backend/cpu/norm.h"

typedef struct norm_plan {
    lki_cpu_plan cpu;
    lki_norm norm;
    int64_t pixels; /* of a sample */
} norm_plan;

static const norm_plan *norm(const lki_plan *plan)
{
    return (const norm_plan *)(const void *)plan;
}

static lks_status plan_norm(lki_plan *plan)
{
    norm_plan *p = (norm_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    p->norm = lki_norm_of(plan->cluster.counted, p->cpu.vector);
    p->pixels = p->cpu.in / p->norm.channels;
    plan->needs.reads = LKI_READS_IN;
    plan->needs.apply_in = 1;
    plan->needs.replica_bytes = lki_norm_bytes(&p->norm);
    return LKS_OK;
}

static lks_status cpu_batch_norm_forward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const int64_t channels = p->norm.channels;
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    if (!args->training) return LKS_OK;
    if (args->sample == 0) lki_norm_clear(&p->norm, &kept);
    const float *x = args->in[0];
    const lki_norm_moments moments = lki_norm_moments_of(&p->norm, args->replica,
                                                         x - args->sample * p->cpu.in);
    p->norm.vector->moments(args->count * p->pixels, channels, channels, x, &moments);
    return LKS_OK;
}

static lks_status cpu_batch_norm_give(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    lki_norm_give(&p->norm, args, args->count * p->pixels, args->in[0]);
    return LKS_OK;
}

static lks_status cpu_batch_norm_finish(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    lki_norm_finish(&p->norm, args, args->count * p->pixels, args->in[0], 0);
    return LKS_OK;
}

static lks_status cpu_batch_norm_apply(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    p->norm.vector->apply(args->count * p->pixels, p->norm.channels,
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
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    if (args->sample == 0) lki_norm_clear(&p->norm, &kept);
    p->norm.vector->products(args->count * p->pixels, p->norm.channels,
                             &(lki_norm_products){.x = args->in[0],
                                                  .mean = kept.mean,
                                                  .d_out = args->d_out,
                                                  .sum_d = kept.sum[0],
                                                  .sum_dx = kept.sum[1]});
    return LKS_OK;
}

static lks_status cpu_batch_norm_give_backward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    lki_norm_give_backward(&p->norm, args, args->count * p->pixels);
    return LKS_OK;
}

static lks_status cpu_batch_norm_finish_backward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    lki_norm_finish_backward(&p->norm, args, args->count * p->pixels, 0);
    return LKS_OK;
}

static lks_status cpu_batch_norm_backward(const lki_plan *plan, const lki_args *args)
{
    const norm_plan *p = norm(plan);
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    if (args->d_in[0] != NULL)
        p->norm.vector->backward(args->count * p->pixels, p->norm.channels,
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
    .give = cpu_batch_norm_give,
    .give_backward = cpu_batch_norm_give_backward,
    .backward = cpu_batch_norm_backward,
};
