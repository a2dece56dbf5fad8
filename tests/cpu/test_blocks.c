/*
 * Convolution + relu + max-pooling in one pass (vector/block.c) against its definition in bits: scalar
 * loops that take the terms of every sum in the written order, whatever the width of vectors. Runs of
 * kernel columns x channels are longer and shorter than what registers hold at a time.
 */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

typedef struct block_case {
    lki_block_shape s;
    int64_t count, image, pooled, run, weights;
    lkt_floats x, w, bias, d_out, out, d_x;
    uint8_t *where;
    void *packed, *space, *sums;
} block_case;

static block_case block_make(const lki_vector *v, lkt_random *random, lki_block_shape s)
{
    block_case c = {.s = s, .count = lkt_random_from(random, 1, 5)};
    c.s.in_rows = 2 * s.rows + s.kernel[0] - 1 + lkt_random_below(random, 2);
    c.s.in_columns = 2 * s.columns + s.kernel[1] - 1 + lkt_random_below(random, 2);
    c.image = c.s.in_rows * c.s.in_columns * s.channels;
    c.pooled = s.rows * s.columns * s.filters;
    c.run = s.kernel[1] * s.channels;
    c.weights = s.filters * s.kernel[0] * c.run;
    c.x = lkt_floats_make(random, c.count * c.image);
    c.w = lkt_floats_make(random, c.weights);
    c.bias = lkt_floats_make(random, s.filters);
    c.d_out = lkt_floats_make(random, c.count * c.pooled);
    c.out = lkt_floats_make(random, c.count * c.pooled);
    c.d_x = lkt_floats_make(random, c.count * c.image);
    c.where = lkt_scratch((size_t)(c.count * c.pooled));
    c.packed = lkt_scratch(v->block->packed_bytes(&c.s));
    c.space = lkt_scratch(v->block->workspace_bytes(&c.s));
    c.sums = lkt_scratch(v->block->sums_bytes(&c.s));
    for (int part = 0; part < 3; part++) v->block->pack(&c.s, c.w.at, c.packed, part, 3);
    return c;
}

static void block_free(block_case *c)
{
    lkt_floats *all[] = {&c->x, &c->w, &c->bias, &c->d_out, &c->out, &c->d_x};
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

static void check_forward(const lki_vector *v, const block_case *c)
{
    for (int64_t n = 0; n < c->count; n++)
        v->block->forward(&c->s, c->x.at + n * c->image, c->packed, c->bias.at,
                          c->out.at + n * c->pooled, c->where + n * c->pooled, c->space);
    for (int64_t i = 0; i < c->count * c->pooled; i++) {
        const int64_t f = i % c->s.filters, window = i / c->s.filters % (c->s.rows * c->s.columns);
        float best = 0;
        int place = LKI_BLOCK_OFF;
        for (int p = 0; p < 4; p++) {
            const float y = convolution(c, c->x.at + i / c->pooled * c->image,
                                        window / c->s.columns * 2 + p / 2,
                                        window % c->s.columns * 2 + p % 2, f);
            if (y >= LKI_TINY && y > best) best = y, place = p;
        }
        lkt_same(v, "out", c->out.at + i, &best, 1);
        assert_int_equal(c->where[i], place);
    }
}

/* Strips of pooled rows, and how many of them are a block of d_weight: the documented rules. */
static int64_t strip_rows(const block_case *c)
{
    const int64_t row = c->s.in_columns * c->s.channels * 4;
    const int64_t rows = (28 * 1024 / row - c->s.kernel[0] + 1) / 2;
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
                const int64_t at = n * c->pooled + w * c->s.filters + f, place = c->where[at];
                const int64_t now = (n * strips + w / c->s.columns / strip) / each;
                if (now != number) total += (double)block, block = 0, number = now;
                if (place == LKI_BLOCK_OFF) continue;
                const float d = c->d_out.at[at] * 1.5f;
                const int64_t x = n * c->image + under(c, w / c->s.columns * 2 + place / 2,
                                                       w % c->s.columns * 2 + place % 2,
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

/* For each kernel row, window and place the sum over filters, added to the pixels. */
static void add_data(const block_case *c, int64_t n, int64_t first, int64_t rows, float *d_x)
{
    for (int64_t kh = 0; kh < c->s.kernel[0]; kh++)
        for (int64_t p = 4 * first * c->s.columns; p < 4 * (first + rows) * c->s.columns; p++) {
            const int64_t w = p / 4, place = p % 4;
            float *to = d_x + under(c, w / c->s.columns * 2 + place / 2,
                                    w % c->s.columns * 2 + place % 2, kh);
            for (int64_t k = 0; k < c->run; k++) {
                float sum = 0;
                for (int64_t f = 0; f < c->s.filters; f++) {
                    const int64_t at = n * c->pooled + w * c->s.filters + f;
                    if (c->where[at] != place) continue;
                    sum = fmaf(c->d_out.at[at] * 1.5f, weight_of(c, f, kh, k), sum);
                }
                to[k] += sum;
            }
        }
}

static void check_backward(const lki_vector *v, block_case *c)
{
    const int64_t strip = strip_rows(c);
    float *expected = lkt_scratch(sizeof(float) * (size_t)(c->count * c->image));
    memcpy(expected, c->d_x.at, sizeof(float) * (size_t)(c->count * c->image));
    for (int64_t n = 0; n < c->count; n++) {
        v->block->backward(&c->s, &(lki_block_backward){.x = c->x.at + n * c->image,
                                                        .where = c->where + n * c->pooled,
                                                        .d_out = c->d_out.at + n * c->pooled,
                                                        .scale = 1.5f,
                                                        .packed = c->packed,
                                                        .sample = n,
                                                        .sums = c->sums,
                                                        .d_x = c->d_x.at + n * c->image,
                                                        .workspace = c->space});
        for (int64_t first = 0; first < c->s.rows; first += strip)
            add_data(c, n, first, c->s.rows - first < strip ? c->s.rows - first : strip,
                     expected + n * c->image);
    }
    for (int64_t i = 0; i < c->count * c->image; i++) expected[i] = lki_flush(expected[i]);
    lkt_same(v, "d_x", c->d_x.at, expected, c->count * c->image);
    free(expected);
    check_weight(v, c);
}

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
    };
    lkt_random random = lkt_random_make("blocks", 97);
    (void)state;
    LKT_FOR_ISAS(v)
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        block_case c = block_make(v, &random, shapes[k]);
        check_forward(v, &c);
        check_backward(v, &c);
        block_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
