/* max_pool, avg_pool and global_avg_pool. */
#include "backend/ref/kernels.h"

#include <string.h>

typedef struct pool {
    lki_plan base;
    lks_pool_opts opts;
    int64_t height, width, channels, columns;
} pool;

/* The pixels of one window that lie in the image, [y, y_end) x [x, x_end); never empty, because
 * padding is at most half the kernel. */
typedef struct window {
    int64_t y, y_end, x, x_end;
} window;

static lks_status ref_pool_plan(lki_plan *plan_, unsigned reads)
{
    pool *p = (pool *)plan_;
    const lki_node *node = plan_->cluster.node[0];

    p->opts = *(const lks_pool_opts *)node->attr;
    p->height = node->in[0]->shape.dim[0];
    p->width = node->in[0]->shape.dim[1];
    p->channels = node->in[0]->shape.dim[2];
    p->columns = node->out.shape.dim[1];
    return lki_ref_needs(plan_, reads, (size_t)lki_ref_in(plan_) * sizeof(double));
}

static window window_at(const pool *p, int64_t oy, int64_t ox)
{
    window w = {.y = oy * p->opts.stride[0] - p->opts.padding[0],
                .x = ox * p->opts.stride[1] - p->opts.padding[1]};

    w.y_end = w.y + p->opts.kernel[0];
    w.x_end = w.x + p->opts.kernel[1];
    if (w.y < 0) w.y = 0;
    if (w.x < 0) w.x = 0;
    if (w.y_end > p->height) w.y_end = p->height;
    if (w.x_end > p->width) w.x_end = p->width;
    return w;
}

/* What an average divides by. */
static double divisor(const pool *p, window w)
{
    return (double)(p->opts.exclude_padding ? (w.y_end - w.y) * (w.x_end - w.x)
                                            : p->opts.kernel[0] * p->opts.kernel[1]);
}

/* The element of the sample that wins channel c of the window: the first of the largest. A NaN
 * wins only where it comes first. */
static int64_t ref_pool_largest(const pool *p, const float *in, window w, int64_t c)
{
    int64_t best = (w.y * p->width + w.x) * p->channels + c;

    for (int64_t y = w.y; y < w.y_end; y++) {
        for (int64_t x = w.x; x < w.x_end; x++) {
            const int64_t i = (y * p->width + x) * p->channels + c;

            if (in[i] > in[best]) best = i;
        }
    }
    return best;
}

static lks_status max_plan(lki_plan *plan_)
{
    return ref_pool_plan(plan_, LKI_READS_IN);
}

static lks_status ref_max_forward(const lki_plan *plan_, const lki_args *args)
{
    const pool *p = (const pool *)plan_;
    const int64_t elements = lki_ref_in(plan_), outputs = lki_ref_out(plan_);
    float *out = args->out;

    for (int64_t i = 0; i < args->count * outputs; i++) {
        const float *in = (const float *)args->in[0] + i / outputs * elements;
        const int64_t at = i % outputs / p->channels;

        out[i] = in[ref_pool_largest(p, in, window_at(p, at / p->columns, at % p->columns),
                                     i % p->channels)];
    }
    return LKS_OK;
}

static lks_status ref_max_backward(const lki_plan *plan_, const lki_args *args)
{
    const pool *p = (const pool *)plan_;
    const int64_t elements = lki_ref_in(plan_), outputs = lki_ref_out(plan_);
    double *d_in = args->workspace;

    if (args->d_in[0] == NULL) return LKS_OK;
    for (int64_t n = 0; n < args->count; n++) {
        const float *in = (const float *)args->in[0] + n * elements;

        memset(d_in, 0, (size_t)elements * sizeof *d_in);
        for (int64_t i = 0; i < outputs; i++) {
            const int64_t at = i / p->channels;
            const window w = window_at(p, at / p->columns, at % p->columns);

            d_in[ref_pool_largest(p, in, w, i % p->channels)] += (double)
                                                                     args->d_out[n * outputs + i];
        }
        lki_ref_put_all(args->d_in[0] + n * elements, args->add_in & 1u, d_in, elements);
    }
    return LKS_OK;
}

static lks_status avg_plan(lki_plan *plan_)
{
    return ref_pool_plan(plan_, 0);
}

static lks_status avg_forward(const lki_plan *plan_, const lki_args *args)
{
    const pool *p = (const pool *)plan_;
    const int64_t elements = lki_ref_in(plan_), outputs = lki_ref_out(plan_);
    float *out = args->out;

    for (int64_t i = 0; i < args->count * outputs; i++) {
        const float *in = (const float *)args->in[0] + i / outputs * elements;
        const int64_t at = i % outputs / p->channels;
        const window w = window_at(p, at / p->columns, at % p->columns);
        double sum = 0.0;

        for (int64_t y = w.y; y < w.y_end; y++) {
            for (int64_t x = w.x; x < w.x_end; x++)
                sum += (double)in[(y * p->width + x) * p->channels + i % p->channels];
        }
        out[i] = lki_round(sum / divisor(p, w));
    }
    return LKS_OK;
}

static lks_status avg_backward(const lki_plan *plan_, const lki_args *args)
{
    const pool *p = (const pool *)plan_;
    const int64_t elements = lki_ref_in(plan_), outputs = lki_ref_out(plan_);
    double *d_in = args->workspace;

    if (args->d_in[0] == NULL) return LKS_OK;
    for (int64_t n = 0; n < args->count; n++) {
        memset(d_in, 0, (size_t)elements * sizeof *d_in);
        for (int64_t i = 0; i < outputs; i++) {
            const int64_t at = i / p->channels;
            const window w = window_at(p, at / p->columns, at % p->columns);
            const double g = (double)args->d_out[n * outputs + i] / divisor(p, w);

            for (int64_t y = w.y; y < w.y_end; y++) {
                for (int64_t x = w.x; x < w.x_end; x++)
                    d_in[(y * p->width + x) * p->channels + i % p->channels] += g;
            }
        }
        lki_ref_put_all(args->d_in[0] + n * elements, args->add_in & 1u, d_in, elements);
    }
    return LKS_OK;
}

static lks_status global_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, 0, 0);
}

static lks_status global_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t channels = lki_ref_out(plan_), pixels = lki_ref_in(plan_) / channels;
    const float *in = args->in[0];
    float *out = args->out;

    for (int64_t i = 0; i < args->count * channels; i++) {
        const int64_t n = i / channels, c = i % channels;
        double sum = 0.0;

        for (int64_t at = 0; at < pixels; at++) sum += (double)in[(n * pixels + at) * channels + c];
        out[i] = lki_round(sum / (double)pixels);
    }
    return LKS_OK;
}

static lks_status global_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t channels = lki_ref_out(plan_), elements = lki_ref_in(plan_);
    const double pixels = (double)(elements / channels);

    for (int64_t i = 0; args->d_in[0] != NULL && i < args->count * elements; i++)
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u,
                    (double)args->d_out[i / elements * channels + i % channels] / pixels);
    return LKS_OK;
}

const lki_kernel lki_ref_max_pool = {
    .plan_bytes = sizeof(pool),
    .span = LKI_SPAN_SLICE,
    .plan = max_plan,
    .forward = ref_max_forward,
    .backward = ref_max_backward,
};

const lki_kernel lki_ref_avg_pool = {
    .plan_bytes = sizeof(pool),
    .span = LKI_SPAN_SLICE,
    .plan = avg_plan,
    .forward = avg_forward,
    .backward = avg_backward,
};

const lki_kernel lki_ref_global_avg_pool = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = global_plan,
    .forward = global_forward,
    .backward = global_backward,
};
