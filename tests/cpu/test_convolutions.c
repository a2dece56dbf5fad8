/* Convolutions against their definition in bits: see products.h. */
#include "backend/cpu/cpu.h"
#include "cpu/conv_shapes.h"
#include "cpu/products.h"

#ifdef LKT_HAVE_CPU

/* A convolution and its operands. */
typedef struct conv_case {
    const lki_vector_conv *kernels;
    lki_conv_shape s, run; /* what is defined, and as the kernel has it */
    bool depthwise;        /* has blocks, however narrow */
    int64_t count, x_size, y_size;
    lkt_floats x, w, bias, d_y;
    uint8_t *bytes; /* what x is, in the place of it, by s.table; or NULL */
    void *packed, *space, *sums;
} conv_case;

/* Samples from number n on, as the kernel reads them. */
static const float *input_of(const conv_case *c, int64_t n)
{
    if (c->bytes == NULL) return c->x.at + n * c->x_size;
    return (const float *)(const void *)(c->bytes + n * c->x_size);
}

/* `leave_out`: as `conv` has it, which leaves out taps that never meet the image. */
static conv_case conv_make(const lki_vector_conv *kernels, lkt_random *random, lki_conv_shape s,
                           bool leave_out)
{
    conv_case c = {.kernels = kernels, .s = s, .count = lkt_random_from(random, 1, 4)};
    if (s.channels == 2) c.count = 330; /* of a pixel each, or few */
    if (s.in[0] > 0) c.count = 15;
    for (int i = 0; i < 2; i++) {
        const int64_t seen = s.dilation[i] * (s.kernel[i] - 1) + 1;
        if (s.in[i] == 0)
            c.s.in[i] = seen - 2 * s.padding[i] +
                        lkt_random_below(random, s.channels == 2          ? 2
                                                 : s.channels == 1        ? 40
                                                 : s.channels == s.groups ? 24
                                                                          : 9);
        if (c.s.in[i] < 1) c.s.in[i] = 1;
        c.s.out[i] = (c.s.in[i] + 2 * s.padding[i] - seen) / s.stride[i] + 1;
    }
    c.x_size = c.s.in[0] * c.s.in[1] * s.channels;
    c.y_size = c.s.out[0] * c.s.out[1] * s.filters;
    c.x = lkt_floats_make(random, c.count * c.x_size);
    c.d_y = lkt_floats_make(random, c.count * c.y_size);
    c.w = lkt_floats_make(random, s.filters * s.channels / s.groups * s.kernel[0] * s.kernel[1]);
    c.bias = lkt_floats_make(random, s.filters);
    c.run = c.s;
    if (leave_out) lki_conv_leave_out(&c.run);
    c.packed = lkt_scratch(c.kernels->packed_bytes(&c.run));
    c.space = lkt_scratch(c.kernels->workspace_bytes(&c.run, c.count));
    c.sums = lkt_scratch(c.kernels->sums_bytes(&c.run));
    const int parts = (int)lkt_random_from(random, 1, 3);
    for (int part = 0; part < parts; part++) c.kernels->pack(&c.run, c.w.at, c.packed, part, parts);
    return c;
}

static void conv_free(conv_case *c)
{
    lkt_floats_free(&c->x);
    lkt_floats_free(&c->d_y);
    lkt_floats_free(&c->w);
    lkt_floats_free(&c->bias);
    free(c->bytes);
    free(c->packed);
    free(c->space);
    free(c->sums);
}

/* An empty sum of an element, whose result has so many columns in a group. */
static sum conv_sum(const conv_case *c, int64_t columns)
{
    return c->depthwise ? (sum){0} : sum_of(columns / c->s.groups);
}

/* Channels of a block of the sum over a depth: the documented rule. */
static int64_t channel_block(const lki_conv_shape *s, int64_t depth, int64_t columns)
{
    if (columns / s->groups < 16) return depth;
    const int64_t taps = s->kernel[0] * s->kernel[1], most = 2560 / taps < 8 ? 8 : 2560 / taps;
    const int64_t blocks = (depth + most - 1) / most;
    return (depth + blocks - 1) / blocks;
}

/* The pixel of x under a tap; NULL in the border. */
static float *under(const conv_case *c, float *x, int64_t sample, const int64_t out[2],
                    const int64_t tap[2])
{
    int64_t at[2];
    for (int i = 0; i < 2; i++) {
        at[i] = out[i] * c->s.stride[i] + tap[i] * c->s.dilation[i] - c->s.padding[i];
        if (at[i] < 0 || at[i] >= c->s.in[i]) return NULL;
    }
    return x + sample * c->x_size + (at[0] * c->s.in[1] + at[1]) * c->s.channels;
}

static float weight_of(const conv_case *c, int64_t f, int64_t channel, const int64_t tap[2])
{
    const int64_t each = c->s.channels / c->s.groups;
    return c->w.at[((f * each + channel) * c->s.kernel[0] + tap[0]) * c->s.kernel[1] + tap[1]];
}

/* Channels [from, to) of the sum; numbers go over taps, channels. */
static void forward_sum(const conv_case *c, int64_t sample, const int64_t out[2], int64_t f,
                        int64_t from, int64_t to, sum *s)
{
    const int64_t group = f / (c->s.filters / c->s.groups) * (c->s.channels / c->s.groups);
    int64_t tap[2], number = 0;
    for (tap[0] = 0; tap[0] < c->s.kernel[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < c->s.kernel[1]; tap[1]++, number += to - from) {
            const float *x = under(c, c->x.at, sample, out, tap);
            for (int64_t i = from; x != NULL && i < to; i++)
                add_term(s, number + i - from, x[group + i], weight_of(c, f, i, tap));
        }
    end_group(s);
}

static void check_forward(const lki_vector *v, const conv_case *c, lkt_random *random)
{
    lkt_floats y = lkt_floats_make(random, c->count * c->y_size);
    const int64_t each = c->s.channels / c->s.groups, cut = lkt_random_below(random, c->count);
    const int64_t block = channel_block(&c->s, each, c->s.filters);
    const bool relu = lkt_random_bits(random) & 1;
    c->kernels->forward(&c->run, cut, input_of(c, 0), (lki_conv_weight){c->w.at, c->packed},
                        c->bias.at, relu, y.at, c->space);
    c->kernels->forward(&c->run, c->count - cut, input_of(c, cut),
                        (lki_conv_weight){c->w.at, c->packed}, c->bias.at, relu,
                        y.at + cut * c->y_size, c->space);
    for (int64_t i = 0; i < c->count * c->y_size; i++) {
        const int64_t pixel = i % c->y_size / c->s.filters, f = i % c->s.filters;
        const int64_t out[2] = {pixel / c->s.out[1], pixel % c->s.out[1]};
        sum s = conv_sum(c, c->s.filters);
        for (int64_t k = 0; k < each; k += block)
            forward_sum(c, i / c->y_size, out, f, k, k + block < each ? k + block : each, &s);
        float expected = (float)s.total + c->bias.at[f];
        if (relu && !(expected > 0)) expected = 0;
        lkt_same(v, "y", y.at + i, &expected, 1);
    }
    lkt_floats_free(&y);
}

/* The tap under which an output lies over a pixel of the input; false: there is none. */
static bool over(const conv_case *c, int axis, int64_t in, int64_t tap, int64_t *out)
{
    const int64_t at = in + c->s.padding[axis] - tap * c->s.dilation[axis];
    *out = at / c->s.stride[axis];
    return at >= 0 && at % c->s.stride[axis] == 0 && *out < c->s.out[axis];
}

/* Whether a tap ever lies over a pixel, were the output without end. */
static bool reaches(const conv_case *c, int axis, int64_t in, int64_t tap)
{
    return (in + c->s.padding[axis] - tap * c->s.dilation[axis]) % c->s.stride[axis] == 0;
}

/* An element of the data gradient; numbers go over the taps that have its rest modulo the stride,
 * descending, over filters, in blocks of filters. */
static float data_sum(const conv_case *c, int64_t n, const int64_t in[2], int64_t channel)
{
    const int64_t filters = c->s.filters / c->s.groups, channels = c->s.channels / c->s.groups;
    const int64_t block = channel_block(&c->s, filters, c->s.channels);
    const int64_t group = channel / channels * filters;
    sum s = conv_sum(c, c->s.channels);
    for (int64_t from = 0; from < filters; from += block) {
        const int64_t to = from + block < filters ? from + block : filters;
        int64_t tap[2], out[2], number = 0;
        for (tap[0] = c->s.kernel[0] - 1; tap[0] >= 0; tap[0]--)
            for (tap[1] = c->s.kernel[1] - 1; tap[1] >= 0; tap[1]--) {
                if (!reaches(c, 0, in[0], tap[0]) || !reaches(c, 1, in[1], tap[1])) continue;
                if (over(c, 0, in[0], tap[0], &out[0]) && over(c, 1, in[1], tap[1], &out[1]))
                    for (int64_t f = from; f < to; f++)
                        add_term(
                            &s, number + f - from,
                            c->d_y.at[n * c->y_size +
                                      (out[0] * c->s.out[1] + out[1]) * c->s.filters + group + f],
                            weight_of(c, group + f, channel % channels, tap));
                number += to - from;
            }
        end_group(&s);
    }
    return (float)s.total;
}

static void check_data(const lki_vector *v, const conv_case *c, bool add, lkt_random *random)
{
    lkt_floats d_x = lkt_floats_make(random, c->count * c->x_size);
    float *expected = lkt_scratch(sizeof(float) * (size_t)(c->count * c->x_size));
    for (int64_t i = 0; i < c->count * c->x_size; i++) {
        const int64_t pixel = i % c->x_size / c->s.channels;
        const int64_t in[2] = {pixel / c->s.in[1], pixel % c->s.in[1]};
        expected[i] = data_sum(c, i / c->x_size, in, i % c->s.channels) + (add ? d_x.at[i] : 0);
    }
    c->kernels->backward(&c->run, c->count, c->d_y.at, (lki_conv_weight){c->w.at, c->packed},
                         d_x.at, add, c->space);
    lkt_same(v, "d_x", d_x.at, expected, c->count * c->x_size);
    lkt_floats_free(&d_x);
    free(expected);
}

/* All samples, in pieces of `piece`. */
static void run_weight(const conv_case *c, int64_t piece, const float *y, float *d_w, float *d_b)
{
    for (int64_t n = 0, count; n < c->count; n += count) {
        count = c->count - n < piece ? c->count - n : piece;
        c->kernels->backward_weight(&c->run, count,
                                    &(lki_conv_gradient){.x = input_of(c, n),
                                                         .d_y = c->d_y.at + n * c->y_size,
                                                         .y = y != NULL ? y + n * c->y_size : NULL,
                                                         .sample = n,
                                                         .last = n + count == c->count,
                                                         .sums = c->sums,
                                                         .d_weight = d_w,
                                                         .d_bias = d_b,
                                                         .workspace = c->space});
    }
}

/* The gradient of a depthwise filter's weight, or bias (tap NULL): blocks of pixels, in these bands of rows. */
static float depthwise_sum(const conv_case *c, int64_t f, const int64_t *tap)
{
    const int64_t columns = c->s.out[1] < 16 ? c->s.out[1] : 16, rows = 64 / columns / 4 * 4;
    const int64_t across = (c->s.out[1] + columns - 1) / columns;
    const int64_t blocks = (c->s.out[0] + rows - 1) / rows * across;
    double total = 0;
    for (int64_t b = 0; b < c->count * blocks; b++) {
        const int64_t n = b / blocks, left = b % across * columns, top = b % blocks / across * rows;
        float block = 0;
        for (int64_t row = top, height; row < top + rows && row < c->s.out[0]; row += height) {
            const int64_t end = top + rows < c->s.out[0] ? top + rows : c->s.out[0];
            height = end - row >= 4 ? 4 : end - row >= 2 ? 2 : 1;
            for (int64_t i = 0; i < columns * height; i++) {
                const int64_t out[2] = {row + i % height, left + i / height};
                if (out[1] >= c->s.out[1]) break;
                const float *x = tap != NULL ? under(c, c->x.at, n, out, tap) : NULL;
                const float d =
                    c->d_y.at[n * c->y_size + (out[0] * c->s.out[1] + out[1]) * c->s.filters + f];
                if (tap == NULL || x != NULL) block = fmaf(tap != NULL ? x[f] : 1, d, block);
            }
        }
        total += (double)block;
    }
    return total_of(&(sum){.total = total});
}

/* Pixels are numbered through the samples; pieces change no bit. */
static void check_weight(const lki_vector *v, const conv_case *c, lkt_random *random)
{
    const int64_t each = c->s.channels / c->s.groups, area = c->s.kernel[0] * c->s.kernel[1];
    const int64_t pixels = c->s.out[0] * c->s.out[1];
    lkt_floats d_w = lkt_floats_make(random, c->w.count),
               d_b = lkt_floats_make(random, c->s.filters);
    lkt_floats y = lkt_floats_make(random, c->count * c->y_size);
    const bool relu = (lkt_random_bits(random) & 1) && !c->depthwise;
    run_weight(c, lkt_random_from(random, 1, c->count), relu ? y.at : NULL, d_w.at,
               c->s.bias ? d_b.at : NULL);
    for (int64_t i = 0; i < c->w.count + (c->s.bias ? c->s.filters : 0); i++) {
        const bool bias = i >= c->w.count;
        const int64_t f = bias ? i - c->w.count : i / (each * area), k = i / area % each;
        const int64_t group = f / (c->s.filters / c->s.groups) * each;
        const int64_t tap[2] = {i % area / c->s.kernel[1], i % area % c->s.kernel[1]};
        sum s = conv_sum(c, c->s.filters);
        for (int64_t p = 0; p < c->count * pixels && !c->depthwise; p++) {
            const int64_t out[2] = {p % pixels / c->s.out[1], p % pixels % c->s.out[1]};
            const float *x = bias ? NULL : under(c, c->x.at, p / pixels, out, tap);
            const int64_t at = p * c->s.filters + f;
            const float d = relu && !(y.at[at] > 0) ? 0 : c->d_y.at[at];
            if (bias)
                s.total += (double)d;
            else if (x != NULL)
                add_term(&s, p, x[group + k], d);
        }
        const float expected = c->depthwise ? depthwise_sum(c, f, bias ? NULL : tap) : total_of(&s);
        lkt_same(v, bias ? "d_bias" : "d_w", bias ? d_b.at + f : d_w.at + i, &expected, 1);
    }
    lkt_floats_free(&d_w);
    lkt_floats_free(&d_b);
    lkt_floats_free(&y);
}

static void convolutions(void **state)
{
    lkt_random random = lkt_random_make("convolutions", 82);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 2 * cases(); k++) {
        conv_case c = conv_make(v->conv, &random,
                                k < SHAPE_COUNT ? SHAPES[k] : random_conv(&random),
                                k < SHAPE_COUNT || k % 8 != 7);
        check_forward(v, &c, &random);
        check_data(v, &c, k % 2 != 0, &random);
        check_weight(v, &c, &random);
        conv_free(&c);
    }
}

static void depthwise(void **state)
{
    lkt_random random = lkt_random_make("depthwise", 90);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 4 * cases(); k++) {
        const lki_conv_shape shape = k < MANY_COUNT ? MANY_CHANNELS[k] : random_depthwise(&random);
        conv_case c = conv_make(v->depthwise, &random, shape, false);
        c.depthwise = true;
        check_forward(v, &c, &random);
        check_data(v, &c, k % 2 != 0, &random);
        check_weight(v, &c, &random);
        conv_free(&c);
    }
}

/* Gradients of weights that copy their input, 96 values of a pixel at a time, as pixels lie a multiple of 4,096 bytes apart: of
 * all pixels, and of some; and that read the output's gradient as it comes, whole panels of filters under few values of the
 * input. Strips of pixels end within a row of a later sample. */
static void operands(void **state)
{
    lkt_random random = lkt_random_make("operands", 1);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 2 * OPERAND_SHAPES; k++) {
        conv_case c = conv_make(v->conv, &random, OPERANDS[k / 2], false);
        c.s.bias = k % 2 != 0;
        check_weight(v, &c, &random);
        conv_free(&c);
    }
}

/* What workers that share a sample form together. */
static void check_parts(const lki_vector *v, const conv_case *c, lkt_random *random)
{
    lkt_floats whole = lkt_floats_make(random, c->count * c->y_size);
    lkt_floats parts = lkt_floats_make(random, c->count * c->y_size);
    const lki_conv_weight weight = {c->w.at, c->packed};
    lki_conv_shape s = c->run;
    c->kernels->forward(&s, c->count, c->x.at, weight, NULL, false, whole.at, c->space);
    for (s.parts = 3; s.part < s.parts; s.part++)
        c->kernels->forward(&s, c->count, c->x.at, weight, NULL, false, parts.at, c->space);
    lkt_same(v, "y in parts", parts.at, whole.at, whole.count);
    lkt_floats_free(&whole);
    lkt_floats_free(&parts);
}

static void lines(void **state)
{
    lkt_random random = lkt_random_make("lines", 7);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < LINE_SHAPES; k++) {
        conv_case c = conv_make(v->conv, &random, LINES[k], k % 2 != 0);
        check_forward(v, &c, &random);
        check_parts(v, &c, &random);
        check_data(v, &c, k % 2 != 0, &random);
        conv_free(&c);
    }
}

/* First layers: few channels, any number of filters, now and then a large kernel. */
static lki_conv_shape random_first(lkt_random *random)
{
    const bool large = lkt_random_below(random, 6) == 0;
    lki_conv_shape s = {.groups = 1, .bias = true};
    const int64_t most = lkt_random_below(random, 3) == 0 ? 15 : large ? 3 : 1;
    s.channels = lkt_random_from(random, 1, most);
    s.filters = lkt_random_from(random, 1, lkt_random_below(random, 3) == 0 ? 17 : 100);
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = large ? lkt_random_from(random, 5, 11) : lkt_random_from(random, 1, 4);
        s.stride[i] = lkt_random_below(random, 2) == 0 ? 1 : lkt_random_from(random, 1, 4);
        s.dilation[i] = lkt_random_below(random, 3) == 0 ? 2 : 1;
        s.padding[i] = lkt_random_below(random, 4);
    }
    return s;
}

/* x becomes bytes, and what a table makes of them. */
static void conv_of_bytes(conv_case *c, float (*table)[256], lkt_random *random)
{
    const int64_t size = c->count * c->x_size;
    c->bytes = malloc((size_t)size); /* no more: the sanitizer sees what is read behind it */
    assert_non_null(c->bytes);
    for (int i = 0; i < 15; i++)
        for (int b = 0; b < 256; b++)
            table[i][b] = (float)(lkt_random_below(random, 2001) - 1000) * 1e-3f;
    for (int64_t i = 0; i < size; i++) {
        c->bytes[i] = (uint8_t)lkt_random_below(random, 256);
        c->x.at[i] = table[i % c->s.channels][c->bytes[i]];
    }
    c->s.table = c->run.table = (const float(*)[256])table;
}

static void first_layers(void **state)
{
    static float table[15][256];
    lkt_random random = lkt_random_make("first layers", 83);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 3 * cases(); k++) {
        conv_case c = conv_make(v->first, &random, random_first(&random), false);
        if (lkt_random_bits(&random) & 1) conv_of_bytes(&c, table, &random);
        check_forward(v, &c, &random);
        check_weight(v, &c, &random);
        conv_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(first_layers), cmocka_unit_test(depthwise),
        cmocka_unit_test(operands),     cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
