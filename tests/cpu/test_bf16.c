/*
 * Convolutions whose factors are bfloat16 against their definition in bits (docs/numerics.md 3): scalar loops that take
 * terms in the written order, in blocks of 32, whose even and odd numbers are a chain each; on every instruction set, and on
 * a matrix unit where there is one.
 */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

#include "numeric/bf16.h"

/* A sum as it is defined. */
typedef struct chain {
    float even, odd, total;
} chain;

static void chain_add(chain *s, int64_t number, float a, float b)
{
    float *of = number % 2 == 0 ? &s->even : &s->odd;
    if (number % 32 == 0) {
        s->total += s->even + s->odd;
        s->even = s->odd = 0;
    }
    *of = fmaf(lki_bf16_round(a), lki_bf16_round(b), *of);
}

static float chain_end(chain *s)
{
    return s->total + (s->even + s->odd);
}

typedef struct conv_case {
    lki_conv_shape s;
    int64_t count, x_size, y_size;
    lkt_floats x, w, bias, d_y;
    void *packed, *space, *sums;
} conv_case;

/* Some, or all of them, so small that they, or what becomes of them, count as 0. */
static void make_small(lkt_floats *f, bool all, lkt_random *random)
{
    for (int64_t i = 0; i < f->count; i++) {
        if (lkt_random_chance(random, 8))
            f->at[i] = ldexpf(f->at[i], -(int)lkt_random_from(random, 45, 60));
        else if (all)
            f->at[i] = ldexpf(f->at[i], -33);
    }
}

static conv_case case_make(const lki_vector *v, lki_conv_shape s, bool small, lkt_random *random)
{
    conv_case c = {.s = s, .count = lkt_random_from(random, 1, 4)};
    c.s.bf16 = true;
    c.s.unit = v->unit;
    c.x_size = s.in[0] * s.in[1] * s.channels;
    c.y_size = s.out[0] * s.out[1] * s.filters;
    c.x = lkt_floats_make(random, c.count * c.x_size);
    c.d_y = lkt_floats_make(random, c.count * c.y_size);
    c.w = lkt_floats_make(random, s.filters * s.channels * s.kernel[0] * s.kernel[1]);
    c.bias = lkt_floats_make(random, s.filters);
    make_small(&c.x, small, random);
    make_small(&c.w, small, random);
    make_small(&c.d_y, small, random);
    for (int64_t f = 0; f < s.filters && small; f++) c.bias.at[f] = ldexpf(c.bias.at[f], -64);
    c.packed = lkt_scratch(v->bf16->packed_bytes(&c.s));
    c.space = lkt_scratch(v->bf16->workspace_bytes(&c.s, c.count));
    c.sums = lkt_scratch(v->bf16->sums_bytes(&c.s));
    const int parts = (int)lkt_random_from(random, 1, 3);
    for (int part = 0; part < parts; part++) v->bf16->pack(&c.s, c.w.at, c.packed, part, parts);
    return c;
}

static void case_free(conv_case *c)
{
    lkt_floats *const all[] = {&c->x, &c->w, &c->bias, &c->d_y};
    for (int i = 0; i < 4; i++) lkt_floats_free(all[i]);
    free(c->packed);
    free(c->space);
    free(c->sums);
}

static lki_conv_shape random_shape(lkt_random *random)
{
    static const int64_t many[] = {1, 3, 16, 20, 32, 40, 64, 70};
    lki_conv_shape s = {.groups = 1, .bias = true};
    s.channels = many[lkt_random_below(random, 8)];
    s.filters = many[lkt_random_below(random, 8)];
    const bool plain = lkt_random_below(random, 2) == 0;
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = lkt_random_from(random, 1, 4);
        s.stride[i] = plain ? 1 : lkt_random_from(random, 1, 3);
        s.dilation[i] = plain || lkt_random_below(random, 2) == 0 ? 1 : 2;
        s.padding[i] = lkt_random_below(random, 3);
        const int64_t seen = s.dilation[i] * (s.kernel[i] - 1) + 1;
        s.in[i] = seen - 2 * s.padding[i] + lkt_random_below(random, 17);
        if (s.in[i] < 1) s.in[i] = 1;
        s.out[i] = (s.in[i] + 2 * s.padding[i] - seen) / s.stride[i] + 1;
    }
    return s;
}

static float weight_at(const conv_case *c, int64_t f, int64_t k, int64_t v, int64_t h)
{
    return c->w.at[((f * c->s.channels + k) * c->s.kernel[0] + v) * c->s.kernel[1] + h];
}

/* A number of an image, or 0 outside of it. */
static float number_at(const float *image, const int64_t size[2], int64_t columns, int64_t y,
                       int64_t x, int64_t column)
{
    const bool inside = y >= 0 && y < size[0] && x >= 0 && x < size[1];
    return inside ? image[(y * size[1] + x) * columns + column] : 0;
}

static void check_forward(const lki_vector *v, const conv_case *c, bool relu, lkt_random *random)
{
    const lki_conv_shape *s = &c->s;
    lkt_floats y = lkt_floats_make(random, c->count * c->y_size);
    lki_conv_shape part = *s;
    for (part.part = 0, part.parts = 2; part.part < 2; part.part++)
        v->bf16->forward(&part, c->count, c->x.at, (lki_conv_weight){c->w.at, c->packed},
                         c->bias.at, relu, y.at, c->space);
    for (int64_t i = 0; i < c->count * c->y_size; i++) {
        const int64_t f = i % s->filters, pixel = i % c->y_size / s->filters;
        const int64_t row = pixel / s->out[1], column = pixel % s->out[1];
        chain sum = {0};
        int64_t number = 0;
        for (int64_t t = 0; t < s->kernel[0] * s->kernel[1]; t++)
            for (int64_t k = 0; k < s->channels; k++, number++) {
                const int64_t tap[2] = {t / s->kernel[1], t % s->kernel[1]};
                const int64_t at[2] = {row * s->stride[0] + tap[0] * s->dilation[0] - s->padding[0],
                                       column * s->stride[1] + tap[1] * s->dilation[1] -
                                           s->padding[1]};
                chain_add(&sum, number,
                          number_at(c->x.at + i / c->y_size * c->x_size, s->in, s->channels, at[0],
                                    at[1], k),
                          weight_at(c, f, k, tap[0], tap[1]));
            }
        float expected = lki_flush(chain_end(&sum) + c->bias.at[f]);
        if (relu && !(expected > 0)) expected = 0;
        lkt_same(v, "y", y.at + i, &expected, 1);
    }
    lkt_floats_free(&y);
}

/* Taps that reach a pixel, from the last to the first; filters under each. */
static void check_data(const lki_vector *v, const conv_case *c, bool add, int scale,
                       lkt_random *random)
{
    const lki_conv_shape *s = &c->s;
    lkt_floats d_x = lkt_floats_make(random, c->count * c->x_size);
    float *before = malloc(sizeof(float) * (size_t)(c->count * c->x_size));
    for (int64_t i = 0; i < c->count * c->x_size; i++)
        d_x.at[i] = lki_flush(ldexpf(d_x.at[i], scale)); /* as it would be stored */
    memcpy(before, d_x.at, sizeof(float) * (size_t)(c->count * c->x_size));
    v->bf16->backward(s, c->count, c->d_y.at, (lki_conv_weight){c->w.at, c->packed}, d_x.at, add,
                      c->space);
    for (int64_t i = 0; i < c->count * c->x_size; i++) {
        const int64_t k = i % s->channels, pixel = i % c->x_size / s->channels;
        const int64_t at[2] = {pixel / s->in[1], pixel % s->in[1]};
        chain sum = {0};
        int64_t number = 0;
        for (int64_t t = s->kernel[0] * s->kernel[1] - 1; t >= 0; t--) {
            const int64_t tap[2] = {t / s->kernel[1], t % s->kernel[1]};
            const int64_t y = at[0] + s->padding[0] - tap[0] * s->dilation[0];
            const int64_t x = at[1] + s->padding[1] - tap[1] * s->dilation[1];
            const int64_t r[2] = {(y % s->stride[0] + s->stride[0]) % s->stride[0],
                                  (x % s->stride[1] + s->stride[1]) % s->stride[1]};
            if (r[0] != 0 || r[1] != 0) continue;
            for (int64_t f = 0; f < s->filters; f++, number++)
                chain_add(&sum, number,
                          number_at(c->d_y.at + i / c->x_size * c->y_size, s->out, s->filters,
                                    y / s->stride[0], x / s->stride[1], f),
                          weight_at(c, f, k, tap[0], tap[1]));
        }
        const float expected = lki_flush(chain_end(&sum) + (add ? before[i] : 0));
        lkt_same(v, "d_x", d_x.at + i, &expected, 1);
    }
    free(before);
    lkt_floats_free(&d_x);
}

/* Positions of all samples, in rows as long as the taps reach; a sample begins a block. */
static float weight_sum(const conv_case *c, int64_t f, int64_t k, int64_t v, int64_t h)
{
    const lki_conv_shape *s = &c->s;
    const int64_t pitch = s->out[1] + (s->kernel[1] - 1) * s->dilation[1] / s->stride[1];
    chain sum = {0};
    for (int64_t n = 0; n < c->count; n++)
        for (int64_t p = 0; p < (s->out[0] - 1) * pitch + s->out[1]; p++) {
            const int64_t row = p / pitch, column = p % pitch;
            const int64_t y = row * s->stride[0] + v * s->dilation[0] - s->padding[0];
            const int64_t x = column * s->stride[1] + h * s->dilation[1] - s->padding[1];
            chain_add(&sum, p,
                      column < s->out[1]
                          ? number_at(c->x.at + n * c->x_size, s->in, s->channels, y, x, k)
                          : 0,
                      number_at(c->d_y.at + n * c->y_size, s->out, s->filters, row, column, f));
        }
    return lki_flush(chain_end(&sum));
}

static void check_weight(const lki_vector *v, const conv_case *c, lkt_random *random)
{
    const lki_conv_shape *s = &c->s;
    const int64_t taps = s->kernel[0] * s->kernel[1];
    lkt_floats d_w = lkt_floats_make(random, c->w.count), d_b = lkt_floats_make(random, s->filters);
    for (int64_t n = 0, more; n < c->count; n += more) {
        more = lkt_random_from(random, 1, c->count - n);
        v->bf16->backward_weight(s, more,
                                 &(lki_conv_gradient){.x = c->x.at + n * c->x_size,
                                                      .d_y = c->d_y.at + n * c->y_size,
                                                      .sample = n,
                                                      .last = n + more == c->count,
                                                      .sums = c->sums,
                                                      .d_weight = d_w.at,
                                                      .d_bias = d_b.at,
                                                      .workspace = c->space});
    }
    for (int64_t i = 0; i < c->w.count; i++) {
        const int64_t tap = i % taps, k = i / taps % s->channels;
        const float expected = weight_sum(c, i / taps / s->channels, k, tap / s->kernel[1],
                                          tap % s->kernel[1]);
        lkt_same(v, "d_w", d_w.at + i, &expected, 1);
    }
    for (int64_t f = 0; f < s->filters; f++) {
        double sum = 0;
        for (int64_t i = f; i < c->count * c->y_size; i += s->filters) sum += (double)c->d_y.at[i];
        const float expected = lki_round(sum);
        lkt_same(v, "d_b", d_b.at + f, &expected, 1);
    }
    lkt_floats_free(&d_w);
    lkt_floats_free(&d_b);
}

/* In runs that fill blocks, in frames and lines; rows of whole halves of tiles, an odd number of them; with a stride; images of
 * few pixels, where whole blocks of terms are left out, those of taps that meet none; a kernel that is so wide that no position
 * of a block has a gradient; and more blocks of positions than are near at once. */
#define SHAPE(c, f, in_rows, in_columns, k0, k1, s0, s1, p0, p1, d0, d1)                           \
    {                                                                                              \
        .groups = 1, .channels = c, .filters = f, .in = {in_rows, in_columns},                     \
        .out = {(in_rows + 2 * p0 - d0 * (k0 - 1) - 1) / s0 + 1,                                   \
                (in_columns + 2 * p1 - d1 * (k1 - 1) - 1) / s1 + 1},                               \
        .kernel = {k0, k1}, .stride = {s0, s1}, .padding = {p0, p1}, .dilation = {d0, d1},         \
        .bias = true                                                                               \
    }
static const lki_conv_shape SHAPES[] = {
    SHAPE(64, 64, 5, 14, 3, 3, 1, 1, 1, 1, 1, 1), SHAPE(64, 33, 7, 5, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(3, 16, 9, 9, 3, 3, 2, 2, 1, 1, 1, 1),   SHAPE(64, 32, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(32, 96, 2, 2, 3, 3, 2, 2, 1, 1, 1, 1),  SHAPE(40, 64, 2, 1, 5, 4, 1, 2, 3, 2, 1, 1),
    SHAPE(64, 20, 1, 13, 5, 3, 1, 1, 2, 1, 1, 1), SHAPE(32, 64, 3, 1, 3, 5, 2, 1, 2, 6, 2, 3),
    SHAPE(32, 40, 3, 16, 3, 3, 1, 1, 1, 1, 1, 1), SHAPE(64, 32, 3, 34, 2, 3, 1, 1, 0, 0, 2, 1),
    SHAPE(3, 20, 3, 70, 1, 70, 1, 1, 0, 0, 1, 1), SHAPE(16, 20, 17, 20, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(32, 32, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1), /* no tap meets the image */
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static void convolutions_have_the_bits_of_their_definition(void **state)
{
    lkt_random random = lkt_random_make("bf16", 83);
    (void)state;
    LKT_FOR_UNITS(v)
    for (int k = 0; k < (lkt_in_part() ? 16 : 36); k++) {
        conv_case c = case_make(v, k < SHAPE_COUNT ? SHAPES[k] : random_shape(&random), k % 4 == 3,
                                &random);
        check_forward(v, &c, k % 2 != 0, &random);
        for (int add = 0; add < 2; add++) check_data(v, &c, add, k % 4 == 3 ? -62 : 0, &random);
        check_weight(v, &c, &random);
        case_free(&c);
    }
}

/* A kernel whose other taps lie in the border has the packed weight of the taps that are left. */
static void taps_that_meet_no_pixel_take_no_memory(void **state)
{
    static const lki_conv_shape pairs[][2] = {
        {SHAPE(64, 32, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1), SHAPE(64, 32, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1)},
        {SHAPE(32, 64, 2, 2, 3, 3, 2, 2, 1, 1, 1, 1), SHAPE(32, 64, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1)},
        /* the first tap of a column lies at row -1 alone */
        {SHAPE(32, 32, 2, 2, 2, 1, 3, 1, 1, 0, 1, 1), SHAPE(32, 32, 2, 2, 1, 1, 3, 1, 0, 0, 1, 1)},
    };
    (void)state;
    LKT_FOR_UNITS(v)
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(v->bf16->packed_bytes(&pairs[i][0]), v->bf16->packed_bytes(&pairs[i][1]));
}

/* The nearest, ties to even, small ones as 0. */
static void numbers_are_rounded(void **state)
{
    static const float rows[][2] = {
        {1, 1},
        {0x1.01p0f, 0x1p0f},
        {0x1.010002p0f, 0x1.02p0f},
        {0x1.03p0f, 0x1.04p0f},
        {-0x1.03p0f, -0x1.04p0f},
        {0x1.ffp5f, 0x1p6f},
        {0x1p-56f, 0x1p-56f},
        {0x1.fep-57f, 0},
        {0x1.fffffep-57f, 0x1p-56f},
        {-0x1p-57f, 0},
        {0x1.fffffep127f, INFINITY},
        {-INFINITY, -INFINITY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const float found = lki_bf16_round(rows[i][0]);
        assert_memory_equal(&found, &rows[i][1], sizeof found);
    }
    assert_true(isnan(lki_bf16_round(NAN)));
}

/* Arrays to bfloat16 and back, on every instruction set. */
static void arrays_are_rounded_alike(void **state)
{
    enum { MOST = 70 };
    (void)state;
    lkt_random random = lkt_random_make("bf16 arrays", 71);
    LKT_FOR_ISAS(v)
    for (int64_t count = 0; count <= MOST; count++) {
        lkt_floats from = lkt_floats_make(&random, count), back = lkt_floats_make(&random, count);
        uint16_t packed[MOST + 1];
        for (int64_t i = 0; i < count; i++) {
            const int odd = (int)lkt_random_below(&random, 8);
            if (odd < 4) from.at[i] = ldexpf(from.at[i], (int)lkt_random_below(&random, 120) - 60);
            if (odd == 4) from.at[i] = lkt_random_chance(&random, 2) ? NAN : -INFINITY;
        }
        packed[count] = 0x1234;
        v->element->pack(count, from.at, packed);
        v->element->unpack(count, packed, back.at);
        assert_int_equal(packed[count], 0x1234);
        for (int64_t i = 0; i < count; i++) {
            const float expected = lki_bf16_round(from.at[i]);
            assert_int_equal(packed[i], lki_bf16(from.at[i]));
            assert_memory_equal(&back.at[i], &expected, sizeof expected);
        }
        lkt_floats_free(&from);
        lkt_floats_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded),
        cmocka_unit_test(arrays_are_rounded_alike),
        cmocka_unit_test(convolutions_have_the_bits_of_their_definition),
        cmocka_unit_test(taps_that_meet_no_pixel_take_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
