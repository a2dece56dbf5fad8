/* Means of windows and their gradient against scalar loops, to the bit: windows that overlap, of few pixels and of
 * many, over the border, and of the whole image. */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

typedef struct taps { /* of a window that lie in the image */
    int64_t y0, y1, x0, x1;
} taps;

static taps taps_of(const lki_pool_shape *s, int64_t oy, int64_t ox)
{
    const int64_t y = oy * s->stride[0] - s->padding[0], x = ox * s->stride[1] - s->padding[1];
    const int64_t y1 = y + s->kernel[0], x1 = x + s->kernel[1];
    return (taps){.y0 = y < 0 ? 0 : y,
                  .y1 = y1 > s->in_rows ? s->in_rows : y1,
                  .x0 = x < 0 ? 0 : x,
                  .x1 = x1 > s->in_columns ? s->in_columns : x1};
}

static int64_t area_of(const lki_pool_shape *s, const taps *w)
{
    return s->exclude_padding ? (w->y1 - w->y0) * (w->x1 - w->x0) : s->kernel[0] * s->kernel[1];
}

static bool overlapping(const lki_pool_shape *s)
{
    return s->stride[0] < s->kernel[0] || s->stride[1] < s->kernel[1];
}

static void definition(const lki_pool_shape *s, const float *in, const float *d_out, float *out,
                       float *d_in, bool add)
{
    const int64_t channels = s->channels;
    for (int64_t i = 0; !add && i < s->in_rows * s->in_columns * channels; i++) d_in[i] = 0;
    for (int64_t o = 0; o < s->out_rows * s->out_columns * channels; o++) {
        const int64_t c = o % channels, at = o / channels;
        const taps w = taps_of(s, at / s->out_columns, at % s->out_columns);
        const double part = 1 / (double)area_of(s, &w);
        const float each = d_out[o] / (float)area_of(s, &w);
        double sum = 0;
        for (int64_t y = w.y0; y < w.y1; y++)
            for (int64_t x = w.x0; x < w.x1; x++) {
                const int64_t i = (y * s->in_columns + x) * channels + c;
                sum += (double)in[i];
                d_in[i] = lki_flush(add || overlapping(s) ? d_in[i] + each : each);
            }
        out[o] = lki_flush((float)(sum * part));
    }
}

static void check_means(const lki_vector *v, const lki_pool_shape *s, bool add, lkt_random *random)
{
    const int64_t ins = s->in_rows * s->in_columns * s->channels;
    const int64_t outs = s->out_rows * s->out_columns * s->channels;
    lkt_floats in = lkt_floats_make(random, ins), d_in = lkt_floats_make(random, ins);
    lkt_floats out = lkt_floats_make(random, outs), d_out = lkt_floats_make(random, outs);
    float *expected = lkt_scratch(sizeof(float) * (size_t)outs);
    float *gradient = lkt_scratch(sizeof(float) * (size_t)ins);
    d_out.at[outs - 1] = 0x1.8p-63f;
    memcpy(gradient, d_in.at, sizeof(float) * (size_t)ins);
    definition(s, in.at, d_out.at, expected, gradient, add);
    v->pool->mean_forward(s, in.at, out.at);
    lkt_same(v, "mean", out.at, expected, outs);
    v->pool->mean_backward(s, d_out.at, d_in.at, add);
    lkt_same(v, "gradient of a mean", d_in.at, gradient, ins);
    lkt_floats *all[] = {&in, &d_in, &out, &d_out};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
    free(expected);
    free(gradient);
}

/* `global`: one window, of all of the image. */
static lki_pool_shape pool_make(lkt_random *random, bool global)
{
    lki_pool_shape s = {.channels = lkt_random_from(random, 1, global ? 70 : 40),
                        .exclude_padding = lkt_random_bits(random) & 1};
    int64_t *in[2] = {&s.in_rows, &s.in_columns}, *out[2] = {&s.out_rows, &s.out_columns};
    const bool beside = global ||
                        (lkt_random_bits(random) & 1); /* as windows of most networks lie */
    if (lkt_random_below(random, 8) == 0) s.channels += 1000;
    for (int i = 0; i < 2; i++) {
        *in[i] = lkt_random_from(random, 1, s.channels > 1000 ? 8 : 14);
        s.kernel[i] = global ? *in[i] : lkt_random_from(random, 1, *in[i]);
        s.stride[i] = beside ? s.kernel[i] : lkt_random_from(random, 1, 5);
        s.padding[i] = global ? 0 : lkt_random_below(random, s.kernel[i] / 2 + 1);
        *out[i] = (*in[i] + 2 * s.padding[i] - s.kernel[i]) / s.stride[i] + 1;
    }
    return s;
}

static void means(void **state)
{
    lkt_random random = lkt_random_make("means", 140);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 300; k++) {
        const lki_pool_shape s = pool_make(&random, k % 3 == 0);
        check_means(v, &s, k % 2, &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(means)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
