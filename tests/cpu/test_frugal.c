/*
 * Convolutions that do not pack what they can form when a pass wants it (`frugal`) have the bits of those that pack all of
 * it, which the tests beside this one hold to the definition: Winograd's weights, and panels of the data gradient of 1x1
 * kernels. Cut tiles and panels, several strips, parts of the output, sums of several groups.
 */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

typedef enum saving { ALL, SOME, NONE } saving; /* of the packed weight */

typedef struct frugal_case {
    int winograd;
    int64_t channels, filters, in[2], kernel, stride, padding, count;
    saving saved;
} frugal_case;

static const frugal_case CASES[] = {
    {4, 186, 171, {7, 5}, 3, 1, 1, 3, ALL},
    {4, 186, 171, {14, 9}, 3, 1, 0, 9, ALL}, /* two strips */
    {2, 262, 259, {3, 6}, 3, 1, 1, 2, ALL},  /* parts of a block of 64 channels */
    {4, 160, 160, {4, 4}, 3, 1, 1, 2, NONE}, /* not large, with panels of any width */
    {4, 1040, 40, {4, 4}, 3, 1, 1, 2, NONE}, /* sums of two groups */
    {4, 40, 1040, {4, 4}, 3, 1, 1, 2, NONE}, /* backward */
    {0, 261, 272, {5, 6}, 1, 1, 0, 3, SOME},
    {0, 261, 272, {9, 8}, 1, 2, 0, 3, SOME}, /* pixels that no tap reaches */
    {0, 40, 2600, {4, 4}, 1, 1, 0, 2, SOME}, /* blocks of terms whose totals wait */
    {0, 270, 272, {5, 4}, 1, 1, 1, 2, SOME}, /* a border */
    {0, 261, 272, {5, 3}, 1, 1, 0, 9, NONE}, /* tiles of one pixel of many samples */
    {0, 64, 64, {5, 6}, 1, 1, 0, 3, NONE},   /* not large */
    {0, 15, 4400, {5, 6}, 1, 1, 0, 2, NONE}, /* narrow */
    {0, 160, 64, {5, 6}, 3, 1, 1, 2, NONE},
};

static lki_conv_shape shape_of(const frugal_case *c)
{
    lki_conv_shape s = {.groups = 1,
                        .channels = c->channels,
                        .filters = c->filters,
                        .bias = true,
                        .winograd = c->winograd};
    for (int i = 0; i < 2; i++) {
        s.in[i] = c->in[i];
        s.kernel[i] = c->kernel;
        s.stride[i] = c->stride;
        s.padding[i] = c->padding;
        s.dilation[i] = 1;
        s.out[i] = (c->in[i] + 2 * c->padding - c->kernel) / c->stride + 1;
    }
    return s;
}

/* y and d_x of all samples, the first in three parts; and the bytes that are packed. */
static size_t run(const lki_vector_conv *kernels, const lki_conv_shape *shape, int64_t count,
                  const lkt_floats *x, const lkt_floats *w, const lkt_floats *bias,
                  const lkt_floats *d_y, float *y, float *d_x)
{
    lki_conv_shape s = *shape;
    const size_t bytes = kernels->packed_bytes(&s);
    void *packed = lkt_scratch(bytes), *space = lkt_scratch(kernels->workspace_bytes(&s, count));
    for (int part = 0; part < 2; part++) kernels->pack(&s, w->at, packed, part, 2);
    const lki_conv_weight weight = {w->at, bytes > 0 ? packed : NULL};
    for (s.part = 0, s.parts = 3; s.part < s.parts; s.part++)
        kernels->forward(&s, count, x->at, weight, bias->at, false, y, space);
    kernels->backward(shape, count, d_y->at, weight, d_x, false, space);
    kernels->backward(shape, count, d_y->at, weight, d_x, true, space);
    free(packed);
    free(space);
    return bytes;
}

static void check(const lki_vector *v, const frugal_case *c, lkt_random *random)
{
    const lki_vector_conv *kernels = c->winograd > 0 ? v->winograd : v->conv;
    lki_conv_shape s = shape_of(c);
    const int64_t in = c->count * s.in[0] * s.in[1] * s.channels;
    const int64_t out = c->count * s.out[0] * s.out[1] * s.filters;
    lkt_floats x = lkt_floats_make(random, in), d_y = lkt_floats_make(random, out);
    lkt_floats w = lkt_floats_make(random, s.filters * s.channels * c->kernel * c->kernel);
    lkt_floats bias = lkt_floats_make(random, s.filters);
    float *y[2], *d_x[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        y[i] = lkt_scratch(sizeof(float) * (size_t)out);
        d_x[i] = lkt_scratch(sizeof(float) * (size_t)in);
        s.frugal = i == 1;
        bytes[i] = run(kernels, &s, c->count, &x, &w, &bias, &d_y, y[i], d_x[i]);
    }
    lkt_same(v, "y", y[1], y[0], out);
    lkt_same(v, "d_x", d_x[1], d_x[0], in);
    if (c->saved == NONE) assert_int_equal(bytes[1], bytes[0]);
    if (c->saved == SOME) assert_in_range(bytes[1], bytes[0] / 3, bytes[0] * 3 / 4);
    if (c->saved == ALL) assert_int_equal(bytes[1], 0);
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        free(d_x[i]);
    }
    lkt_floats *all[] = {&x, &d_y, &w, &bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
}

static void weights_formed(void **state)
{
    lkt_random random = lkt_random_make("frugal", 1);
    (void)state;
    LKT_FOR_ISAS(v)
    for (size_t k = 0; k < sizeof CASES / sizeof CASES[0]; k++) check(v, &CASES[k], &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_formed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
