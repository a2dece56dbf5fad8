/* log_softmax and the losses. Backward forms again what it needs from the inputs. */
#include "backend/ref/kernels.h"

#include <math.h>

#include "numeric/real.h"

/* e^x, for a sum whose largest term is 1, or for a product that is rounded to f32: smaller ones are
 * lost in both, and would be denormal in the end. */
static double ref_loss_share(double x)
{
    return x < -200.0 ? 0.0 : lki_exp(x);
}

/* log(sum over k of exp(x[k])); the largest is taken out, so that nothing overflows. */
static double log_sum_exp(const float *x, int64_t count)
{
    double largest = x[0], sum = 0.0;

    for (int64_t k = 1; k < count; k++) {
        if ((double)x[k] > largest) largest = x[k];
    }
    for (int64_t k = 0; k < count; k++) sum += ref_loss_share((double)x[k] - largest);
    return largest + lki_log(sum);
}

/* Values of a sample, or of each of its positions; and how many of these a call has. */
static int64_t values_of(const lki_plan *plan_)
{
    const lks_shape *in = &plan_->cluster.node[0]->in[0]->shape;

    return in->dim[in->ndim - 1];
}

static int64_t rows_of(const lki_plan *plan_, const lki_args *args)
{
    return args->count * (lki_ref_in(plan_) / values_of(plan_));
}

static lks_status reads_in(lki_plan *plan_)
{
    return lki_ref_needs(plan_, LKI_READS_IN, 0);
}

static lks_status reads_out(lki_plan *plan_)
{
    return lki_ref_needs(plan_, LKI_READS_OUT, 0);
}

static lks_status ref_log_softmax_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = values_of(plan_);

    for (int64_t n = 0; n < rows_of(plan_, args); n++) {
        const float *x = (const float *)args->in[0] + n * values;
        float *y = (float *)args->out + n * values;
        const double whole = log_sum_exp(x, values);

        for (int64_t k = 0; k < values; k++) y[k] = lki_round((double)x[k] - whole);
    }
    return LKS_OK;
}

/* dx[k] = dy[k] - exp(y[k]) * sum of dy. */
static lks_status ref_log_softmax_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = values_of(plan_);

    for (int64_t n = 0; n < rows_of(plan_, args) && args->d_in[0] != NULL; n++) {
        const float *y = (const float *)args->out + n * values;
        const float *dy = args->d_out + n * values;
        float *dx = args->d_in[0] + n * values;
        double sum = 0.0;

        for (int64_t k = 0; k < values; k++) sum += (double)dy[k];
        for (int64_t k = 0; k < values; k++)
            lki_ref_put(&dx[k], args->add_in & 1u,
                        (double)dy[k] - ref_loss_share((double)y[k]) * sum);
    }
    return LKS_OK;
}

/* Whether there is a class at this position. */
static bool is_counted(const lki_args *args, int64_t n)
{
    return ((const int32_t *)args->in[1])[n] != LKS_NO_CLASS;
}

/* How much of class k a sample should answer; without a class none of any. */
static double share_of(const lki_args *args, int64_t n, int64_t k)
{
    const int32_t own = ((const int32_t *)args->in[1])[n];
    const lks_mix none = {.label = own}, mix = args->mix != NULL ? args->mix[n] : none;

    return (k == own ? 1.0 - (double)mix.weight : 0.0) +
           (k == mix.label ? (double)mix.weight : 0.0);
}

static double smoothing(const lki_plan *plan_)
{
    return (double)((const lks_cross_entropy_opts *)plan_->cluster.node[0]->attr)->label_smoothing;
}

static lks_status ref_cross_entropy_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = values_of(plan_);
    const double s = smoothing(plan_);
    float *loss = args->out;

    for (int64_t n = 0; n < rows_of(plan_, args); n++) {
        const float *x = (const float *)args->in[0] + n * values;
        const double whole = is_counted(args, n) ? log_sum_exp(x, values) : 0.0;
        double own = 0.0, sum = 0.0;

        for (int64_t k = 0; k < values && is_counted(args, n); k++) {
            const double share = share_of(args, n, k);

            if (share > 0.0) own += share * (whole - (double)x[k]);
            if (s > 0.0) sum += whole - (double)x[k];
        }
        loss[n] = lki_round((1.0 - s) * own + s / (double)values * sum);
    }
    return LKS_OK;
}

/* dx[k] = p[k] - s/K - (1 - s) * the share of class k, which is 1 for the target where nothing is mixed. */
static lks_status ref_cross_entropy_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = values_of(plan_);
    const double s = smoothing(plan_);

    for (int64_t n = 0; n < rows_of(plan_, args) && args->d_in[0] != NULL; n++) {
        const float *x = (const float *)args->in[0] + n * values;
        float *dx = args->d_in[0] + n * values;
        const double whole = is_counted(args, n) ? log_sum_exp(x, values) : 0.0;

        for (int64_t k = 0; k < values; k++) {
            const double p = ref_loss_share((double)x[k] - whole);
            const double wanted = (1.0 - s) * share_of(args, n, k) + s / (double)values;
            const double d = (double)args->d_out[n] * (p - wanted);

            lki_ref_put(&dx[k], args->add_in & 1u, is_counted(args, n) ? d : 0.0);
        }
    }
    return LKS_OK;
}

static lks_status ref_nll_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = values_of(plan_);
    const float *x = args->in[0];
    float *loss = args->out;

    for (int64_t n = 0; n < rows_of(plan_, args); n++) {
        double sum = 0.0;

        for (int64_t k = 0; k < values; k++) {
            const double share = share_of(args, n, k);

            if (share > 0.0) sum -= share * (double)x[n * values + k];
        }
        loss[n] = lki_round(sum);
    }
    return LKS_OK;
}

static lks_status ref_nll_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = values_of(plan_);

    for (int64_t i = 0; i < args->count * lki_ref_in(plan_) && args->d_in[0] != NULL; i++) {
        const int64_t n = i / values;
        const double share = share_of(args, n, i % values);

        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    share > 0.0 ? -share * (double)args->d_out[n] : 0.0);
    }
    return LKS_OK;
}

static lks_status ref_mse_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = lki_ref_in(plan_);
    const float *x = args->in[0], *target = args->in[1];

    for (int64_t i = 0; i < args->count * values && args->d_in[0] != NULL; i++)
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    2.0 / (double)values * ((double)x[i] - (double)target[i]) *
                        (double)args->d_out[i / values]);
    return LKS_OK;
}

/* Huber's function of a distance, and its slope. */
static double huber_delta(const lki_plan *plan_)
{
    return (double)((const lks_huber_opts *)plan_->cluster.node[0]->attr)->delta;
}

static double ref_huber(double d, double delta)
{
    return fabs(d) <= delta ? d * d / 2.0 : delta * (fabs(d) - delta / 2.0);
}

static double huber_slope(double d, double delta)
{
    return d > delta ? delta : d < -delta ? -delta : d;
}

/* Of l1 the value and slope of |d|; NaN stays. */
static double l1_slope(double d)
{
    return d > 0.0 ? 1.0 : d < 0.0 ? -1.0 : d;
}

/* What a distance counts in mse, l1, or huber. */
static double distance_loss(const lki_plan *plan_, double d)
{
    const lki_op_id op = plan_->cluster.node[0]->op;

    return op == LKI_OP_MSE ? d * d : op == LKI_OP_L1 ? fabs(d) : ref_huber(d, huber_delta(plan_));
}

static bool is_huber(const lki_plan *plan_)
{
    return plan_->cluster.node[0]->op == LKI_OP_HUBER;
}

static lks_status ref_distances_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = lki_ref_in(plan_);
    const float *x = args->in[0], *target = args->in[1];
    float *loss = args->out;

    for (int64_t n = 0; n < args->count; n++) {
        double sum = 0.0;

        for (int64_t i = n * values; i < (n + 1) * values; i++)
            sum += distance_loss(plan_, (double)x[i] - (double)target[i]);
        loss[n] = lki_round(sum / (double)values);
    }
    return LKS_OK;
}

static lks_status ref_distances_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t values = lki_ref_in(plan_);
    const float *x = args->in[0], *target = args->in[1];

    for (int64_t i = 0; i < args->count * values && args->d_in[0] != NULL; i++) {
        const double distance = (double)x[i] - (double)target[i];
        const double slope = is_huber(plan_) ? huber_slope(distance, huber_delta(plan_))
                                             : l1_slope(distance);

        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    slope / (double)values * (double)args->d_out[i / values]);
    }
    return LKS_OK;
}

const lki_kernel lki_ref_l1 = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = reads_in,
    .forward = ref_distances_forward,
    .backward = ref_distances_backward,
};

const lki_kernel lki_ref_huber = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = reads_in,
    .forward = ref_distances_forward,
    .backward = ref_distances_backward,
};

const lki_kernel lki_ref_log_softmax = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = reads_out,
    .forward = ref_log_softmax_forward,
    .backward = ref_log_softmax_backward,
};

const lki_kernel lki_ref_cross_entropy = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = reads_in,
    .forward = ref_cross_entropy_forward,
    .backward = ref_cross_entropy_backward,
};

const lki_kernel lki_ref_nll = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = reads_in,
    .forward = ref_nll_forward,
    .backward = ref_nll_backward,
};

const lki_kernel lki_ref_mse = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = reads_in,
    .forward = ref_distances_forward,
    .backward = ref_mse_backward,
};
