/* Bounds on the difference between a backend and ref: batch norm and layer norm. */
#include "check/bounds.h"

#include <math.h>

/*
 * Batch norm, one channel of m values; s = 1/sqrt(variance + epsilon), z = (x - mean) * s.
 *   mean       error e <= (m + 2) u mean|x|
 *   variance   two passes: each square (x - mean)^2 has relative error 3u and the sum m*u; the error
 *              of the mean adds e^2 at most, as the terms linear in it cancel:
 *              r = (m + 8) u + e^2 s^2 relative to variance + epsilon
 *              One pass in double about one of the values: with v = 2^-53 the sums' errors are 3 (m + 3) v
 *              of the squares about it, which are m times those about the mean at most; that of the mean is
 *              (m + 3) v (mean|x| + |that value|), the latter at most m mean|x|. Both are below the above
 *              where 3 m v < u, up to m = 2^27.
 *   s          r/2 + 3u, relative
 *   z          d = (e + 4u (|x| + |mean|)) s + |z| (r/2 + 3u), also when computed as x*s - mean*s
 *   y = w z + b             |w| d + 3u (|w z| + |b|)
 *   d_bias = sum dy         (m + 4) u sum|dy|
 *   d_weight = sum dy z     sum |dy| d + (m + 4) u sum |dy z|
 *   dx = w s (dy - d_bias/m - z d_weight/m), with G the three magnitudes in the bracket:
 *       |w| s (error of d_bias / m + |z| error of d_weight / m + d |d_weight| / m + (r/2 + 9u) G)
 */
typedef struct channel {
    double mean, variance, s, e, r;
    double d_weight, d_bias, e_weight, e_bias;
} channel;

/* Mean to r of m values that lie `stride` apart. */
static channel bounds_moments(const float *x, int64_t m, int64_t stride, double epsilon)
{
    channel k = {0};
    double magnitude = 0.0;

    for (int64_t i = 0; i < m; i++) {
        k.mean += (double)x[i * stride] / (double)m;
        magnitude += fabs((double)x[i * stride]) / (double)m;
    }
    for (int64_t i = 0; i < m; i++)
        k.variance += ((double)x[i * stride] - k.mean) * ((double)x[i * stride] - k.mean) /
                      (double)m;
    k.e = ((double)m + 2.0) * LKI_U * magnitude;
    k.s = 1.0 / sqrt(k.variance + epsilon);
    k.r = ((double)m + 8.0) * LKI_U + k.e * k.e * k.s * k.s;
    return k;
}

static double z_error(const channel *k, double x)
{
    return (k->e + 4.0 * LKI_U * (fabs(x) + fabs(k->mean))) * k->s +
           fabs(x - k->mean) * k->s * (k->r / 2.0 + 3.0 * LKI_U);
}

static channel channel_statistics(const lki_trial *c, int64_t m, int64_t channels, int64_t which)
{
    const lks_batch_norm_opts *opts = lki_trial_first(c)->attr;
    const float *x = c->in[0];
    channel k = bounds_moments(x + which, m, channels, (double)opts->epsilon);

    if (!c->training) { /* the running ones, which are given */
        k.mean = (double)((const float *)c->buffer[0])[which];
        k.variance = (double)((const float *)c->buffer[1])[which];
        k.e = 0.0;
        k.s = 1.0 / sqrt(k.variance + (double)opts->epsilon);
        k.r = ((double)m + 8.0) * LKI_U;
    }
    for (int64_t i = which; i < m * channels; i += channels) {
        const double dy = c->d_out[i], z = ((double)x[i] - k.mean) * k.s;

        k.d_bias += dy;
        k.d_weight += dy * z;
        k.e_bias += ((double)m + 4.0) * LKI_U * fabs(dy);
        k.e_weight += fabs(dy) * z_error(&k, x[i]) + ((double)m + 4.0) * LKI_U * fabs(dy * z);
    }
    return k;
}

lks_status lki_bounds_batch_norm(lki_trial *c, bool backward, const lki_trial_result *ref,
                                 lki_bounds *out)
{
    (void)ref;
    const int64_t channels = lki_trial_param_elements(c, 0),
                  m = lki_trial_in_elements(c, 0) / channels;
    const float *x = c->in[0];

    for (int64_t j = 0; j < channels; j++) {
        const channel k = channel_statistics(c, m, channels, j);
        const double w = c->param[0][j], b = c->param[1][j];

        if (out->stats != NULL) {
            const double unbiased = m > 1 ? (double)m * k.variance * (double)m / (double)(m - 1)
                                          : 0;

            out->stats[2 + j] = (double)m * (k.e + LKI_U * fabs(k.mean));
            out->stats[2 + channels + j] = 1.1 * (((double)m + 8.0) * LKI_U * unbiased +
                                                  (double)m * 2.0 * k.e * k.e);
        }
        if (backward) {
            out->d_param[0][j] = 1.1 * k.e_weight;
            out->d_param[1][j] = 1.1 * k.e_bias;
        }
        for (int64_t i = j; i < m * channels; i += channels) {
            const double d = z_error(&k, x[i]), z = ((double)x[i] - k.mean) * k.s;
            const double dy = c->d_out[i], n = (double)m;

            out->out[i] = 1.1 * (fabs(w) * d + 3.0 * LKI_U * (fabs(w * z) + fabs(b)));
            if (!backward) continue;
            out->d_in[0][i] = 1.1 * fabs(w) * k.s *
                              (k.e_bias / n + fabs(z) * k.e_weight / n + d * fabs(k.d_weight) / n +
                               (k.r / 2.0 + 9.0 * LKI_U) *
                                   (fabs(dy) + fabs(k.d_bias) / n + fabs(z * k.d_weight) / n));
        }
    }
    return LKS_OK;
}

/*
 * Layer norm, one row of m values: moments, z and y as batch norm has them for a channel. With
 * g = w dy, which rounds once, and sums over the row in the place of d_bias and d_weight there:
 *   A = sum g      (m + 5) u sum|g|
 *   B = sum g z    sum |g| d + (m + 5) u sum |g z|
 *   dx = s (g - A/m - z B/m), with G the three magnitudes in the bracket:
 *       s (error of A / m + |z| error of B / m + d |B| / m + (r/2 + 9u) G)
 * The parameters' gradients are sums over all rows, which ref rounds once for each sample; with t the
 * number of rows and samples, + 4:
 *   sum |dy| d + t u sum |dy z|    and    t u sum |dy|
 * Rms norm is the same about 0 in the place of the mean, which nothing has to find: e = 0, without A and a bias.
 */
static bool is_rms(const lki_trial *c)
{
    return lki_trial_first(c)->op == LKI_OP_RMS_NORM;
}

/* Where the parameter of element i of a row stands (op/layer_norm.c). */
static int64_t layer_norm_parameter(const lki_trial *c, int64_t i)
{
    const lks_shape *in = &lki_trial_first(c)->in[0]->shape;
    const lks_layer_norm_opts *opts = lki_trial_first(c)->attr;

    if (is_rms(c) || opts->dims != 3 || in->ndim != 3) return i;
    return i % in->dim[2] * in->dim[0] * in->dim[1] + i / in->dim[2];
}

static double layer_norm_weight(const lki_trial *c, int64_t i)
{
    return c->param[0] != NULL ? (double)c->param[0][layer_norm_parameter(c, i)] : 1.0;
}

static void layer_norm_row(const lki_trial *c, const channel *k, int64_t m, int64_t row,
                           double *bound)
{
    const float *x = (const float *)c->in[0] + row * m, *dy = c->d_out + row * m;
    const double n = (double)m;
    double a = 0.0, b = 0.0, e_a = 0.0, e_b = 0.0;

    for (int64_t i = 0; i < m; i++) {
        const double g = layer_norm_weight(c, i) * (double)dy[i];
        const double z = ((double)x[i] - k->mean) * k->s;

        if (!is_rms(c)) {
            a += g;
            e_a += (n + 5.0) * LKI_U * fabs(g);
        }
        b += g * z;
        e_b += fabs(g) * z_error(k, x[i]) + (n + 5.0) * LKI_U * fabs(g * z);
    }
    for (int64_t i = 0; i < m; i++) {
        const double g = layer_norm_weight(c, i) * (double)dy[i];
        const double z = ((double)x[i] - k->mean) * k->s;

        bound[i] = 1.1 * k->s *
                   (e_a / n + fabs(z) * e_b / n + z_error(k, x[i]) * fabs(b) / n +
                    (k->r / 2.0 + 9.0 * LKI_U) * (fabs(g) + fabs(a) / n + fabs(z * b) / n));
    }
}

/* Of m values about 0. */
static channel root_moments(const float *x, int64_t m, double epsilon)
{
    channel k = {.r = ((double)m + 8.0) * LKI_U};

    for (int64_t i = 0; i < m; i++) k.variance += (double)x[i] * (double)x[i] / (double)m;
    k.s = 1.0 / sqrt(k.variance + epsilon);
    return k;
}

static lks_status bounds_rows(lki_trial *c, bool backward, int64_t m, double epsilon,
                              lki_bounds *out)
{
    const int64_t rows = lki_trial_in_elements(c, 0) / m;
    const double t = (double)(rows + c->count + 4);

    for (int64_t r = 0; r < rows; r++) {
        const float *x = (const float *)c->in[0] + r * m, *dy = c->d_out + r * m;
        const channel k = is_rms(c) ? root_moments(x, m, epsilon)
                                    : bounds_moments(x, m, 1, epsilon);

        for (int64_t i = 0; i < m; i++) {
            const int64_t at = layer_norm_parameter(c, i);
            const double w = layer_norm_weight(c, i);
            const double b = c->param[1] != NULL ? (double)c->param[1][at] : 0.0;
            const double d = z_error(&k, x[i]), z = ((double)x[i] - k.mean) * k.s;

            out->out[r * m + i] = 1.1 * (fabs(w) * d + 3.0 * LKI_U * (fabs(w * z) + fabs(b)));
            if (!backward || c->param[0] == NULL) continue;
            out->d_param[0][at] += 1.1 * fabs((double)dy[i]) * (d + t * LKI_U * fabs(z));
            if (c->param[1] != NULL) out->d_param[1][at] += 1.1 * t * LKI_U * fabs((double)dy[i]);
        }
        if (backward) layer_norm_row(c, &k, m, r, out->d_in[0] + r * m);
    }
    return LKS_OK;
}

lks_status lki_bounds_layer_norm(lki_trial *c, bool backward, const lki_trial_result *ref,
                                 lki_bounds *out)
{
    (void)ref;
    const lks_layer_norm_opts *opts = lki_trial_first(c)->attr;
    const lks_shape *in = &lki_trial_first(c)->in[0]->shape;
    int64_t m = 1;
    for (int i = in->ndim - opts->dims; i < in->ndim; i++) m *= in->dim[i];
    return bounds_rows(c, backward, m, (double)opts->epsilon, out);
}

lks_status lki_bounds_rms_norm(lki_trial *c, bool backward, const lki_trial_result *ref,
                               lki_bounds *out)
{
    (void)ref;
    const lks_rms_norm_opts *opts = lki_trial_first(c)->attr;
    const lks_shape *in = &lki_trial_first(c)->in[0]->shape;
    return bounds_rows(c, backward, in->dim[in->ndim - 1], (double)opts->epsilon, out);
}
