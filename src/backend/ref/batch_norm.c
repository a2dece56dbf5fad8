/* batch_norm over the channels, the last dimension (op/batch_norm.c has the formulas). */
#include "backend/ref/kernels.h"

#include <math.h>

/* Of a replica, for each channel: the sum of x, and its mean; 1 / sqrt(variance + epsilon); and the sums
 * of dy * z and of dy, which are the parameters' gradients, and their means. */
typedef struct moments {
    int64_t channels;
    double *mean, *inverse, *d_weight, *d_bias;
} moments;

static moments ref_moments(const lki_plan *plan_, const lki_args *args)
{
    const int64_t channels = plan_->cluster.node[0]->param[0].shape.dim[0];
    double *values = args->replica;

    return (moments){.channels = channels,
                     .mean = values,
                     .inverse = values + channels,
                     .d_weight = values + 2 * channels,
                     .d_bias = values + 3 * channels};
}

static lks_status ref_batch_norm_plan(lki_plan *plan_)
{
    const int64_t channels = plan_->cluster.node[0]->param[0].shape.dim[0];

    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, 0));
    plan_->needs.apply_in = 1;
    plan_->needs.replica_bytes = 4 * (size_t)channels * sizeof(double);
    return LKS_OK;
}

static double inverse_root(const lki_plan *plan_, double variance)
{
    const lks_batch_norm_opts *opts = plan_->cluster.node[0]->attr;

    return 1.0 / sqrt(variance + (double)opts->epsilon);
}

/* Sums of the pieces of a replica, in order. */
static lks_status ref_batch_norm_forward(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const int64_t elements = args->count * lki_ref_in(plan_);
    const float *x = args->in[0];

    if (!args->training) return LKS_OK;
    for (int64_t c = 0; c < k.channels && args->sample == 0; c++) k.mean[c] = 0.0;
    for (int64_t i = 0; i < elements; i++) k.mean[i % k.channels] += (double)x[i];
    return LKS_OK;
}

static double squares_about(const float *x, int64_t m, int64_t channels, int64_t c, double mean)
{
    double squares = 0.0;

    for (int64_t i = 0; i < m; i++) {
        const double distance = (double)x[i * channels + c] - mean;

        squares += distance * distance;
    }
    return squares;
}

/* Of the replica's m values of each channel: m, mean, squares about it. */
static lks_status ref_batch_norm_give(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const int64_t m = args->count * lki_ref_in(plan_) / k.channels;

    args->met[0] = (double)m;
    for (int64_t c = 0; c < k.channels; c++) {
        const double mean = k.mean[c] / (double)m;

        args->met[1 + c] = mean;
        args->met[1 + k.channels + c] = squares_about(args->in[0], m, k.channels, c, mean);
    }
    return LKS_OK;
}

/* Of the values of all replicas. */
static lks_status ref_batch_norm_finish_met(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);

    for (int64_t c = 0; c < k.channels; c++) {
        k.mean[c] = args->met[1 + c];
        k.inverse[c] = inverse_root(plan_, args->met[1 + k.channels + c] / args->met[0]);
    }
    return LKS_OK;
}

/* Mean and inverse root of the replica's m values of each channel, and its statistics. */
static lks_status ref_batch_norm_finish(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const int64_t m = args->count * lki_ref_in(plan_) / k.channels;

    for (int64_t c = 0; c < k.channels && !args->training; c++) {
        k.mean[c] = ((const float *)args->buffer[0])[c];
        k.inverse[c] = inverse_root(plan_, ((const float *)args->buffer[1])[c]);
    }
    if (!args->training) return LKS_OK;
    if (args->met != NULL) return ref_batch_norm_finish_met(plan_, args);
    args->stats[0] = (double)m;
    args->stats[1] = m > 1 ? (double)m : 0.0;
    for (int64_t c = 0; c < k.channels; c++) {
        k.mean[c] /= (double)m;
        const double squares = squares_about(args->in[0], m, k.channels, c, k.mean[c]);

        k.inverse[c] = inverse_root(plan_, squares / (double)m);
        args->stats[2 + c] = (double)m * k.mean[c];
        args->stats[2 + k.channels + c] = m > 1 ? args->stats[1] * (squares / (double)(m - 1))
                                                : 0.0;
    }
    return LKS_OK;
}

static lks_status ref_batch_norm_apply(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const int64_t elements = args->count * lki_ref_in(plan_);
    const float *x = args->in[0], *weight = args->param[0], *bias = args->param[1];
    float *y = args->out;

    for (int64_t i = 0; i < elements; i++) {
        const int64_t c = i % k.channels;

        y[i] = lki_round(((double)x[i] - k.mean[c]) * k.inverse[c] * (double)weight[c] +
                         (double)bias[c]);
    }
    return LKS_OK;
}

static lks_status ref_batch_norm_gather(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const int64_t elements = args->count * lki_ref_in(plan_);
    const float *x = args->in[0], *dy = args->d_out;

    for (int64_t c = 0; c < k.channels && args->sample == 0; c++) k.d_weight[c] = k.d_bias[c] = 0.0;
    for (int64_t i = 0; i < elements; i++) {
        const int64_t c = i % k.channels;

        k.d_weight[c] += (double)dy[i] * (((double)x[i] - k.mean[c]) * k.inverse[c]);
        k.d_bias[c] += (double)dy[i];
    }
    return LKS_OK;
}

static lks_status ref_batch_norm_give_backward(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);

    args->met[0] = (double)(args->count * lki_ref_in(plan_) / k.channels);
    for (int64_t c = 0; c < k.channels; c++) {
        args->met[1 + c] = k.d_bias[c];
        args->met[1 + k.channels + c] = k.d_weight[c];
    }
    return LKS_OK;
}

static lks_status ref_batch_norm_finish_backward(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const double *met = args->met;
    const double m = met != NULL ? met[0] : (double)(args->count * lki_ref_in(plan_) / k.channels);

    for (int64_t c = 0; c < k.channels; c++) {
        if (args->d_param[0] != NULL) args->d_param[0][c] = lki_round(k.d_weight[c]);
        if (args->d_param[1] != NULL) args->d_param[1][c] = lki_round(k.d_bias[c]);
        k.d_weight[c] = (met != NULL ? met[1 + k.channels + c] : k.d_weight[c]) / m;
        k.d_bias[c] = (met != NULL ? met[1 + c] : k.d_bias[c]) / m;
    }
    return LKS_OK;
}

/* With z the normalised x: dx = weight * inverse * (dy - mean of dy - z * mean of dy * z). */
static lks_status ref_batch_norm_backward(const lki_plan *plan_, const lki_args *args)
{
    const moments k = ref_moments(plan_, args);
    const int64_t elements = args->count * lki_ref_in(plan_);
    const float *x = args->in[0], *dy = args->d_out, *weight = args->param[0];

    for (int64_t i = 0; args->d_in[0] != NULL && i < elements; i++) {
        const int64_t c = i % k.channels;
        const double z = ((double)x[i] - k.mean[c]) * k.inverse[c];

        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    (double)weight[c] * k.inverse[c] *
                        ((double)dy[i] - k.d_bias[c] - z * k.d_weight[c]));
    }
    return LKS_OK;
}

/* Samples of a replica depend on each other through sums over all of them. */
const lki_kernel lki_ref_batch_norm = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = ref_batch_norm_plan,
    .forward = ref_batch_norm_forward,
    .finish = ref_batch_norm_finish,
    .apply = ref_batch_norm_apply,
    .gather = ref_batch_norm_gather,
    .finish_backward = ref_batch_norm_finish_backward,
    .give = ref_batch_norm_give,
    .give_backward = ref_batch_norm_give_backward,
    .backward = ref_batch_norm_backward,
};
