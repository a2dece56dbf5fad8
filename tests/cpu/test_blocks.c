/*
 * Convolution + activation + max-pooling in one pass (vector/conv/block.c) against its definition in bits: scalar
 * loops that take the terms of every sum in the written order, whatever the width of vectors. Runs of
 * kernel columns x channels are longer and shorter than what registers hold at a time.
 */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

typedef struct block_case {
    lki_block_shape s;
    int64_t count, image, pooled, where_bytes, run, weights;
    lkt_floats x, w, bias, d_out, out, least, other, d_x;
    uint8_t *where;
    void *packed, *space, *sums;
} block_case;

static block_case block_make(const lki_vector *v, lkt_random *random, lki_block_shape s)
{
    block_case c = {.s = s, .count = lkt_random_from(random, 1, 5)};
    c.s.in_rows = (s.rows - 1) * s.step + s.window + s.kernel[0] - 1 + lkt_random_below(random, 2);
    c.s.in_columns = (s.columns - 1) * s.step + s.window + s.kernel[1] - 1 +
                     lkt_random_below(random, 2);
    c.image = c.s.in_rows * c.s.in_columns * s.channels;
    c.where_bytes = s.rows * s.columns * lki_block_where(&s);
    c.pooled = s.rows * s.columns * s.filters;
    c.run = s.kernel[1] * s.channels;
    c.weights = s.filters * s.kernel[0] * c.run;
    c.x = lkt_floats_make(random, c.count * c.image + lki_block_slack(&s));
    c.w = lkt_floats_make(random, c.weights);
    c.bias = lkt_floats_make(random, s.filters);
    c.d_out = lkt_floats_make(random, c.count * c.pooled);
    c.out = lkt_floats_make(random, c.count * c.pooled);
    c.least = lkt_floats_make(random, c.count * c.pooled);
    c.other = lkt_floats_make(random, c.count * c.pooled);
    c.d_x = lkt_floats_make(random, c.count * c.image + lki_block_slack(&s));
    c.where = lkt_scratch((size_t)(c.count * c.where_bytes));
    c.packed = lkt_scratch(v->block->packed_bytes(&c.s));
    c.space = lkt_scratch(v->block->workspace_bytes(&c.s));
    c.sums = lkt_scratch(v->block->sums_bytes(&c.s));
    for (int part = 0; part < 3; part++) v->block->pack(&c.s, c.w.at, c.packed, part, 3);
    return c;
}

static void block_free(block_case *c)
{
    lkt_floats *all[] = {&c->x, &c->w, &c->bias, &c->d_out, &c->out, &c->least, &c->other, &c->d_x};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
    free(c->where);
    free(c->packed);
    free(c->space);
    free(c->sums);
}

/* PyTorch's order, [filter][channel][row][column]; `k` counts columns x channels. */
static float weight_of(const block_case *c, int64_t f, int64_t row, int64_t k)
{
    const int64_t channel = k % c->s.channels, column = k / c->s.channels;
    return c->w
        .at[((f * c->s.channels + channel) * c->s.kernel[0] + row) * c->s.kernel[1] + column];
}

/* Of the pooled value `at` of all images. */
static int where_of(const block_case *c, int64_t at)
{
    const int64_t filters = c->s.filters, pixel = at / filters;
    return c->where[pixel * lki_block_where(&c->s) + at % filters];
}

/* Row and column of a window's place. */
static int64_t row_of(const block_case *c, int64_t window, int64_t place)
{
    return window / c->s.columns * c->s.step + place / c->s.window;
}
static int64_t column_of(const block_case *c, int64_t window, int64_t place)
{
    return window % c->s.columns * c->s.step + place % c->s.window;
}

/* What lies under kernel row `row` of pixel (y, x) of an image. */
static int64_t under(const block_case *c, int64_t y, int64_t x, int64_t row)
{
    return ((y + row) * c->s.in_columns + x) * c->s.channels;
}

static float convolution(const block_case *c, const float *image, int64_t y, int64_t x, int64_t f)
{
    float group = 0, block = 0;
    double total = 0;
    for (int64_t k = 0; k < c->s.kernel[0] * c->run; k++) {
        if (k > 0 && k % 64 == 0) group += block, block = 0;
        if (k > 0 && k % 1024 == 0) total += (double)group, group = 0;
        const int64_t row = k / c->run;
        block = fmaf(image[under(c, y, x, row) + k % c->run], weight_of(c, f, row, k % c->run),
                     block);
    }
    return (float)(total + (double)(group + block)) + c->bias.at[f];
}

/* What the pooled value `i` of all images is made of. */
static lkt_pooled pooled_of(const block_case *c, int64_t i, bool relu)
{
    const int64_t f = i % c->s.filters, window = i / c->s.filters % (c->s.rows * c->s.columns);
    const int places = (int)(c->s.window * c->s.window);
    float from[9];
    for (int p = 0; p < places; p++)
        from[p] = convolution(c, c->x.at + i / c->pooled * c->image, row_of(c, window, p),
                              column_of(c, window, p), f);
    return lkt_pool(from, places, relu);
}

static void run_forward(const lki_vector *v, const block_case *c, bool relu)
{
    for (int64_t n = 0; n < c->count; n++)
        v->block->forward(&c->s, c->x.at + n * c->image, c->packed, c->bias.at,
                          c->out.at + n * c->pooled, relu ? NULL : c->least.at + n * c->pooled,
                          c->where + n * c->where_bytes, c->space);
    for (int64_t i = 0; i < c->count * c->pooled; i++) {
        const lkt_pooled expected = pooled_of(c, i, relu);
        lkt_same(v, "out", c->out.at + i, &expected.high, 1);
        if (!relu) lkt_same(v, "least", c->least.at + i, &expected.low, 1);
        assert_int_equal(where_of(c, i), expected.where);
    }
}

/* Of what an activation might make of both, numbers here, the larger; filters are cut behind whole vectors. */
static void check_choice(const lki_vector *v, const block_case *c)
{
    const size_t bytes = sizeof(float) * (size_t)(c->count * c->pooled);
    const int64_t cut[] = {0, c->s.filters / 16 * 16, c->s.filters};
    float *result = lkt_scratch(bytes);
    memcpy(result, c->d_out.at, bytes);
    run_forward(v, c, false);
    for (int64_t n = 0; n < c->count; n++)
        for (int part = 0; part < 2; part++)
            v->block->choose(&c->s, cut[part], cut[part + 1], result + n * c->pooled,
                             c->other.at + n * c->pooled, c->out.at + n * c->pooled,
                             c->least.at + n * c->pooled, c->where + n * c->where_bytes);
    for (int64_t i = 0; i < c->count * c->pooled; i++) {
        const lkt_pooled of = pooled_of(c, i, false);
        const bool lower = c->other.at[i] > c->d_out.at[i];
        lkt_same(v, "result", result + i, (lower ? c->other.at : c->d_out.at) + i, 1);
        lkt_same(v, "chosen", c->out.at + i, lower ? &of.low : &of.high, 1);
        assert_int_equal(where_of(c, i), lower ? of.where / 16 : of.where % 16);
    }
    free(result);
}

/* Strips of pooled rows, and how many of them are a block of d_weight: the documented rules. */
static int64_t strip_rows(const block_case *c)
{
    const int64_t row = c->s.in_columns * c->s.channels * 4;
    const int64_t under = 28 * 1024 / row - c->s.kernel[0] + 1;
    const int64_t rows = (under - c->s.window + c->s.step) / c->s.step;
    return rows < 1 ? 1 : rows < c->s.rows ? rows : c->s.rows;
}

static void check_weight(const lki_vector *v, const block_case *c)
{
    const int64_t strip = strip_rows(c), strips = (c->s.rows + strip - 1) / strip;
    const int64_t each = (255 + strip * c->s.columns) / (strip * c->s.columns);
    const float *found = v->block->gradient(&c->s, c->count, c->sums);
    for (int64_t i = 0; i < c->weights + c->s.filters; i++) {
        const bool bias = i >= c->weights;
        const int64_t f = bias ? i - c->weights : i / (c->s.kernel[0] * c->run);
        double total = 0;
        float block = 0;
        int64_t number = 0;
        for (int64_t n = 0; n < c->count; n++)
            for (int64_t w = 0; w < c->s.rows * c->s.columns; w++) {
                const int64_t at = n * c->pooled + w * c->s.filters + f, place = where_of(c, at);
                const int64_t now = (n * strips + w / c->s.columns / strip) / each;
                if (now != number) total += (double)block, block = 0, number = now;
                if (place >= LKI_BLOCK_OFF) continue;
                const float d = c->d_out.at[at] * 1.5f;
                const int64_t x = n * c->image + under(c, row_of(c, w, place),
                                                       column_of(c, w, place),
                                                       i / c->run % c->s.kernel[0]);
                if (bias)
                    total += (double)d;
                else
                    block = fmaf(d, c->x.at[x + i % c->run], block);
            }
        const float expected = lki_flush((float)(total + (double)block));
        lkt_same(v, bias ? "d_bias" : "d_weight", found + i, &expected, 1);
    }
}

/* The sum over filters of a place's units, added to what lies under kernel row kh. */
static void add_place(const block_case *c, int64_t n, int64_t w, int64_t place, int64_t kh,
                      float *d_x)
{
    float *to = d_x + under(c, row_of(c, w, place), column_of(c, w, place), kh);
    for (int64_t k = 0; k < c->run; k++) {
        float sum = 0;
        for (int64_t f = 0; f < c->s.filters; f++) {
            const int64_t at = n * c->pooled + w * c->s.filters + f;
            if (where_of(c, at) != place) continue;
            sum = fmaf(c->d_out.at[at] * 1.5f, weight_of(c, f, kh, k), sum);
        }
        to[k] += sum;
    }
}

/* Window by window, place by place, and under each kernel row by kernel row; or kernel rows in the outer
 * loop, where they are large: the documented rule. */
static void add_data(const block_case *c, int64_t n, int64_t first, int64_t rows, float *d_x)
{
    const int64_t kernel = c->s.kernel[0], places = c->s.window * c->s.window;
    const bool together = (c->run + 15) / 16 * kernel <= 12 && c->weights <= 6144;
    for (int64_t outer = 0; outer < (together ? 1 : kernel); outer++)
        for (int64_t p = places * first * c->s.columns; p < places * (first + rows) * c->s.columns;
             p++)
            for (int64_t kh = outer; kh < (together ? kernel : outer + 1); kh++)
                add_place(c, n, p / places, p % places, kh, d_x);
}

/* The gradients of all images, of both or of one alone. */
static void run_backward(const lki_vector *v, const block_case *c, bool weight, bool data)
{
    for (int64_t n = 0; n < c->count; n++)
        v->block->backward(&c->s,
                           &(lki_block_backward){.x = c->x.at + n * c->image,
                                                 .where = c->where + n * c->where_bytes,
                                                 .d_out = c->d_out.at + n * c->pooled,
                                                 .scale = 1.5f,
                                                 .packed = c->packed,
                                                 .sample = n,
                                                 .sums = weight ? c->sums : NULL,
                                                 .d_x = data ? c->d_x.at + n * c->image : NULL,
                                                 .workspace = c->space});
    if (weight) check_weight(v, c);
}

static void check_backward(const lki_vector *v, block_case *c, bool weight)
{
    const int64_t strip = strip_rows(c), all = c->count * c->image + lki_block_slack(&c->s);
    float *expected = lkt_scratch(sizeof(float) * (size_t)all);
    memcpy(expected, c->d_x.at, sizeof(float) * (size_t)all);
    run_backward(v, c, weight, true);
    for (int64_t n = 0; n < c->count; n++)
        for (int64_t first = 0; first < c->s.rows; first += strip)
            add_data(c, n, first, c->s.rows - first < strip ? c->s.rows - first : strip,
                     expected + n * c->image);
    for (int64_t i = 0; i < c->count * c->image; i++) expected[i] = lki_flush(expected[i]);
    lkt_same(v, "d_x", c->d_x.at, expected, all);
    free(expected);
}

/* Of the pooled values: all pass a gradient on, none, or those that a random number says. */
typedef enum activity { EVERY, NONE, SOME } activity;

static void activate(block_case *c, lkt_random *random, activity how)
{
    for (int64_t i = 0; i < c->count * c->where_bytes; i++) {
        if (how == NONE || (how == SOME && lkt_random_below(random, 2) == 0))
            c->where[i] = (uint8_t)(c->where[i] % LKI_BLOCK_OFF | LKI_BLOCK_OFF);
        else if (c->where[i] == LKI_BLOCK_OFF)
            c->where[i] = 0;
    }
}

static void check_shape(const lki_vector *v, lkt_random *random, lki_block_shape s, bool thorough)
{
    block_case c = block_make(v, random, s);
    check_choice(v, &c);
    run_forward(v, &c, true);
    check_backward(v, &c, true);
    for (activity how = EVERY; thorough && how <= SOME; how++) {
        activate(&c, random, how);
        if (how != NONE) run_backward(v, &c, true, false);
        check_backward(v, &c, how != EVERY);
    }
    block_free(&c);
}

static const int64_t pools[][2] = {{2, 2}, {3, 2}, {3, 3}};

static void blocks(void **state)
{
    static const lki_block_shape shapes[] = {
        {.channels = 16, .kernel = {3, 3}, .filters = 32, .rows = 3, .columns = 4},
        {.channels = 32, .kernel = {3, 3}, .filters = 64, .rows = 5, .columns = 12},
        {.channels = 48, .kernel = {2, 5}, .filters = 32, .rows = 2, .columns = 3},
        {.channels = 16, .kernel = {1, 1}, .filters = 96, .rows = 9, .columns = 13},
        {.channels = 112, .kernel = {4, 3}, .filters = 32, .rows = 4, .columns = 7},
        {.channels = 16, .kernel = {5, 1}, .filters = 32, .rows = 1, .columns = 280},
        {.channels = 16, .kernel = {2, 2}, .filters = 32, .rows = 40, .columns = 1},
        {.channels = 5,
         .kernel = {3, 3},
         .filters = 6,
         .rows = 9,
         .columns = 60,
         .window = 3,
         .step = 2},
        {.channels = 57, .kernel = {3, 3}, .filters = 11, .rows = 3, .columns = 3},
    };
    lkt_random random = lkt_random_make("blocks", 97);
    (void)state;
    LKT_FOR_ISAS(v)
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        lki_block_shape s = shapes[k];
        if (s.window == 0) s.window = s.step = 2;
        check_shape(v, &random, s, false);
    }
}

/* Any channels and filters, kernels of 1 x 1 to 7 x 7, each pool; one pixel among them. */
static void small_blocks(void **state)
{
    lkt_random random = lkt_random_make("small blocks", 98);
    (void)state;
    for (int k = 0; k < 36; k++) {
        const int64_t *pool = pools[lkt_random_below(&random, 3)];
        const int64_t widest = k % 3 == 0 ? 50 : 9;
        const lki_block_shape s = {
            .channels = k % 4 == 1 ? 1 : lkt_random_from(&random, 1, widest),
            .kernel = {lkt_random_from(&random, 1, 7), lkt_random_from(&random, 1, 7)},
            .filters = lkt_random_from(&random, 1,
                                       k % 4 == 0   ? 70
                                       : k % 4 == 1 ? 8
                                                    : 20),
            .rows = lkt_random_from(&random, 1, 4),
            .columns = lkt_random_from(&random, 1, 9),
            .window = pool[0],
            .step = pool[1]};
        LKT_FOR_ISAS(v)
        check_shape(v, &random, s, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks), cmocka_unit_test(small_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
