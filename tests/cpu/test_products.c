/*
 * Dense layers and convolutions against their definition in bits: scalar loops that take terms in
 * the written order into one accumulator from +0. So an element's bits depend neither on tiles,
 * tails and blocks nor on how samples, rows and replicas are cut.
 */
#include "base/tree.h"
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

enum { CASES = 25 };

/* A dense layer and its operands. */
typedef struct dense_case {
    lki_dense_shape shape;
    int64_t rows;
    lkt_floats x, w, bias, d_y;
    void *packed;
} dense_case;

static dense_case dense_make(const lki_vector *v, lkt_random *random, int64_t rows)
{
    dense_case c = {.rows = rows};
    c.shape.inputs = lkt_random_from(random, 1, lkt_random_below(random, 4) == 0 ? 700 : 90);
    c.shape.units = lkt_random_from(random, 1, lkt_random_below(random, 4) == 0 ? 300 : 50);
    c.shape.bias = true;
    c.x = lkt_floats_make(random, rows * c.shape.inputs);
    c.w = lkt_floats_make(random, c.shape.units * c.shape.inputs);
    c.bias = lkt_floats_make(random, c.shape.units);
    c.d_y = lkt_floats_make(random, rows * c.shape.units);
    c.packed = lkt_scratch(v->dense->packed_bytes(&c.shape));
    const int parts = (int)lkt_random_from(random, 1, 4);
    for (int part = parts - 1; part >= 0; part--)
        v->dense->pack(&c.shape, c.w.at, c.packed, part, parts);
    return c;
}

static void dense_free(dense_case *c)
{
    lkt_floats_free(&c->x);
    lkt_floats_free(&c->w);
    lkt_floats_free(&c->bias);
    lkt_floats_free(&c->d_y);
    free(c->packed);
}

static void dense_passes(void **state)
{
    lkt_random random = lkt_random_make("dense_passes", 80);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < CASES; k++) {
        dense_case c = dense_make(v, &random, lkt_random_from(&random, 1, 40));
        const int64_t in = c.shape.inputs, units = c.shape.units, rows = c.rows;
        const int64_t cut = lkt_random_below(&random, rows);
        lkt_floats y = lkt_floats_make(&random, rows * units);
        lkt_floats d_x = lkt_floats_make(&random, rows * in);
        float *expected = lkt_scratch(sizeof(float) * (size_t)(rows * (in + units)));
        for (int64_t i = 0; i < rows * units; i++) {
            const float *x = c.x.at + i / units * in, *w = c.w.at + i % units * in;
            float sum = 0;
            for (int64_t j = 0; j < in; j++) sum = fmaf(x[j], w[j], sum);
            expected[i] = sum + c.bias.at[i % units];
        }
        v->dense->forward(&c.shape, cut, c.x.at, c.packed, c.bias.at, y.at);
        v->dense->forward(&c.shape, rows - cut, c.x.at + cut * in, c.packed, c.bias.at,
                          y.at + cut * units);
        lkt_same(v, "y", y.at, expected, rows * units);
        for (int64_t i = 0; i < rows * in; i++) {
            float sum = k % 2 == 0 ? 0 : d_x.at[i]; /* adding goes on from what is there */
            for (int64_t u = 0; u < units; u++)
                sum = fmaf(c.d_y.at[i / in * units + u], c.w.at[u * in + i % in], sum);
            expected[i] = sum;
        }
        v->dense->backward(&c.shape, cut, c.d_y.at, c.packed, d_x.at, k % 2 != 0);
        v->dense->backward(&c.shape, rows - cut, c.d_y.at + cut * units, c.packed,
                           d_x.at + cut * in, k % 2 != 0);
        lkt_same(v, "d_x", d_x.at, expected, rows * in);
        lkt_floats_free(&y);
        lkt_floats_free(&d_x);
        free(expected);
        dense_free(&c);
    }
}

/* Element (u, j) of the sums over replicas [lo, hi); j == inputs: of the bias. */
static bool tree_element(const lki_vector *v, const dense_case *c, const int64_t *start, int64_t lo,
                         int64_t hi, int64_t u, int64_t j, float *out)
{
    if (hi - lo == 1) {
        *out = 0;
        for (int64_t s = start[lo]; s < start[hi]; s++) {
            const float x = j == c->shape.inputs ? 1 : c->x.at[s * c->shape.inputs + j];
            *out = fmaf(c->d_y.at[s * c->shape.units + u], x, *out);
        }
        return start[hi] > start[lo];
    }
    const int64_t middle = lki_tree_split(lo, hi);
    float right;
    const bool a = tree_element(v, c, start, lo, middle, u, j, out);
    const bool b = tree_element(v, c, start, middle, hi, u, j, &right);
    if (a && b)
        *out += right;
    else if (b)
        *out = right;
    return a || b;
}

static void gather(void *user, int param, int64_t first, int64_t count, const float *sums)
{
    float *const *to = user;
    memcpy(to[param] + first, sums, sizeof(float) * (size_t)count);
}

/* Samples of each replica, some absent, sometimes more than are copied at a time. */
static int64_t shares(lkt_random *random, int replicas, int64_t *start)
{
    const int64_t most = lkt_random_below(random, 3) == 0 ? 150 : 9;
    start[0] = 0;
    for (int r = 0; r < replicas; r++)
        start[r + 1] = start[r] +
                       (lkt_random_below(random, 3) == 0 ? 0 : lkt_random_below(random, most));
    return start[replicas];
}

static void rows_are_the_tree_of_replicas(void **state)
{
    lkt_random random = lkt_random_make("rows_are_the_tree_of_replicas", 81);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < CASES; k++) {
        int64_t start[14];
        const int replicas = (int)lkt_random_from(&random, 1, 13);
        const int64_t samples = shares(&random, replicas, start);
        dense_case c = dense_make(v, &random, samples);
        const int64_t in = c.shape.inputs, units = c.shape.units;
        lkt_floats d_w = lkt_floats_make(&random, units * in);
        lkt_floats d_b = lkt_floats_make(&random, units);
        void *space = lkt_scratch(v->dense->rows_bytes());
        const int64_t cut = lkt_random_below(&random, units);
        lki_rows rows = {.in = c.x.at,
                         .d_out = c.d_y.at,
                         .start = start,
                         .replicas = replicas,
                         .row_count = cut,
                         .workspace = space,
                         .sum = gather,
                         .user = (float *[]){d_w.at, d_b.at}};
        v->dense->rows(&c.shape, &rows, NULL);
        rows.row_first = cut;
        rows.row_count = units - cut;
        v->dense->rows(&c.shape, &rows, NULL);
        for (int64_t i = 0; i < units * (in + 1); i++) {
            const int64_t u = i / (in + 1), j = i % (in + 1);
            float expected;
            tree_element(v, &c, start, 0, replicas, u, j, &expected);
            lkt_same(v, j == in ? "d_bias" : "d_w", j == in ? d_b.at + u : d_w.at + u * in + j,
                     &expected, 1);
        }
        free(space);
        lkt_floats_free(&d_w);
        lkt_floats_free(&d_b);
        dense_free(&c);
    }
}

/* A convolution and its operands. */
typedef struct conv_case {
    lki_conv_shape s;
    int64_t count, x_size, y_size;
    lkt_floats x, w, bias, d_y;
    void *packed, *space;
} conv_case;

static conv_case conv_make(const lki_vector *v, lkt_random *random, lki_conv_shape s)
{
    conv_case c = {.s = s, .count = lkt_random_from(random, 1, 4)};
    for (int i = 0; i < 2; i++) {
        const int64_t seen = s.dilation[i] * (s.kernel[i] - 1) + 1;
        c.s.in[i] = seen - 2 * s.padding[i] + lkt_random_below(random, 9);
        if (c.s.in[i] < 1) c.s.in[i] = 1;
        c.s.out[i] = (c.s.in[i] + 2 * s.padding[i] - seen) / s.stride[i] + 1;
    }
    c.x_size = c.s.in[0] * c.s.in[1] * s.channels;
    c.y_size = c.s.out[0] * c.s.out[1] * s.filters;
    c.x = lkt_floats_make(random, c.count * c.x_size);
    c.d_y = lkt_floats_make(random, c.count * c.y_size);
    c.w = lkt_floats_make(random, s.filters * s.channels / s.groups * s.kernel[0] * s.kernel[1]);
    c.bias = lkt_floats_make(random, s.filters);
    c.packed = lkt_scratch(v->conv->packed_bytes(&c.s));
    c.space = lkt_scratch(v->conv->workspace_bytes(&c.s, c.count));
    const int parts = (int)lkt_random_from(random, 1, 3);
    for (int part = 0; part < parts; part++) v->conv->pack(&c.s, c.w.at, c.packed, part, parts);
    return c;
}

static lki_conv_shape random_conv(lkt_random *random)
{
    lki_conv_shape s = {.groups = lkt_random_below(random, 4) == 0 ? 2 : 1, .bias = true};
    s.channels = s.groups * lkt_random_from(random, 1, 20);
    s.filters = s.groups * lkt_random_from(random, 1, 40);
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = lkt_random_from(random, 1, 4);
        s.stride[i] = lkt_random_below(random, 2) == 0 ? 1 : lkt_random_from(random, 1, 4);
        s.dilation[i] = lkt_random_below(random, 2) == 0 ? 1 : lkt_random_from(random, 1, 3);
        s.padding[i] = lkt_random_below(random, 3);
    }
    return s;
}

static void conv_free(conv_case *c)
{
    lkt_floats_free(&c->x);
    lkt_floats_free(&c->d_y);
    lkt_floats_free(&c->w);
    lkt_floats_free(&c->bias);
    free(c->packed);
    free(c->space);
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

/* Channels [from, to) of the sum; the order is blocks of channels, taps, channels. */
static float forward_sum(const conv_case *c, int64_t sample, const int64_t out[2], int64_t f,
                         int64_t from, int64_t to, float sum)
{
    const int64_t group = f / (c->s.filters / c->s.groups) * (c->s.channels / c->s.groups);
    int64_t tap[2];
    for (tap[0] = 0; tap[0] < c->s.kernel[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < c->s.kernel[1]; tap[1]++) {
            const float *x = under(c, c->x.at, sample, out, tap);
            for (int64_t i = from; x != NULL && i < to; i++)
                sum = fmaf(x[group + i], weight_of(c, f, i, tap), sum);
        }
    return sum;
}

static void check_forward(const lki_vector *v, const conv_case *c, int64_t block,
                          lkt_random *random)
{
    lkt_floats y = lkt_floats_make(random, c->count * c->y_size);
    const int64_t each = c->s.channels / c->s.groups, cut = lkt_random_below(random, c->count);
    const bool relu = lkt_random_bits(random) & 1;
    v->conv->forward(&c->s, cut, c->x.at, c->packed, c->bias.at, relu, y.at, c->space);
    v->conv->forward(&c->s, c->count - cut, c->x.at + cut * c->x_size, c->packed, c->bias.at, relu,
                     y.at + cut * c->y_size, c->space);
    for (int64_t i = 0; i < c->count * c->y_size; i++) {
        const int64_t pixel = i % c->y_size / c->s.filters, f = i % c->s.filters;
        const int64_t out[2] = {pixel / c->s.out[1], pixel % c->s.out[1]};
        float sum = 0;
        for (int64_t k = 0; k < each; k += block)
            sum = forward_sum(c, i / c->y_size, out, f, k, k + block < each ? k + block : each,
                              sum);
        sum += c->bias.at[f];
        if (relu && !(sum > 0)) sum = 0;
        lkt_same(v, "y", y.at + i, &sum, 1);
    }
    lkt_floats_free(&y);
}

/* Every term of the data gradient, added where it belongs: taps descend, filters ascend. */
static void check_data(const lki_vector *v, const conv_case *c, bool add, lkt_random *random)
{
    lkt_floats d_x = lkt_floats_make(random, c->count * c->x_size);
    float *expected = lkt_scratch(sizeof(float) * (size_t)(c->count * c->x_size));
    const int64_t filters = c->s.filters / c->s.groups, channels = c->s.channels / c->s.groups;
    for (int64_t i = 0; i < c->count * c->x_size; i++) expected[i] = add ? d_x.at[i] : 0;
    int64_t tap[2], out[2];
    for (int64_t n = 0; n < c->count; n++)
        for (tap[0] = c->s.kernel[0] - 1; tap[0] >= 0; tap[0]--)
            for (tap[1] = c->s.kernel[1] - 1; tap[1] >= 0; tap[1]--)
                for (out[0] = 0; out[0] < c->s.out[0]; out[0]++)
                    for (out[1] = 0; out[1] < c->s.out[1]; out[1]++) {
                        float *to = under(c, expected, n, out, tap);
                        const float *d = c->d_y.at + n * c->y_size +
                                         (out[0] * c->s.out[1] + out[1]) * c->s.filters;
                        for (int64_t f = 0; to != NULL && f < c->s.filters; f++)
                            for (int64_t k = 0; k < channels; k++) {
                                float *e = to + f / filters * channels + k;
                                *e = fmaf(d[f], weight_of(c, f, k, tap), *e);
                            }
                    }
    v->conv->backward(&c->s, c->count, c->d_y.at, c->packed, d_x.at, add, c->space);
    lkt_same(v, "d_x", d_x.at, expected, c->count * c->x_size);
    lkt_floats_free(&d_x);
    free(expected);
}

/* Samples and pixels ascend; a cut between samples changes no bit. */
static void check_weight(const lki_vector *v, const conv_case *c, lkt_random *random)
{
    const int64_t each = c->s.channels / c->s.groups, area = c->s.kernel[0] * c->s.kernel[1];
    lkt_floats d_w = lkt_floats_make(random, c->w.count),
               d_b = lkt_floats_make(random, c->s.filters);
    const int64_t cut = lkt_random_below(random, c->count);
    lkt_floats y = lkt_floats_make(random, c->count * c->y_size);
    const bool relu = lkt_random_bits(random) & 1;
    if (cut > 0)
        v->conv->backward_weight(&c->s, cut, c->x.at, c->d_y.at, relu ? y.at : NULL, d_w.at, d_b.at,
                                 false, c->space);
    v->conv->backward_weight(&c->s, c->count - cut, c->x.at + cut * c->x_size,
                             c->d_y.at + cut * c->y_size, relu ? y.at + cut * c->y_size : NULL,
                             d_w.at, d_b.at, cut > 0, c->space);
    const int64_t pixels = c->s.out[0] * c->s.out[1];
    for (int64_t i = 0; i < c->w.count + c->s.filters; i++) {
        const bool bias = i >= c->w.count;
        const int64_t f = bias ? i - c->w.count : i / (each * area), k = i / area % each;
        const int64_t group = f / (c->s.filters / c->s.groups) * each;
        const int64_t tap[2] = {i % area / c->s.kernel[1], i % area % c->s.kernel[1]};
        float sum = 0;
        for (int64_t p = 0; p < c->count * pixels; p++) {
            const int64_t out[2] = {p % pixels / c->s.out[1], p % pixels % c->s.out[1]};
            const float *x = bias ? NULL : under(c, c->x.at, p / pixels, out, tap);
            const int64_t at = p * c->s.filters + f;
            const float d = relu && !(y.at[at] > 0) ? 0 : c->d_y.at[at];
            if (bias)
                sum += d;
            else if (x != NULL)
                sum = fmaf(x[group + k], d, sum);
        }
        lkt_same(v, bias ? "d_bias" : "d_w", bias ? d_b.at + f : d_w.at + i, &sum, 1);
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
    for (int k = 0; k < 2 * CASES; k++) {
        lki_conv_shape s = random_conv(&random);
        if (k % 10 == 0) { /* a first layer, and a sum of several blocks */
            const int64_t channels = k % 20 == 0 ? 1 : 300;
            s = (lki_conv_shape){.groups = 1,
                                 .channels = channels,
                                 .filters = 33,
                                 .kernel = {3, 3},
                                 .stride = {1, 1},
                                 .dilation = {1, 1}};
        }
        conv_case c = conv_make(v, &random, s);
        check_forward(v, &c, s.channels == 300 ? 280 : s.channels, &random);
        check_data(v, &c, k % 2 != 0, &random);
        check_weight(v, &c, &random);
        conv_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_passes),
        cmocka_unit_test(rows_are_the_tree_of_replicas),
        cmocka_unit_test(convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
