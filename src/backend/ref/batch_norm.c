/* batch_norm over the channels, the last dimension (op/batch_norm.c has the formulas). */
#include "backend/ref/kernels.h"

#include <math.h>

/* Per replica, kept for backward: [mean of channels | 1 / sqrt(variance + epsilon)]. */

static lks_status ref_batch_norm_plan(lki_plan *plan_)
{
    const int64_t channels = plan_->cluster.node[0]->param[0].shape.dim[0];

    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, 2 * (size_t)channels * sizeof(double)));
    plan_->needs.replica_bytes = 2 * (size_t)channels * sizeof(double);
    return LKS_OK;
}

static double inverse_root(const lki_plan *plan_, double variance)
{
    const lks_batch_norm_opts *opts = plan_->cluster.node[0]->attr;

    return 1.0 / sqrt(variance + (double)opts->epsilon);
}

/* Mean and inverse root of the replica's m values of each channel, and its statistics. */
static void replica_statistics(const lki_plan *plan_, const lki_args *args, int64_t channels,
                               int64_t m)
{
    const float *x = args->in[0];
    double *mean = args->replica, *inverse = mean + channels;
    const double weight = m > 1 ? (double)m : 0.0;

    for (int64_t c = 0; c < channels; c++) {
        double sum = 0.0, squares = 0.0;

        for (int64_t i = 0; i < m; i++) sum += (double)x[i * channels + c];
        mean[c] = sum / (double)m;
        for (int64_t i = 0; i < m; i++) {
            const double distance = (double)x[i * channels + c] - mean[c];

            squares += distance * distance;
        }
        inverse[c] = inverse_root(plan_, squares / (double)m);
        args->stats[2 + c] = (double)m * mean[c];
        args->stats[2 + channels + c] = m > 1 ? weight * (squares / (double)(m - 1)) : 0.0;
    }
    args->stats[0] = (double)m;
    args->stats[1] = weight;
}

static lks_status ref_batch_norm_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t channels = plan_->cluster.node[0]->param[0].shape.dim[0];
    const int64_t m = args->count * lki_ref_in(plan_) / channels;
    const float *x = args->in[0], *weight = args->param[0], *bias = args->param[1];
    const double *mean = args->workspace, *inverse = mean + channels;
    float *y = args->out;

    if (args->training) {
        replica_statistics(plan_, args, channels, m);
        mean = args->replica;
        inverse = mean + channels;
    } else {
        const float *running_mean = args->buffer[0], *running_var = args->buffer[1];
        double *running = args->workspace;

        for (int64_t c = 0; c < channels; c++) {
            running[c] = running_mean[c];
            running[channels + c] = inverse_root(plan_, running_var[c]);
        }
    }
    for (int64_t i = 0; i < m * channels; i++) {
        const int64_t c = i % channels;

        y[i] = lki_round(((double)x[i] - mean[c]) * inverse[c] * (double)weight[c] +
                         (double)bias[c]);
    }
    return LKS_OK;
}

/* With z the normalised x: dx = weight * inverse * (dy - mean of dy - z * mean of dy * z). */
static lks_status ref_batch_norm_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t channels = plan_->cluster.node[0]->param[0].shape.dim[0];
    const int64_t m = args->count * lki_ref_in(plan_) / channels;
    const float *x = args->in[0], *dy = args->d_out, *weight = args->param[0];
    const double *mean = args->replica, *inverse = mean + channels;

    for (int64_t c = 0; c < channels; c++) {
        double d_weight = 0.0, d_bias = 0.0;

        for (int64_t i = c; i < m * channels; i += channels) {
            d_weight += (double)dy[i] * (((double)x[i] - mean[c]) * inverse[c]);
            d_bias += (double)dy[i];
        }
        args->d_param[0][c] = lki_round(d_weight);
        args->d_param[1][c] = lki_round(d_bias);
        for (int64_t i = c; args->d_in[0] != NULL && i < m * channels; i += channels) {
            const double z = ((double)x[i] - mean[c]) * inverse[c];

            lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                        (double)weight[c] * inverse[c] *
                            ((double)dy[i] - d_bias / (double)m - z * (d_weight / (double)m)));
        }
    }
    return LKS_OK;
}

/* Samples depend on each other, so the share is taken whole. */
const lki_kernel lki_ref_batch_norm = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_SHARE,
    .plan = ref_batch_norm_plan,
    .forward = ref_batch_norm_forward,
    .backward = ref_batch_norm_backward,
};
