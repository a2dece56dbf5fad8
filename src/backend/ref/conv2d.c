/*
 * conv2d, in NHWC.
 *
 * A gradient of a parameter is one sum in double over the pixels of all samples of the replica, in
 * ascending order; it waits between pieces, and is rounded and stored behind the last.
 *
 * prepare writes the weights twice, each with its inner loop innermost ("tap" is ky*width + kx):
 *
 *     [group][tap][channel of the group][filter of the group]     forward
 *     [filter][tap][channel of the group]                         backward
 */
#include "backend/ref/kernels.h"

#include <string.h>

#include "numeric/bf16.h"
#include "numeric/tree.h"

typedef struct conv2d {
    lki_plan base;
    bool bf16; /* factors are rounded to bfloat16 */
    lks_conv2d_opts opts;
    int64_t height, width, channels; /* of the input */
    int64_t rows, columns, filters;  /* of the output */
    int64_t group_channels, group_filters;
    int64_t taps, weights;
} conv2d;

/* Sums of backward: of the replica, and of one sample. */
typedef struct scratch {
    double *d_weight; /* [filter][tap][channel of the group] */
    double *d_bias;   /* [filter] */
    double *d_in;     /* [row][column][channel] */
} scratch;

static lks_status ref_conv2d_plan(lki_plan *plan_)
{
    conv2d *p = (conv2d *)plan_;
    const lki_node *node = plan_->cluster.node[0];

    p->opts = *(const lks_conv2d_opts *)node->attr;
    p->height = node->in[0]->shape.dim[0];
    p->width = node->in[0]->shape.dim[1];
    p->channels = node->in[0]->shape.dim[2];
    p->rows = node->out.shape.dim[0];
    p->columns = node->out.shape.dim[1];
    p->filters = node->out.shape.dim[2];
    p->group_channels = p->channels / p->opts.groups;
    p->group_filters = p->filters / p->opts.groups;
    p->taps = p->opts.kernel[0] * p->opts.kernel[1];
    p->weights = p->filters * p->taps * p->group_channels;
    p->bf16 = plan_->switches.bf16 && p->opts.groups == 1;
    /* A pixel's filters, or a sample's gradient. */
    const int64_t scratch_size = p->filters > lki_ref_in(plan_) ? p->filters : lki_ref_in(plan_);
    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, (size_t)scratch_size * sizeof(double)));
    plan_->needs.sums_bytes = (size_t)(p->weights + p->filters) * sizeof(double);
    plan_->needs.packed_bytes = 2 * (size_t)p->weights * sizeof(float);
    plan_->needs.packs = 1;
    return LKS_OK;
}

static float factor(const conv2d *p, float x)
{
    return p->bf16 ? lki_bf16_round(x) : x;
}

/* weight: [filter][channel of the group][tap] */
static void ref_conv2d_pack(const lki_plan *plan_, int slot, const float *weight, void *packed,
                            int64_t first, int64_t count)
{
    const conv2d *p = (const conv2d *)plan_;
    float *forward = packed, *backward = forward + p->weights;

    (void)slot;
    for (int64_t f = first; f < first + count; f++) {
        const int64_t group = f / p->group_filters;

        for (int64_t c = 0; c < p->group_channels; c++) {
            for (int64_t tap = 0; tap < p->taps; tap++) {
                const float w = factor(p, weight[(f * p->group_channels + c) * p->taps + tap]);

                forward[((group * p->taps + tap) * p->group_channels + c) * p->group_filters +
                        f % p->group_filters] = w;
                backward[(f * p->taps + tap) * p->group_channels + c] = w;
            }
        }
    }
}

/* The input pixel under `tap` of the window at output row oy, column ox; -1 in the padding. */
static int64_t pixel(const conv2d *p, int64_t oy, int64_t ox, int64_t tap)
{
    const int64_t ky = tap / p->opts.kernel[1], kx = tap % p->opts.kernel[1];
    const int64_t y = oy * p->opts.stride[0] + ky * p->opts.dilation[0] - p->opts.padding[0];
    const int64_t x = ox * p->opts.stride[1] + kx * p->opts.dilation[1] - p->opts.padding[1];

    return y < 0 || y >= p->height || x < 0 || x >= p->width ? -1 : y * p->width + x;
}

/* sums[filter] of one output pixel. */
static void forward_pixel(const conv2d *p, const float *in, const float *packed, int64_t oy,
                          int64_t ox, double *sums)
{
    for (int64_t tap = 0; tap < p->taps; tap++) {
        const int64_t at = pixel(p, oy, ox, tap);

        if (at < 0) continue;
        for (int64_t c = 0; c < p->channels; c++) {
            const int64_t group = c / p->group_channels, inside = c % p->group_channels;
            const double x = factor(p, in[at * p->channels + c]);
            const float *w = packed + ((group * p->taps + tap) * p->group_channels + inside) *
                                          p->group_filters;
            double *sum = sums + group * p->group_filters;

            if (x == 0.0) continue;
            for (int64_t f = 0; f < p->group_filters; f++) sum[f] += x * (double)w[f];
        }
    }
}

static lks_status ref_conv2d_forward(const lki_plan *plan_, const lki_args *args)
{
    const conv2d *p = (const conv2d *)plan_;
    const float *bias = args->param[1];
    const int64_t pixels = p->rows * p->columns, elements = lki_ref_in(plan_);
    double *sums = args->workspace;

    for (int64_t n = 0; n < args->count; n++) {
        const float *in = (const float *)args->in[0] + n * elements;

        for (int64_t at = 0; at < pixels; at++) {
            float *out = (float *)args->out + (n * pixels + at) * p->filters;

            for (int64_t f = 0; f < p->filters; f++) sums[f] = bias != NULL ? (double)bias[f] : 0.0;
            forward_pixel(p, in, args->packed, at / p->columns, at % p->columns, sums);
            for (int64_t f = 0; f < p->filters; f++) out[f] = lki_round(sums[f]);
        }
    }
    return LKS_OK;
}

/* Adds what one output pixel and filter with gradient g gives. */
static void backward_pixel(const conv2d *p, const float *in, const float *packed, int64_t at,
                           int64_t f, float d_out, const scratch *s)
{
    const double g = factor(p, d_out);
    const int64_t first = f / p->group_filters * p->group_channels; /* channel of the group */
    const bool want = p->base.d_in_wanted[0];

    s->d_bias[f] += (double)d_out;
    for (int64_t tap = 0; tap < p->taps; tap++) {
        const int64_t from = pixel(p, at / p->columns, at % p->columns, tap);
        const int64_t row = (f * p->taps + tap) * p->group_channels;

        if (from < 0) continue;
        const float *x = in + from * p->channels + first, *w = packed + row;
        double *dx = s->d_in + from * p->channels + first, *dw = s->d_weight + row;
        for (int64_t c = 0; c < p->group_channels && !p->bf16; c++) dw[c] += g * (double)x[c];
        for (int64_t c = 0; c < p->group_channels && p->bf16; c++)
            dw[c] += g * (double)lki_bf16_round(x[c]);
        for (int64_t c = 0; want && c < p->group_channels; c++) dx[c] += g * (double)w[c];
    }
}

static void put_parameters(const conv2d *p, const scratch *s, float *d_weight, float *d_bias)
{
    for (int64_t f = 0; f < p->filters; f++) {
        for (int64_t c = 0; c < p->group_channels; c++) {
            for (int64_t tap = 0; tap < p->taps; tap++)
                d_weight[(f * p->group_channels + c) * p->taps + tap] = lki_round(
                    s->d_weight[(f * p->taps + tap) * p->group_channels + c]);
        }
        if (d_bias != NULL) d_bias[f] = lki_round(s->d_bias[f]);
    }
}

static lks_status ref_conv2d_backward(const lki_plan *plan_, const lki_args *args)
{
    const conv2d *p = (const conv2d *)plan_;
    const float *packed = (const float *)args->packed + p->weights;
    const int64_t elements = lki_ref_in(plan_), outputs = lki_ref_out(plan_);
    scratch s = {.d_weight = args->sums, .d_in = args->workspace};

    s.d_bias = s.d_weight + p->weights;
    if (args->sample == 0) memset(args->sums, 0, plan_->needs.sums_bytes);
    for (int64_t n = 0; n < args->count; n++) {
        const float *in = (const float *)args->in[0] + n * elements;
        const float *d_out = args->d_out + n * outputs;

        memset(s.d_in, 0, (size_t)elements * sizeof *s.d_in);
        for (int64_t i = 0; i < outputs; i++) {
            if (d_out[i] != 0.0f)
                backward_pixel(p, in, packed, i / p->filters, i % p->filters, d_out[i], &s);
        }
        if (args->d_in[0] != NULL)
            lki_ref_put_all(args->d_in[0] + n * elements, args->add_in & 1u, s.d_in, elements);
    }
    if (args->last && args->d_param[0] != NULL)
        put_parameters(p, &s, args->d_param[0], args->d_param[1]);
    return LKS_OK;
}

const lki_kernel lki_ref_conv2d = {
    .plan_bytes = sizeof(conv2d),
    .span = LKI_SPAN_SLICE,
    .plan = ref_conv2d_plan,
    .pack = ref_conv2d_pack,
    .forward = ref_conv2d_forward,
    .backward = ref_conv2d_backward,
};
