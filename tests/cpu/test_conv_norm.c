/*
 * What batch norm does in one pass with a convolution in front of it, a sum and relu behind it, against the
 * single functions one after the other, to the bit: the moments of a convolution's columns, piece by piece; out,
 * its gradients and their sums. And what becomes of moments, beside exact ones.
 */
#include "cpu/vectors.h"

#include <math.h>

#ifdef LKT_HAVE_CPU

#include "backend/cpu/norm.h"

/* Scalar sums of columns that go on from `sum`, as everything that takes them must. */
static void add_columns(int64_t rows, int64_t columns, const float *x, double *sum)
{
    for (int64_t i = 0; i < rows * columns; i++) sum[i % columns] += (double)x[i];
}

/* Likewise distances from a pivot, and behind these their squares. */
static void add_moments(int64_t rows, int64_t columns, int64_t stride, const float *x,
                        const float *pivot, double *sum)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const double away = (double)x[r * stride + c] - (double)pivot[c];
            sum[c] += away;
            sum[columns + c] += away * away;
        }
}

static void same_sums(const lki_vector *v, const char *what, const double *found,
                      const double *expected, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&found[i], &expected[i], sizeof(double)) != 0)
            fail_msg("%s, %s[%lld]: %.17g, expected %.17g", v->name, what, (long long)i, found[i],
                     expected[i]);
}

static int64_t out_of(const lki_conv_shape *s, int i)
{
    return (s->in[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] +
           1;
}

static lki_conv_shape shape_of(int64_t in, int64_t channels, int64_t filters, int64_t groups,
                               int64_t kernel, int64_t stride)
{
    lki_conv_shape s = {.groups = groups, .channels = channels, .filters = filters, .bias = true};
    for (int i = 0; i < 2; i++) {
        s.in[i] = in + i;
        s.kernel[i] = kernel;
        s.stride[i] = stride;
        s.padding[i] = kernel / 2;
        s.dilation[i] = 1;
        s.out[i] = out_of(&s, i);
    }
    return s;
}

/* The convolution with moments, in two pieces, beside the one without. */
static void check_conv_moments(const lki_vector *v, const lki_vector_conv *kernels,
                               lki_conv_shape s, lkt_random *random)
{
    const int64_t count = lkt_random_from(random, 1, 4), cut = lkt_random_below(random, count);
    const int64_t in = s.in[0] * s.in[1] * s.channels, pixels = s.out[0] * s.out[1];
    const int64_t out = pixels * s.filters;
    const int64_t weights = s.filters * s.channels / s.groups * s.kernel[0] * s.kernel[1];
    lkt_floats x = lkt_floats_make(random, count * in), w = lkt_floats_make(random, weights);
    lkt_floats bias = lkt_floats_make(random, s.filters);
    lkt_floats y = lkt_floats_make(random, count * out),
               plain = lkt_floats_make(random, count * out);
    void *packed = lkt_scratch(kernels->packed_bytes(&s));
    void *space = lkt_scratch(kernels->workspace_bytes(&s, count));
    double *sum = calloc((size_t)(4 * s.filters), sizeof(double)), *expected = sum + 2 * s.filters;
    const lki_norm_moments moments = {.pivot = y.at, .sum = sum, .square = sum + s.filters};
    assert_non_null(sum);
    kernels->pack(&s, w.at, packed, 0, 1);
    kernels->forward(&s, count, x.at, (lki_conv_weight){w.at, packed}, bias.at, false, plain.at,
                     space);
    if (cut > 0)
        kernels->forward_moments(&s, cut, x.at, (lki_conv_weight){w.at, packed}, bias.at, y.at,
                                 &moments, space);
    kernels->forward_moments(&s, count - cut, x.at + cut * in, (lki_conv_weight){w.at, packed},
                             bias.at, y.at + cut * out, &moments, space);
    lkt_same(v, "y", y.at, plain.at, count * out);
    add_moments(count * pixels, s.filters, s.filters, y.at, y.at, expected);
    same_sums(v, "moments of y", sum, expected, 2 * s.filters);
    free(sum);
    free(space);
    free(packed);
    lkt_floats *all[] = {&x, &w, &bias, &y, &plain};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
}

static void convolutions(void **state)
{
    lkt_random random = lkt_random_make("convolutions", 120);
    const lki_conv_shape shapes[] = {
        shape_of(9, 16, 64, 1, 3, 1),   shape_of(9, 16, 33, 1, 3, 2),
        shape_of(17, 3, 40, 1, 7, 2), /* a first layer */
        shape_of(8, 64, 70, 1, 1, 1),   shape_of(8, 20, 100, 1, 1, 2),
        shape_of(5, 130, 64, 1, 3, 1),  /* a panel of its large weight goes over all samples */
        shape_of(3, 2600, 40, 1, 1, 1), /* totals wait */
        shape_of(6, 24, 60, 3, 3, 1),   /* groups, panels that are not full */
        shape_of(6, 12, 10, 2, 3, 1),   /* narrow */
        shape_of(10, 1, 5, 1, 3, 1),
    };
    (void)state;
    LKT_FOR_ISAS(v)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            check_conv_moments(v, v->conv, shapes[i], &random);
        check_conv_moments(v, v->first, shape_of(17, 3, 40, 1, 7, 2), &random);
        check_conv_moments(v, v->first, shape_of(10, 1, 5, 1, 3, 1), &random);
        for (int64_t channels = 2; channels < 140; channels += 23)
            check_conv_moments(v, v->depthwise,
                               shape_of(7, channels, channels, channels, 3, 1 + channels % 2),
                               &random);
    }
}

/* A matrix, what stands beside it, and vectors with a value for each column. */
typedef struct norm_case {
    int64_t rows, columns;
    lkt_floats x, side, d_out, out, d_side, mean, scale, shift, level, slope;
    float *one, *two; /* what the single functions write */
    double *sums;     /* two of each column found, two expected */
} norm_case;

static norm_case norm_make(lkt_random *random, int64_t rows, int64_t columns)
{
    const int64_t all = rows * columns;
    norm_case c = {.rows = rows,
                   .columns = columns,
                   .x = lkt_floats_make(random, all),
                   .side = lkt_floats_make(random, all),
                   .d_out = lkt_floats_make(random, all),
                   .out = lkt_floats_make(random, all),
                   .d_side = lkt_floats_make(random, all),
                   .mean = lkt_floats_make(random, columns),
                   .scale = lkt_floats_make(random, columns),
                   .shift = lkt_floats_make(random, columns),
                   .level = lkt_floats_make(random, columns),
                   .slope = lkt_floats_make(random, columns),
                   .one = lkt_scratch(sizeof(float) * (size_t)all),
                   .two = lkt_scratch(sizeof(float) * (size_t)all),
                   .sums = calloc((size_t)(4 * columns), sizeof(double))};
    assert_non_null(c.sums);
    return c;
}

static void norm_free(norm_case *c)
{
    lkt_floats *all[] = {&c->x,    &c->side,  &c->d_out, &c->out,   &c->d_side,
                         &c->mean, &c->scale, &c->shift, &c->level, &c->slope};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
    free(c->one);
    free(c->two);
    free(c->sums);
}

/* What stands behind: nothing, relu, relu6. */
enum { PLAIN, RELU, RELU6 };

static void check_apply(const lki_vector *v, norm_case *c, bool side, int relu)
{
    const int64_t all = c->rows * c->columns;
    c->scale.at[0] = 0x1p-70f; /* what is stored of the norm alone is 0, */
    c->shift.at[0] = 0x1p-65f;
    for (int64_t i = 1; i < c->columns; i += 2) c->scale.at[i] = 16; /* beyond relu6's limit */
    for (int64_t i = 0; i < all; i += 2 * c->columns) c->side.at[i] = 0x1p-63f; /* beside it, not */
    lki_norm_apply apply = {.x = c->x.at,
                            .mean = c->mean.at,
                            .scale = c->scale.at,
                            .shift = c->shift.at,
                            .out = c->one};
    v->norm->apply(c->rows, c->columns, &apply);
    if (side) v->element->sum(all, c->one, c->side.at, c->one);
    if (relu == RELU) v->element->relu(all, c->one, c->one);
    if (relu == RELU6) v->activation[LKI_RELU6].forward(all, 0, c->one, c->one);
    apply.out = c->out.at;
    apply.side = side ? c->side.at : NULL;
    apply.relu = relu != PLAIN;
    apply.most = relu == RELU6 ? 6 : 0;
    v->norm->apply(c->rows, c->columns, &apply);
    lkt_same(v, "out", c->out.at, c->one, all);
}

/* In two pieces, which change no bit. */
static void check_backward(const lki_vector *v, norm_case *c, bool side, int relu, bool add)
{
    const int64_t columns = c->columns, all = c->rows * columns;
    double *found = c->sums, *expected = found + 2 * columns;
    memset(c->sums, 0, 4 * sizeof(double) * (size_t)columns);
    memcpy(c->one, c->d_out.at, sizeof(float) * (size_t)all);
    memcpy(c->two, c->d_side.at, sizeof(float) * (size_t)all);
    if (relu == RELU) v->element->relu_backward(all, c->out.at, c->d_out.at, c->one, false);
    if (relu == RELU6)
        v->activation[LKI_RELU6].backward(all, 0, c->out.at, c->d_out.at, c->one, false);
    if (side) v->element->pass(all, c->one, c->two, add);
    add_columns(c->rows, columns, c->one, expected);
    for (int64_t i = 0; i < all; i++)
        expected[columns + i % columns] += (double)c->one[i] *
                                           (double)(c->x.at[i] - c->mean.at[i % columns]);
    for (int64_t row = 0, rows = c->rows / 3; row < c->rows; row += rows, rows = c->rows - row) {
        const int64_t at = row * columns;
        v->norm->products(rows, columns,
                          &(lki_norm_products){.x = c->x.at + at,
                                               .mean = c->mean.at,
                                               .d_out = c->d_out.at + at,
                                               .out = relu && side ? c->out.at + at : NULL,
                                               .scale = c->scale.at,
                                               .shift = relu && !side ? c->shift.at : NULL,
                                               .most = relu == RELU6 ? 6 : 0,
                                               .sum_d = found,
                                               .sum_dx = found + columns,
                                               .d_side = side ? c->d_side.at + at : NULL,
                                               .add = add});
    }
    same_sums(v, "sums of d", found, expected, 2 * columns);
    lkt_same(v, "d_side", c->d_side.at, c->two, all);
    lki_norm_backward backward = {.x = c->x.at,
                                  .d_out = c->one,
                                  .mean = c->mean.at,
                                  .scale = c->scale.at,
                                  .level = c->level.at,
                                  .slope = c->slope.at,
                                  .d_in = c->two};
    memcpy(c->two, c->side.at, sizeof(float) * (size_t)all);
    v->norm->backward(c->rows, columns, &backward, add);
    backward.d_out = c->d_out.at;
    backward.out = relu && side ? c->out.at : NULL;
    backward.shift = relu && !side ? c->shift.at : NULL;
    backward.most = relu == RELU6 ? 6 : 0;
    backward.d_in = c->side.at;
    v->norm->backward(c->rows, columns, &backward, add);
    lkt_same(v, "d_in", c->side.at, c->two, all);
}

static void passes(void **state)
{
    static const int64_t many[] = {96, 127, 128, 200, 600};
    lkt_random random = lkt_random_make("passes", 121);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t k = 1; k < 75; k++) {
        norm_case c = norm_make(&random, lkt_random_from(&random, 1, k < 70 ? 90 : 30),
                                k < 70 ? k : many[k - 70]);
        for (int way = 0; way < 16; way++) {
            check_apply(v, &c, way & 1, way >> 1 & 1 ? RELU + (way >> 2 & 1) : PLAIN);
            check_backward(v, &c, way & 1, way >> 1 & 1 ? RELU + (way >> 2 & 1) : PLAIN,
                           way >> 3 & 1);
        }
        norm_free(&c);
    }
}

/* Moments of columns against scalar loops, in pieces and with a stride. */
static void moments(void **state)
{
    lkt_random random = lkt_random_make("moments", 122);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t columns = 1; columns < 150; columns++) {
        const int64_t rows = lkt_random_from(&random, 1, 70), apart = columns + columns % 3;
        lkt_floats x = lkt_floats_make(&random, rows * apart);
        double *all = calloc((size_t)(4 * columns), sizeof(double));
        assert_non_null(all);
        const lki_norm_moments found = {.pivot = x.at, .sum = all, .square = all + columns};
        add_moments(rows, columns, apart, x.at, x.at, all + 2 * columns);
        v->norm->moments(rows / 2, columns, apart, x.at, &found);
        v->norm->moments(rows - rows / 2, columns, apart, x.at + rows / 2 * apart, &found);
        same_sums(v, "moments", all, all + 2 * columns, 2 * columns);
        free(all);
        lkt_floats_free(&x);
    }
}

/*
 * Mean and squares about it, of columns whose values one pass over floats, or squares about 0, would lose: far from 0
 * and near each other; all equal; and, what is worst, a first value far from all others. With m values, v = 2^-53
 * and A = mean |x - pivot|, a sum's roundings give the mean an error of (m + 3) v (A + |mean|) and the squares one of
 * (3 m + 8) v times those about the pivot.
 */
static void check_statistics(const lki_vector *v, int64_t rows, const float *x, int64_t columns)
{
    const double u = 0x1p-53, m = (double)rows;
    double met[1 + 2 * 4];
    double *kept = calloc((size_t)columns, 2 * sizeof(double) + 5 * sizeof(float));
    assert_non_null(kept);
    const lki_norm norm = {.vector = v->norm, .channels = columns};
    const lki_norm_moments found = lki_norm_moments_of(&norm, kept, x);
    v->norm->moments(rows, columns, columns, x, &found);
    lki_norm_give(&norm, &(lki_args){.replica = kept, .met = met}, rows, x);
    assert_true(met[0] == m);
    for (int64_t c = 0; c < columns; c++) {
        long double mean = 0, away = 0, square = 0, about = 0;
        for (int64_t i = c; i < rows * columns; i += columns) mean += (long double)x[i] - x[c];
        mean = mean / rows + x[c];
        for (int64_t i = c; i < rows * columns; i += columns) {
            const long double d = (long double)x[i] - mean, p = (long double)x[i] - x[c];
            square += d * d;
            away += fabsl(p) / rows;
            about += p * p;
        }
        const double far = fabs((double)(met[1 + c] - mean));
        const double off = fabs((double)(met[1 + columns + c] - square));
        if (!(far <= (m + 3) * u * ((double)away + fabs((double)mean))))
            fail_msg("%s, column %lld: mean %g off", v->name, (long long)c, far);
        if (!(off <= (3 * m + 8) * u * (double)about))
            fail_msg("%s, column %lld: squares %g off", v->name, (long long)c, off);
        assert_true((double)about <= 1.01 * m * (double)square); /* of which the rest has enough */
    }
    free(kept);
}

static void statistics(void **state)
{
    enum { ROWS = 5000, COLUMNS = 4 };
    lkt_random random = lkt_random_make("statistics", 123);
    lkt_floats x = lkt_floats_make(&random, ROWS * COLUMNS);
    (void)state;
    for (int64_t i = 0; i < ROWS; i++) {
        float *row = x.at + i * COLUMNS;
        row[0] = 4096 + row[0] * 0.01f;
        row[1] = -0.7f;
        row[2] = i == 0 ? -1e3f : 1e-3f + row[2] * 1e-4f;
    }
    LKT_FOR_ISAS(v) check_statistics(v, ROWS, x.at, COLUMNS);
    lkt_floats_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(passes),
        cmocka_unit_test(moments),
        cmocka_unit_test(statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
