/* Embedding: rows of the weight are copied; a row's gradient is summed in double over the positions that have its
 * token, one row after the other, so that there are sums of one row. And what is learned of positions. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "core/sinusoid.h"
#include "numeric/tree.h"

typedef struct embedding_plan {
    lki_cpu_plan cpu;
    int64_t vocabulary, units;
    size_t next, sum; /* where these are in the workspace */
} embedding_plan;

static const embedding_plan *embedding(const lki_plan *plan)
{
    return (const embedding_plan *)(const void *)plan;
}

/* In backward: the first position with each token, the next one with the same, and the sums of a row. */
static lks_status cpu_embedding_plan(lki_plan *plan)
{
    embedding_plan *p = (embedding_plan *)(void *)plan;
    const lki_param *weight = &plan->cluster.node[0]->param[0];
    LKI_TRY(lki_cpu_plan_start(plan));
    p->vocabulary = weight->shape.dim[0];
    p->units = weight->shape.dim[1];
    p->next = lki_align((size_t)p->vocabulary * sizeof(int32_t));
    p->sum = p->next + lki_align((size_t)(plan->slice * p->cpu.in) * sizeof(int32_t));
    plan->needs.reads = LKI_READS_IN;
    plan->needs.workspace_bytes = p->sum + (size_t)p->units * sizeof(double);
    return LKS_OK;
}

static lks_status cpu_embedding_forward(const lki_plan *plan, const lki_args *args)
{
    const embedding_plan *p = embedding(plan);
    const int32_t *token = args->in[0];
    float *y = args->out;
    for (int64_t t = 0; t < args->count * p->cpu.in; t++)
        memcpy(y + t * p->units, args->param[0] + token[t] * p->units,
               (size_t)p->units * sizeof *y);
    return LKS_OK;
}

/* Lists of positions, ascending. */
static void list_positions(const embedding_plan *p, int64_t count, const int32_t *token,
                           int32_t *head, int32_t *next)
{
    for (int64_t v = 0; v < p->vocabulary; v++) head[v] = -1;
    for (int64_t t = count - 1; t >= 0; t--) {
        next[t] = head[token[t]];
        head[token[t]] = (int32_t)t;
    }
}

static lks_status cpu_embedding_backward(const lki_plan *plan, const lki_args *args)
{
    const embedding_plan *p = embedding(plan);
    int32_t *head = args->workspace;
    int32_t *next = (int32_t *)(void *)((char *)args->workspace + p->next);
    double *sum = (double *)(void *)((char *)args->workspace + p->sum);
    if (args->d_param[0] == NULL) return LKS_OK;
    list_positions(p, args->count * p->cpu.in, args->in[0], head, next);
    for (int64_t v = 0; v < p->vocabulary; v++) {
        float *row = args->d_param[0] + v * p->units;
        if (head[v] < 0) {
            if (!args->add_param) memset(row, 0, (size_t)p->units * sizeof *row);
            continue;
        }
        memset(sum, 0, (size_t)p->units * sizeof *sum);
        for (int32_t t = head[v]; t >= 0; t = next[t])
            for (int64_t u = 0; u < p->units; u++) sum[u] += (double)args->d_out[t * p->units + u];
        for (int64_t u = 0; u < p->units; u++)
            row[u] = args->add_param ? lki_flush(row[u] + lki_round(sum[u])) : lki_round(sum[u]);
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_embedding = {
    .plan_bytes = sizeof(embedding_plan),
    .span = LKI_SPAN_SHARE,
    .plan = cpu_embedding_plan,
    .forward = cpu_embedding_forward,
    .backward = cpu_embedding_backward,
};

/* Of what is added to a sample. */
static int64_t positions_floats(const lki_plan *plan)
{
    const lki_node *node = plan->cluster.node[0];
    return lki_node_positions(node) * node->out.shape.dim[1];
}

static lks_status cpu_position_plan(lki_plan *plan)
{
    LKI_TRY(lki_cpu_plan_start(plan));
    if (plan->cluster.node[0]->param_count > 0)
        plan->needs.sums_bytes = (size_t)lki_cpu(plan)->out * sizeof(double);
    else
        plan->needs.packed_bytes = (size_t)positions_floats(plan) * sizeof(float);
    return LKS_OK;
}

/* Sines and cosines lie where others have packed parameters. */
static void cpu_position_prepare(lki_plan *plan, const float *const param[], void *packed, int part,
                                 int parts)
{
    const lks_shape *in = &plan->cluster.node[0]->out.shape;
    const int64_t channels = in->dim[in->ndim - 1], count = positions_floats(plan);
    const int64_t end = lki_share(part + 1, parts, count);
    if (param[0] != NULL) return;
    for (int64_t e = lki_share(part, parts, count); e < end; e++)
        ((float *)packed)[e] = lki_round(lki_sinusoid(e / channels, e % channels, channels));
}

static lks_status cpu_position_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const float *all = args->param[0] != NULL ? args->param[0] : args->packed;
    if (plan->cluster.node[0]->whole != NULL) /* samples are positions */
        p->vector->product->rows_plus(1, args->count * p->out, args->in[0], all + args->at * p->out,
                                      args->out);
    else
        p->vector->product->rows_plus(args->count, p->out, args->in[0], all, args->out);
    return LKS_OK;
}

static lks_status cpu_position_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    double *sum = args->sums;
    if (args->d_in[0] != NULL)
        p->vector->element->pass(args->count * p->out, args->d_out, args->d_in[0],
                                 args->add_in & 1);
    if (args->d_param[0] == NULL) return LKS_OK;
    if (args->sample == 0) memset(sum, 0, plan->needs.sums_bytes);
    for (int64_t s = 0; s < args->count; s++)
        for (int64_t i = 0; i < p->out; i++) sum[i] += (double)args->d_out[s * p->out + i];
    for (int64_t i = 0; args->last && i < p->out; i++) args->d_param[0][i] = lki_round(sum[i]);
    return LKS_OK;
}

const lki_kernel lki_cpu_position = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .follows = true,
    .plan = cpu_position_plan,
    .prepare = cpu_position_prepare,
    .forward = cpu_position_forward,
    .backward = cpu_position_backward,
};
