/* normalize, relu, flatten, sequence, select, dropout: each output element reads one element of the input. */
#include "backend/ref/kernels.h"

#include <string.h>

#include "numeric/random.h"

static lks_status no_reads(lki_plan *plan_)
{
    return lki_ref_needs(plan_, 0, 0);
}

/* In f32, as graph.h defines it. */
static lks_status normalize_forward(const lki_plan *plan_, const lki_args *args)
{
    const lks_tensor *x = plan_->cluster.node[0]->in[0];
    const lks_normalize_opts *opts = plan_->cluster.node[0]->attr;
    const int64_t channels = x->shape.dim[x->shape.ndim - 1];
    const int64_t count = args->count * lki_ref_in(plan_);
    const uint8_t *bytes = args->in[0];
    const float *floats = args->in[0];
    float *out = args->out;

    for (int64_t i = 0; i < count; i++) {
        const int64_t c = opts->count > 1 ? i % channels : 0;
        const float value = x->dtype == LKS_U8 ? (float)bytes[i] / 255.0f : floats[i];

        out[i] = lki_flush((value - opts->mean[c]) / opts->std[c]);
    }
    return LKS_OK;
}

static lks_status ref_relu_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, LKI_READS_OUT, 0);
}

static lks_status ref_relu_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t count = args->count * lki_ref_in(plan_);
    const float *in = args->in[0];
    float *out = args->out;

    for (int64_t i = 0; i < count; i++) out[i] = in[i] > 0.0f ? in[i] : 0.0f;
    return LKS_OK;
}

static lks_status ref_relu_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t count = args->count * lki_ref_in(plan_);
    const float *out = args->out;

    for (int64_t i = 0; args->d_in[0] != NULL && i < count; i++)
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    out[i] > 0.0f ? (double)args->d_out[i] : 0.0);
    return LKS_OK;
}

/* A matrix of `rows` by `columns` per sample: of an image height times width by channels; all else has one column. */
typedef struct matrix {
    int64_t rows, columns;
} matrix;

static matrix as_matrix(const lki_plan *plan_)
{
    const lks_shape *shape = &plan_->cluster.node[0]->in[0]->shape;
    const int64_t columns = shape->ndim == 3 ? shape->dim[shape->ndim - 1] : 1;

    return (matrix){lki_ref_in(plan_) / columns, columns};
}

/* Where element i of the samples is after the transposition. */
static int64_t transposed(matrix m, int64_t i)
{
    const int64_t elements = m.rows * m.columns, inside = i % elements;

    return i - inside + inside % m.columns * m.rows + inside / m.columns;
}

static lks_status ref_flatten_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t count = args->count * lki_ref_in(plan_);
    const matrix m = as_matrix(plan_);
    const float *in = args->in[0];
    float *out = args->out;

    for (int64_t i = 0; i < count; i++) out[transposed(m, i)] = in[i];
    return LKS_OK;
}

static lks_status ref_flatten_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t count = args->count * lki_ref_in(plan_);
    const matrix m = as_matrix(plan_);

    for (int64_t i = 0; args->d_in[0] != NULL && i < count; i++)
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u, (double)args->d_out[transposed(m, i)]);
    return LKS_OK;
}

static lks_status sequence_forward(const lki_plan *plan_, const lki_args *args)
{
    memcpy(args->out, args->in[0], (size_t)(args->count * lki_ref_in(plan_)) * sizeof(float));
    return LKS_OK;
}

static lks_status sequence_backward(const lki_plan *plan_, const lki_args *args)
{
    for (int64_t i = 0; args->d_in[0] != NULL && i < args->count * lki_ref_in(plan_); i++)
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u, (double)args->d_out[i]);
    return LKS_OK;
}

/* Element i of the output is this one of the input. */
static int64_t selected(const lki_plan *plan_, int64_t i)
{
    const int64_t in = lki_ref_in(plan_), channels = lki_ref_out(plan_);
    const lks_select_opts *opts = plan_->cluster.node[0]->attr;
    const int64_t from_end = opts->position < 0 ? in / channels : 0;

    return i / channels * in + (from_end + opts->position) * channels + i % channels;
}

static lks_status select_forward(const lki_plan *plan_, const lki_args *args)
{
    const float *in = args->in[0];
    float *out = args->out;

    for (int64_t i = 0; i < args->count * lki_ref_out(plan_); i++) out[i] = in[selected(plan_, i)];
    return LKS_OK;
}

static lks_status select_backward(const lki_plan *plan_, const lki_args *args)
{
    float *d_in = args->d_in[0];

    if (d_in == NULL) return LKS_OK;
    if (!(args->add_in & 1u))
        memset(d_in, 0, (size_t)(args->count * lki_ref_in(plan_)) * sizeof *d_in);
    for (int64_t i = 0; i < args->count * lki_ref_out(plan_); i++)
        lki_ref_put(&d_in[selected(plan_, i)], args->add_in & 1u, (double)args->d_out[i]);
    return LKS_OK;
}

typedef struct dropout {
    lki_plan base;
    lki_bernoulli drop;
    bool by_sample;
    float scale;
} dropout;

/* saved: a byte per element, 1 where it was dropped. */
static lks_status dropout_plan(lki_plan *plan_)
{
    dropout *p = (dropout *)plan_;
    const lks_dropout_opts *opts = plan_->cluster.node[0]->attr;

    p->drop = lki_bernoulli_make(opts->probability);
    p->by_sample = opts->by_sample;
    p->scale = (float)(1.0 / (1.0 - p->drop.probability));
    LKI_TRY(lki_ref_needs(plan_, 0, 0));
    plan_->needs.saved_bytes = (size_t)lki_ref_in(plan_);
    return LKS_OK;
}

static lks_status dropout_forward(const lki_plan *plan_, const lki_args *args)
{
    const dropout *p = (const dropout *)plan_;
    const int64_t elements = lki_ref_in(plan_);
    const float *in = args->in[0];
    float *out = args->out;

    if (!args->training) {
        memcpy(out, in, (size_t)(args->count * elements) * sizeof *out);
        return LKS_OK;
    }
    for (int64_t n = 0; n < args->count; n++) {
        uint8_t *dropped = (uint8_t *)args->saved + n * elements;

        lki_bernoulli_draw(&p->drop, plan_->random_key, args->step, (uint32_t)(args->position + n),
                           0, p->by_sample ? 1 : elements, dropped);
        if (p->by_sample) memset(dropped, dropped[0], (size_t)elements);
        for (int64_t i = 0; i < elements; i++)
            out[n * elements + i] = dropped[i] ? 0.0f : lki_flush(in[n * elements + i] * p->scale);
    }
    return LKS_OK;
}

static lks_status dropout_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t count = args->count * lki_ref_in(plan_);
    const dropout *p = (const dropout *)plan_;
    const uint8_t *dropped = args->saved;

    for (int64_t i = 0; args->d_in[0] != NULL && i < count; i++)
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    dropped[i] ? 0.0 : (double)(args->d_out[i] * p->scale));
    return LKS_OK;
}

const lki_kernel lki_ref_normalize = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = no_reads,
    .forward = normalize_forward,
};

const lki_kernel lki_ref_relu = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = ref_relu_plan,
    .forward = ref_relu_forward,
    .backward = ref_relu_backward,
};

const lki_kernel lki_ref_flatten = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = no_reads,
    .forward = ref_flatten_forward,
    .backward = ref_flatten_backward,
};

const lki_kernel lki_ref_sequence = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = no_reads,
    .forward = sequence_forward,
    .backward = sequence_backward,
};

const lki_kernel lki_ref_select = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = no_reads,
    .forward = select_forward,
    .backward = select_backward,
};

const lki_kernel lki_ref_dropout = {
    .plan_bytes = sizeof(dropout),
    .span = LKI_SPAN_EITHER,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
