/*
 * embedding: y[t] = w[token t]; position: y[n][t] = x[n][t] + w[t], or with a class token y[n][0] = w[0], y[n][t + 1] = x[n][t] +
 * w[t + 1].
 *
 * An element of a gradient is one sum in double over what was added of it: of an embedding over the positions that have
 * its token, samples ascending and in a sample positions; of a position over the samples.
 */
#include "backend/ref/kernels.h"

#include <string.h>

#include "core/sinusoid.h"
#include "numeric/tree.h"

typedef struct table {
    lki_plan base;
    int64_t units, count; /* of the weight: columns, and all */
} table;

static lks_status ref_table_plan(lki_plan *plan_)
{
    table *p = (table *)plan_;
    const lki_param *weight = &plan_->cluster.node[0]->param[0];

    p->count = lks_shape_elements(&weight->shape);
    p->units = weight->shape.dim[weight->shape.ndim - 1];
    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, 0));
    plan_->needs.sums_bytes = (size_t)p->count * sizeof(double);
    return LKS_OK;
}

/* Adds so many rows of d_out to the sums, and writes the gradient behind the last piece. A row belongs to that of its token,
 * if it is not blank; without tokens to those of the weight in order, from sample to sample. */
static void ref_table_sum(const table *p, const lki_args *args, int64_t rows, const int32_t *tokens)
{
    double *sums = args->sums;

    if (args->d_param[0] == NULL) return;
    if (args->sample == 0) memset(sums, 0, p->base.needs.sums_bytes);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t row = tokens != NULL ? tokens[r] : r % (p->count / p->units);

        if (row + 1 == p->base.cluster.node[0]->param[0].blank) continue;
        for (int64_t u = 0; u < p->units; u++)
            sums[row * p->units + u] += (double)args->d_out[r * p->units + u];
    }
    if (args->last) lki_ref_put_all(args->d_param[0], args->add_param, sums, p->count);
}

static lks_status ref_embedding_forward(const lki_plan *plan_, const lki_args *args)
{
    const table *p = (const table *)plan_;
    const int32_t *tokens = args->in[0];
    float *y = args->out;

    for (int64_t t = 0; t < args->count * lki_ref_in(plan_); t++)
        memcpy(y + t * p->units, args->param[0] + tokens[t] * p->units,
               (size_t)p->units * sizeof *y);
    return LKS_OK;
}

static lks_status ref_embedding_backward(const lki_plan *plan_, const lki_args *args)
{
    ref_table_sum((const table *)plan_, args, args->count * lki_ref_in(plan_), args->in[0]);
    return LKS_OK;
}

/* Sines and cosines lie where others have packed parameters. */
static lks_status ref_position_plan(lki_plan *plan_)
{
    table *p = (table *)plan_;
    const lks_shape *in = &plan_->cluster.node[0]->out.shape;

    if (plan_->cluster.node[0]->param_count > 0) return ref_table_plan(plan_);
    p->units = in->dim[in->ndim - 1];
    p->count = lki_node_positions(plan_->cluster.node[0]) * p->units;
    LKI_TRY(lki_ref_needs(plan_, 0, 0));
    plan_->needs.packed_bytes = (size_t)p->count * sizeof(float);
    return LKS_OK;
}

static void ref_position_prepare(lki_plan *plan_, const float *const param[], void *packed,
                                 int part, int parts)
{
    const table *p = (const table *)plan_;
    const int64_t end = lki_share(part + 1, parts, p->count);

    if (param[0] != NULL) return;
    for (int64_t e = lki_share(part, parts, p->count); e < end; e++)
        ((float *)packed)[e] = lki_round(lki_sinusoid(e / p->units, e % p->units, p->units));
}

/* Elements of an output in front of the input's: a class token. */
static int64_t front_of(const lki_plan *plan_)
{
    return lki_ref_out(plan_) - lki_ref_in(plan_);
}

static lks_status forward_behind(const lki_plan *plan_, const lki_args *args)
{
    const int64_t in = lki_ref_in(plan_), out = lki_ref_out(plan_), front = out - in;
    const float *x = args->in[0];
    float *y = args->out;

    for (int64_t e = 0; e < args->count * out; e++) {
        const int64_t sample = e / out, at = e % out;
        const double added = at < front ? 0 : (double)x[sample * in + at - front];

        y[e] = lki_round(added + (double)args->param[0][at]);
    }
    return LKS_OK;
}

static lks_status ref_position_forward(const lki_plan *plan_, const lki_args *args)
{
    const table *p = (const table *)plan_;
    const float *x = args->in[0];
    const float *all = args->param[0] != NULL ? args->param[0] : args->packed;
    const int64_t begin = plan_->cluster.node[0]->whole != NULL ? args->at * p->units : 0;
    float *y = args->out;

    if (front_of(plan_) > 0) return forward_behind(plan_, args);
    for (int64_t e = 0; e < args->count * lki_ref_in(plan_); e++)
        y[e] = lki_round((double)x[e] + (double)all[(begin + e) % p->count]);
    return LKS_OK;
}

static lks_status ref_position_backward(const lki_plan *plan_, const lki_args *args)
{
    const table *p = (const table *)plan_;

    const int64_t in = lki_ref_in(plan_), front = front_of(plan_);

    for (int64_t e = 0; args->d_in[0] != NULL && e < args->count * in; e++)
        lki_ref_put(&args->d_in[0][e], args->add_in & 1u,
                    (double)args->d_out[e + (e / in + 1) * front]);
    ref_table_sum(p, args, args->count * (p->count / p->units), NULL);
    return LKS_OK;
}

const lki_kernel lki_ref_embedding = {
    .plan_bytes = sizeof(table),
    .span = LKI_SPAN_EITHER,
    .plan = ref_table_plan,
    .forward = ref_embedding_forward,
    .backward = ref_embedding_backward,
};

const lki_kernel lki_ref_position = {
    .plan_bytes = sizeof(table),
    .span = LKI_SPAN_EITHER,
    .follows = true,
    .plan = ref_position_plan,
    .prepare = ref_position_prepare,
    .forward = ref_position_forward,
    .backward = ref_position_backward,
};
