/*
 * layer_norm over the last dimensions (op/layer_norm.c has the formulas), and rms_norm over the last one, which is the same
 * about 0 instead of the mean. A sample is a matrix of
 * rows, each normalised by itself; moments are formed again in backward.
 *
 * A gradient of a parameter is one sum in double over the rows of all samples of the replica; it waits
 * between pieces, and is rounded and stored behind the last.
 */
#include "backend/ref/kernels.h"

#include <math.h>
#include <string.h>

typedef struct layer_norm {
    lki_plan base;
    double epsilon;
    bool centred;             /* about the mean */
    int64_t width;            /* values of a row */
    int64_t rows;             /* of a sample */
    int64_t pixels, channels; /* parameters are [channels][pixels], rows [pixels][channels]; one
                                 pixel where both have one order */
} layer_norm;

typedef struct moments {
    double mean, inverse; /* 1 / sqrt(variance + epsilon) */
} moments;

/* Rows of `dims` dimensions. */
static lks_status plan_rows(lki_plan *plan_, float epsilon, int dims)
{
    layer_norm *p = (layer_norm *)plan_;
    const lks_shape *in = &plan_->cluster.node[0]->in[0]->shape;
    const bool image = dims == 3 && in->ndim == 3;

    p->epsilon = (double)epsilon;
    p->width = 1;
    for (int i = in->ndim - dims; i < in->ndim; i++) p->width *= in->dim[i];
    p->rows = lki_ref_in(plan_) / p->width;
    p->channels = image ? in->dim[2] : p->width;
    p->pixels = p->width / p->channels;
    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, 0));
    plan_->needs.sums_bytes = 2 * (size_t)p->width * sizeof(double);
    return LKS_OK;
}

static lks_status ref_layer_norm_plan(lki_plan *plan_)
{
    const lks_layer_norm_opts *opts = plan_->cluster.node[0]->attr;

    ((layer_norm *)plan_)->centred = true;
    return plan_rows(plan_, opts->epsilon, opts->dims);
}

static lks_status ref_rms_norm_plan(lki_plan *plan_)
{
    const lks_rms_norm_opts *opts = plan_->cluster.node[0]->attr;

    return plan_rows(plan_, opts->epsilon, 1);
}

/* Where the parameter of value i of a row stands. */
static int64_t ref_layer_norm_parameter(const layer_norm *p, int64_t i)
{
    return i % p->channels * p->pixels + i / p->channels;
}

static moments ref_layer_norm_measure(const layer_norm *p, const float *x)
{
    double sum = 0.0, squares = 0.0;

    for (int64_t i = 0; i < p->width; i++) sum += (double)x[i];
    const double mean = p->centred ? sum / (double)p->width : 0.0;
    for (int64_t i = 0; i < p->width; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (moments){mean, 1.0 / sqrt(squares / (double)p->width + p->epsilon)};
}

static lks_status ref_layer_norm_forward(const lki_plan *plan_, const lki_args *args)
{
    const layer_norm *p = (const layer_norm *)plan_;
    const float *weight = args->param[0], *bias = args->param[1];

    for (int64_t r = 0; r < args->count * p->rows; r++) {
        const float *x = (const float *)args->in[0] + r * p->width;
        float *y = (float *)args->out + r * p->width;
        const moments m = ref_layer_norm_measure(p, x);

        for (int64_t i = 0; i < p->width; i++) {
            const int64_t at = ref_layer_norm_parameter(p, i);
            const double z = ((double)x[i] - m.mean) * m.inverse;

            y[i] = lki_round((weight != NULL ? z * (double)weight[at] : z) +
                             (bias != NULL ? (double)bias[at] : 0.0));
        }
    }
    return LKS_OK;
}

/* With z the normalised x and g = weight * dy: dx = inverse * (g - mean of g - z * mean of g * z), without the former mean
 * where x had none taken away. */
static void backward_row(const layer_norm *p, const float *x, const float *dy, const float *weight,
                         float *dx, bool add)
{
    const moments m = ref_layer_norm_measure(p, x);
    double mean = 0.0, slope = 0.0;

    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < p->width; i++) {
            const double w = weight != NULL ? (double)weight[ref_layer_norm_parameter(p, i)] : 1.0;
            const double z = ((double)x[i] - m.mean) * m.inverse, g = w * (double)dy[i];

            if (pass == 0) {
                if (p->centred) mean += g / (double)p->width;
                slope += g * z / (double)p->width;
            } else {
                lki_ref_put(&dx[i], add, m.inverse * (g - mean - z * slope));
            }
        }
    }
}

/* Adds a row to the sums, [weight | bias]. */
static void sum_row(const layer_norm *p, const float *x, const float *dy, double *sums)
{
    const moments m = ref_layer_norm_measure(p, x);

    for (int64_t i = 0; i < p->width; i++) {
        const int64_t at = ref_layer_norm_parameter(p, i);

        sums[at] += (double)dy[i] * (((double)x[i] - m.mean) * m.inverse);
        sums[p->width + at] += (double)dy[i];
    }
}

static lks_status ref_layer_norm_backward(const lki_plan *plan_, const lki_args *args)
{
    const layer_norm *p = (const layer_norm *)plan_;
    double *sums = args->sums;

    if (args->sample == 0) memset(sums, 0, plan_->needs.sums_bytes);
    for (int64_t r = 0; r < args->count * p->rows; r++) {
        const float *x = (const float *)args->in[0] + r * p->width;
        const float *dy = args->d_out + r * p->width;

        sum_row(p, x, dy, sums);
        if (args->d_in[0] != NULL)
            backward_row(p, x, dy, args->param[0], args->d_in[0] + r * p->width, args->add_in & 1u);
    }
    for (int64_t i = 0; args->last && args->d_param[0] != NULL && i < p->width; i++) {
        args->d_param[0][i] = lki_round(sums[i]);
        if (args->d_param[1] != NULL) args->d_param[1][i] = lki_round(sums[p->width + i]);
    }
    return LKS_OK;
}

const lki_kernel lki_ref_layer_norm = {
    .plan_bytes = sizeof(layer_norm),
    .span = LKI_SPAN_EITHER,
    .plan = ref_layer_norm_plan,
    .forward = ref_layer_norm_forward,
    .backward = ref_layer_norm_backward,
};

const lki_kernel lki_ref_rms_norm = {
    .plan_bytes = sizeof(layer_norm),
    .span = LKI_SPAN_EITHER,
    .plan = ref_rms_norm_plan,
    .forward = ref_layer_norm_forward,
    .backward = ref_layer_norm_backward,
};
