/* Vector functions over channels against scalar loops, to the bit: batch norm, pools of means. */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

/* A matrix and vectors with a value for each column. */
typedef struct norm_case {
    int64_t rows, columns;
    lkt_floats x, d, mean, scale, level, slope, out;
    float *expected;
} norm_case;

static norm_case norm_make(lkt_random *random, int64_t columns)
{
    const int64_t rows = lkt_random_from(random, 1, 30);
    return (norm_case){.rows = rows,
                       .columns = columns,
                       .x = lkt_floats_make(random, rows * columns),
                       .d = lkt_floats_make(random, rows * columns),
                       .mean = lkt_floats_make(random, columns),
                       .scale = lkt_floats_make(random, columns),
                       .level = lkt_floats_make(random, columns),
                       .slope = lkt_floats_make(random, columns),
                       .out = lkt_floats_make(random, rows * columns),
                       .expected = lkt_scratch(sizeof(float) * (size_t)(rows * columns))};
}

static void norm_free(norm_case *c)
{
    lkt_floats *all[] = {&c->x, &c->d, &c->mean, &c->scale, &c->level, &c->slope, &c->out};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
    free(c->expected);
}

static void check_norm(const lki_vector *v, norm_case *c, bool add)
{
    const int64_t columns = c->columns, all = c->rows * columns;
    for (int64_t i = 0; i < all; i++)
        c->expected[i] = lki_flush(fmaf(c->x.at[i] - c->mean.at[i % columns],
                                        c->scale.at[i % columns], c->level.at[i % columns]));
    v->norm->apply(c->rows, columns,
                   &(lki_norm_apply){.x = c->x.at,
                                     .mean = c->mean.at,
                                     .scale = c->scale.at,
                                     .shift = c->level.at,
                                     .out = c->out.at});
    lkt_same(v, "apply", c->out.at, c->expected, all);
    for (int64_t i = 0; i < all; i++) {
        const int64_t k = i % columns;
        const float g = c->scale.at[k] * fmaf(c->mean.at[k] - c->x.at[i], c->slope.at[k],
                                              c->d.at[i] - c->level.at[k]);
        c->expected[i] = lki_flush(add ? c->out.at[i] + g : g);
    }
    v->norm->backward(c->rows, columns,
                      &(lki_norm_backward){.x = c->x.at,
                                           .d_out = c->d.at,
                                           .mean = c->mean.at,
                                           .scale = c->scale.at,
                                           .level = c->level.at,
                                           .slope = c->slope.at,
                                           .d_in = c->out.at},
                      add);
    lkt_same(v, "backward", c->out.at, c->expected, all);
}

static void batch_norms(void **state)
{
    lkt_random random = lkt_random_make("batch_norms", 95);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t columns = 1; columns < 70; columns++) {
        norm_case c = norm_make(&random, columns);
        c.scale.at[0] = 0x1p-70f; /* what is stored of it is 0 */
        c.level.at[0] = 0x1p-65f;
        check_norm(v, &c, columns % 2 == 0);
        norm_free(&c);
    }
}

static lki_pool_shape random_pool(lkt_random *random)
{
    lki_pool_shape s = {.in_rows = lkt_random_from(random, 3, 12),
                        .in_columns = lkt_random_from(random, 3, 12),
                        .channels = lkt_random_from(random, 1, 40),
                        .exclude_padding = lkt_random_bits(random) & 1};
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = lkt_random_from(random, 1, 3);
        s.stride[i] = lkt_random_from(random, 1, 3);
        s.padding[i] = lkt_random_below(random, s.kernel[i] / 2 + 1);
    }
    s.out_rows = (s.in_rows + 2 * s.padding[0] - s.kernel[0]) / s.stride[0] + 1;
    s.out_columns = (s.in_columns + 2 * s.padding[1] - s.kernel[1]) / s.stride[1] + 1;
    return s;
}

/* The pixel of a window under a tap, or -1 in the padding. */
static int64_t under(const lki_pool_shape *s, int64_t window, int64_t tap)
{
    const int64_t y = window / s->out_columns * s->stride[0] - s->padding[0] + tap / s->kernel[1];
    const int64_t x = window % s->out_columns * s->stride[1] - s->padding[1] + tap % s->kernel[1];
    return y < 0 || y >= s->in_rows || x < 0 || x >= s->in_columns ? -1 : y * s->in_columns + x;
}

static void check_pool(const lki_vector *v, const lki_pool_shape *s, lkt_random *random)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], c = s->channels;
    const int64_t in = s->in_rows * s->in_columns * c, out = s->out_rows * s->out_columns * c;
    lkt_floats x = lkt_floats_make(random, in), y = lkt_floats_make(random, out);
    lkt_floats d = lkt_floats_make(random, out), d_x = lkt_floats_make(random, in);
    float *gradient = lkt_scratch(sizeof(float) * (size_t)in);
    const bool add = lkt_random_bits(random) & 1; /* what is not added to may be anything */
    for (int64_t i = 0; i < in; i++) gradient[i] = add ? d_x.at[i] : 0;
    v->pool->mean_forward(s, x.at, y.at);
    v->pool->mean_backward(s, d.at, d_x.at, add);
    for (int64_t i = 0; i < out; i++) {
        int64_t inside = 0;
        double sum = 0;
        for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t pixel = under(s, i / c, tap);
            if (pixel < 0) continue;
            sum += (double)x.at[pixel * c + i % c];
            inside++;
        }
        const int64_t area = s->exclude_padding ? inside : taps;
        const float mean = lki_flush((float)(sum * (1 / (double)area)));
        lkt_same(v, "mean", y.at + i, &mean, 1);
        for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t pixel = under(s, i / c, tap);
            if (pixel < 0) continue;
            float *to = &gradient[pixel * c + i % c];
            *to = lki_flush(*to + d.at[i] / (float)area);
        }
    }
    lkt_same(v, "the gradient of a mean", d_x.at, gradient, in);
    free(gradient);
    lkt_floats_free(&x);
    lkt_floats_free(&y);
    lkt_floats_free(&d);
    lkt_floats_free(&d_x);
}

static void means(void **state)
{
    lkt_random random = lkt_random_make("means", 96);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 60; k++) {
        const lki_pool_shape s = random_pool(&random);
        check_pool(v, &s, &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norms),
        cmocka_unit_test(means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
