/* max_pool, avg_pool, global_avg_pool. */
#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct pool_plan {
    lki_cpu_plan cpu;
    lki_pool_shape shape;
} pool_plan;

static const pool_plan *pool(const lki_plan *plan)
{
    return (const pool_plan *)(const void *)plan;
}

static lks_status plan_pool(lki_plan *plan)
{
    pool_plan *p = (pool_plan *)(void *)plan;
    const lki_node *node = plan->cluster.node[0];
    const lks_shape *in = &node->in[0]->shape, *out = &node->out.shape;
    lki_pool_shape *s = &p->shape;
    const int64_t columns = in->ndim == 3 ? in->dim[1] : 1; /* positions are rows */
    *s = (lki_pool_shape){.in_rows = in->dim[0],
                          .in_columns = columns,
                          .channels = in->dim[in->ndim - 1],
                          .out_rows = 1,
                          .out_columns = 1,
                          .kernel = {in->dim[0], columns},
                          .stride = {in->dim[0], columns}};
    if (node->op != LKI_OP_GLOBAL_AVG_POOL) {
        const lks_pool_opts *opts = node->attr;
        s->out_rows = out->dim[0];
        s->out_columns = out->dim[1];
        for (int i = 0; i < 2; i++) {
            s->kernel[i] = opts->kernel[i];
            s->stride[i] = opts->stride[i];
            s->padding[i] = opts->padding[i];
        }
        s->exclude_padding = opts->exclude_padding;
    }
    return lki_cpu_plan_start(plan);
}

static lks_status plan_max(lki_plan *plan)
{
    LKI_TRY(plan_pool(plan));
    const lki_pool_shape *s = &pool(plan)->shape;
    if (s->kernel[0] * s->kernel[1] > UINT16_MAX)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "max_pool '%s': a window of %lld x %lld pixels is more than the %d that "
                        "cpu has room to number; use a smaller kernel",
                        plan->cluster.node[0]->name, (long long)s->kernel[0],
                        (long long)s->kernel[1], UINT16_MAX);
    plan->needs.saved_bytes = lki_align(sizeof(uint16_t) * (size_t)lki_cpu(plan)->out);
    return LKS_OK;
}

static uint16_t *positions(const lki_plan *plan, const lki_args *args, int64_t sample)
{
    return (uint16_t *)(void *)((char *)args->saved + plan->needs.saved_bytes * (size_t)sample);
}

static lks_status cpu_max_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    for (int64_t s = 0; s < args->count; s++)
        p->vector->pool->max_forward(&pool(plan)->shape, (const float *)args->in[0] + s * p->in,
                                     (float *)args->out + s * p->out, positions(plan, args, s));
    return LKS_OK;
}

static lks_status cpu_max_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    if (args->d_in[0] == NULL) return LKS_OK;
    for (int64_t s = 0; s < args->count; s++)
        p->vector->pool->max_backward(&pool(plan)->shape, positions(plan, args, s),
                                      args->d_out + s * p->out, args->d_in[0] + s * p->in,
                                      args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_max_pool = {
    .plan_bytes = sizeof(pool_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_max,
    .forward = cpu_max_forward,
    .backward = cpu_max_backward,
};

static lks_status cpu_mean_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    for (int64_t s = 0; s < args->count; s++)
        p->vector->pool->mean_forward(&pool(plan)->shape, (const float *)args->in[0] + s * p->in,
                                      (float *)args->out + s * p->out);
    return LKS_OK;
}

static lks_status cpu_mean_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    if (args->d_in[0] == NULL) return LKS_OK;
    for (int64_t s = 0; s < args->count; s++)
        p->vector->pool->mean_backward(&pool(plan)->shape, args->d_out + s * p->out,
                                       args->d_in[0] + s * p->in, args->add_in & 1);
    return LKS_OK;
}

#define MEAN(name)                                                                                 \
    const lki_kernel lki_cpu_##name = {                                                            \
        .plan_bytes = sizeof(pool_plan),                                                           \
        .span = LKI_SPAN_EITHER,                                                                   \
        .plan = plan_pool,                                                                         \
        .forward = cpu_mean_forward,                                                               \
        .backward = cpu_mean_backward,                                                             \
    }
MEAN(avg_pool);
MEAN(global_avg_pool);
