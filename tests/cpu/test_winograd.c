/*
 * Winograd's convolutions against their definition in bits (docs/numerics.md, 3): scalar transforms, and products
 * summed over channels in blocks of 64, groups of 16 blocks and double. Images of a pixel, tiles over every border,
 * channels and filters of any number, several images, and strips that end anywhere.
 */
#include "cpu/products.h"
#include "cpu/winograd_lines.h"

#ifdef LKT_HAVE_CPU

typedef struct wino_case {
    lki_conv_shape s;
    int64_t count, x_size, y_size;
    lkt_floats x, w, bias, d_y;
    void *packed, *space;
} wino_case;

static void weight_of(const wino_case *c, int64_t f, int64_t channel, bool reversed, float *u)
{
    const form k = form_of(c->s.winograd, c->s.kernel[0]);
    const int taps = k.kernel * k.kernel;
    double g[36] = {0};
    for (int t = 0; t < taps; t++)
        g[t / k.kernel * 6 + t % k.kernel] =
            (double)c->w.at[(f * c->s.channels + channel) * taps + (reversed ? taps - 1 - t : t)];
    for (int j = 0; j < k.kernel; j++) line_weight(k, g + j, 6);
    for (int i = 0; i < k.size; i++) line_weight(k, g + 6 * i, 1);
    for (int i = 0; i < 36; i++) u[i] = lki_flush((float)g[i]);
}

/* Of an image of so many pixels and channels the patch that begins at a pixel, of a tile of n x m pixels. */
static void patch_of(form k, const int n[2], const float *image, const int64_t in[2],
                     int64_t channels, int64_t channel, int64_t row, int64_t column, float *v)
{
    for (int i = 0; i < 36; i++) {
        const int64_t y = row + i / 6, x = column + i % 6;
        const bool there = y >= 0 && y < in[0] && x >= 0 && x < in[1];
        v[i] = there ? image[(y * in[1] + x) * channels + channel] : 0;
    }
    const int more = k.kernel - 1;
    for (int i = 0; i < n[0] + more; i++) line_in(k.size, n[1] + more, v + 6 * i, 1);
    for (int j = 0; j < k.size; j++)
        if (has_point(k, n[1], j)) line_in(k.size, n[0] + more, v + j, 6);
    for (int i = 0; i < 36; i++) v[i] = lki_flush(v[i]);
}

/* Of the 6 x 6 places of a tile. */
static bool has_place(form k, const int n[2], int place)
{
    return place / 6 < k.size && place % 6 < k.size && has_point(k, n[0], place / 6) &&
           has_point(k, n[1], place % 6);
}

/* A whole pass, without what comes behind the sums: y is [count][out][columns], u [depth][columns][36]. */
static void definition(form k, int64_t count, const float *x, const int64_t in[2], int64_t depth,
                       const int64_t before[2], const float *u, const int64_t out[2],
                       int64_t columns, float *y)
{
    float *v = lkt_scratch(sizeof(float) * (size_t)(36 * depth));
    for (int64_t n = 0; n < count; n++)
        for (int64_t row = 0; row < out[0]; row += k.side)
            for (int64_t column = 0; column < out[1]; column += k.side) {
                const int size[2] = {pixels_at(k.side, row, out[0]),
                                     pixels_at(k.side, column, out[1])};
                for (int64_t d = 0; d < depth; d++)
                    patch_of(k, size, x + n * in[0] * in[1] * depth, in, depth, d, row - before[0],
                             column - before[1], v + 36 * d);
                for (int64_t f = 0; f < columns; f++) {
                    float m[36] = {0};
                    for (int i = 0; i < 36; i++) {
                        if (!has_place(k, size, i)) continue;
                        sum s = sum_of(LKI_NARROW);
                        for (int64_t d = 0; d < depth; d++)
                            add_term(&s, d, v[36 * d + i], u[(d * columns + f) * 36 + i]);
                        m[i] = total_of(&s);
                    }
                    for (int i = 0; i < k.size; i++) line_out(k, size[1], m + 6 * i, 1);
                    for (int j = 0; j < size[1]; j++) line_out(k, size[0], m + j, 6);
                    for (int64_t i = 0; i < size[0]; i++)
                        for (int64_t j = 0; j < size[1]; j++)
                            y[((n * out[0] + row + i) * out[1] + column + j) * columns + f] =
                                m[i * 6 + j];
                }
            }
    free(v);
}

enum { MANY = 70 };

/* `large`: more than 256 channels, where a patch is looked up anew; `images`: MANY for more than a group of tiles, 0 for a few. */
static wino_case wino_make(const lki_vector *v, lkt_random *random, form k, bool large,
                           int64_t images)
{
    const bool many = images > 0;
    const int64_t reach = k.kernel - 1;
    wino_case c = {.count = many ? images : lkt_random_from(random, 1, 3)};
    c.s = (lki_conv_shape){.groups = 1,
                           .channels = large ? 290 : lkt_random_from(random, 16, many ? 18 : 40),
                           .filters = lkt_random_from(random, 16, many ? 18 : 70),
                           .bias = true,
                           .winograd = k.side};
    for (int i = 0; i < 2; i++) {
        c.s.padding[i] = lkt_random_below(random, k.kernel + 1);
        c.s.in[i] = lkt_random_from(random, c.s.padding[i] < reach / 2 ? k.kernel : 1,
                                    large ? 12 : 9);
        if (many) c.s.in[i] = 12, c.s.padding[i] = 2;
        c.s.out[i] = c.s.in[i] + 2 * c.s.padding[i] - reach;
        c.s.kernel[i] = k.kernel;
        c.s.stride[i] = c.s.dilation[i] = 1;
    }
    c.x_size = c.s.in[0] * c.s.in[1] * c.s.channels;
    c.y_size = c.s.out[0] * c.s.out[1] * c.s.filters;
    c.x = lkt_floats_make(random, c.count * c.x_size);
    c.d_y = lkt_floats_make(random, c.count * c.y_size);
    c.w = lkt_floats_make(random, c.s.filters * c.s.channels * k.kernel * k.kernel);
    c.bias = lkt_floats_make(random, c.s.filters);
    c.packed = lkt_scratch(v->winograd->packed_bytes(&c.s));
    c.space = lkt_scratch(v->winograd->workspace_bytes(&c.s, c.count));
    const int parts = (int)lkt_random_from(random, 1, 3);
    for (int part = 0; part < parts; part++) v->winograd->pack(&c.s, c.w.at, c.packed, part, parts);
    return c;
}

static void wino_free(wino_case *c)
{
    lkt_floats *all[] = {&c->x, &c->d_y, &c->w, &c->bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
    free(c->packed);
    free(c->space);
}

/* U of all filters and channels: [channel][filter][36], or for the data gradient [filter][channel][36]. */
static float *all_weights(const wino_case *c, bool backward)
{
    float *u = lkt_scratch(sizeof(float) * (size_t)(36 * c->s.channels * c->s.filters));
    for (int64_t f = 0; f < c->s.filters; f++)
        for (int64_t d = 0; d < c->s.channels; d++)
            weight_of(c, f, d, backward,
                      u + 36 * (backward ? f * c->s.channels + d : d * c->s.filters + f));
    return u;
}

/* In two calls, with and without relu; and with moments of columns. */
static void check_forward(const lki_vector *v, const wino_case *c, lkt_random *random)
{
    const int64_t n = c->count * c->y_size, cut = lkt_random_below(random, c->count);
    const bool relu = lkt_random_bits(random) & 1;
    lkt_floats y = lkt_floats_make(random, n);
    float *u = all_weights(c, false), *expected = lkt_scratch(sizeof(float) * (size_t)n);
    double *sums = calloc((size_t)c->s.filters * 4, sizeof *sums);
    const lki_norm_moments moments = {.pivot = y.at, .sum = sums, .square = sums + c->s.filters};
    const form k = form_of(c->s.winograd, c->s.kernel[0]);
    definition(k, c->count, c->x.at, c->s.in, c->s.channels, c->s.padding, u, c->s.out,
               c->s.filters, expected);
    for (int64_t i = 0; i < n; i++) {
        expected[i] = lki_flush(expected[i] + c->bias.at[i % c->s.filters]);
        const double away = (double)expected[i] - (double)expected[i % c->s.filters];
        sums[i % c->s.filters + 2 * c->s.filters] += away;
        sums[i % c->s.filters + 3 * c->s.filters] += away * away;
    }
    v->winograd->forward_moments(&c->s, c->count, c->x.at, (lki_conv_weight){c->w.at, c->packed},
                                 c->bias.at, y.at, &moments, c->space);
    lkt_same(v, "y", y.at, expected, n);
    assert_memory_equal(sums, sums + 2 * c->s.filters, sizeof *sums * (size_t)c->s.filters * 2);
    for (int64_t i = 0; i < n && relu; i++) expected[i] = expected[i] > 0 ? expected[i] : 0;
    v->winograd->forward(&c->s, cut, c->x.at, (lki_conv_weight){c->w.at, c->packed}, c->bias.at,
                         relu, y.at, c->space);
    v->winograd->forward(&c->s, c->count - cut, c->x.at + cut * c->x_size,
                         (lki_conv_weight){c->w.at, c->packed}, c->bias.at, relu,
                         y.at + cut * c->y_size, c->space);
    lkt_same(v, "y in pieces", y.at, expected, n);
    lkt_floats_free(&y);
    free(u);
    free(expected);
    free(sums);
}

static void check_data(const lki_vector *v, const wino_case *c, bool add, lkt_random *random)
{
    const int64_t n = c->count * c->x_size;
    const form k = form_of(c->s.winograd, c->s.kernel[0]);
    const int64_t before[2] = {k.kernel - 1 - c->s.padding[0], k.kernel - 1 - c->s.padding[1]};
    lkt_floats d_x = lkt_floats_make(random, n);
    float *u = all_weights(c, true), *expected = lkt_scratch(sizeof(float) * (size_t)n);
    definition(k, c->count, c->d_y.at, c->s.out, c->s.filters, before, u, c->s.in, c->s.channels,
               expected);
    for (int64_t i = 0; i < n; i++)
        expected[i] = lki_flush(add ? d_x.at[i] + expected[i] : expected[i]);
    v->winograd->backward(&c->s, c->count, c->d_y.at, (lki_conv_weight){c->w.at, c->packed}, d_x.at,
                          add, c->space);
    lkt_same(v, "d_x", d_x.at, expected, n);
    lkt_floats_free(&d_x);
    free(u);
    free(expected);
}

/* One channel and filter: terms are the tiles of the replica. */
static void weight_definition(const wino_case *c, int64_t channel, int64_t f, float taps[9])
{
    const int side = c->s.winograd;
    const form k = form_of(side, 3);
    sum sums[36];
    double u[36];
    int64_t number = 0;
    for (int i = 0; i < 36; i++) sums[i] = sum_of(LKI_NARROW);
    for (int64_t n = 0; n < c->count; n++)
        for (int64_t row = 0; row < c->s.out[0]; row += side)
            for (int64_t column = 0; column < c->s.out[1]; column += side, number++) {
                const int size[2] = {pixels_at(side, row, c->s.out[0]),
                                     pixels_at(side, column, c->s.out[1])};
                float v[36], y[36] = {0};
                patch_of(k, size, c->x.at + n * c->x_size, c->s.in, c->s.channels, channel,
                         row - c->s.padding[0], column - c->s.padding[1], v);
                for (int64_t i = 0; i < size[0]; i++)
                    for (int64_t j = 0; j < size[1]; j++)
                        y[i * 6 + j] =
                            c->d_y.at[n * c->y_size +
                                      ((row + i) * c->s.out[1] + column + j) * c->s.filters + f];
                for (int i = 0; i < size[0]; i++) line_gradient(side, size[1], y + 6 * i, 1);
                for (int j = 0; j < side + 2; j++) line_gradient(side, size[0], y + j, 6);
                for (int i = 0; i < 36; i++)
                    if (has_place(k, size, i)) add_term(&sums[i], number, v[i], lki_flush(y[i]));
            }
    for (int i = 0; i < 36; i++) u[i] = (double)total_of(&sums[i]);
    for (int j = 0; j < side + 2; j++) line_taps(side, u + j, 6);
    for (int i = 0; i < 3; i++) line_taps(side, u + 6 * i, 1);
    for (int t = 0; t < 9; t++) taps[t] = lki_flush((float)u[t / 3 * 6 + t % 3]);
}

static void check_weight(const lki_vector *v, const wino_case *c, lkt_random *random)
{
    /* All at once is a way of its own. */
    const int64_t piece = c->count < MANY && c->count > 3 ? c->count
                                                          : lkt_random_from(random, 1, c->count);
    lkt_floats d_w = lkt_floats_make(random, c->w.count);
    lkt_floats d_b = lkt_floats_make(random, c->s.filters);
    void *sums = lkt_scratch(v->winograd->sums_bytes(&c->s));
    for (int64_t n = 0, count; n < c->count; n += count) {
        count = c->count - n < piece ? c->count - n : piece;
        v->winograd->backward_weight(&c->s, count,
                                     &(lki_conv_gradient){.x = c->x.at + n * c->x_size,
                                                          .d_y = c->d_y.at + n * c->y_size,
                                                          .sample = n,
                                                          .last = n + count == c->count,
                                                          .sums = sums,
                                                          .d_weight = d_w.at,
                                                          .d_bias = d_b.at,
                                                          .workspace = c->space});
    }
    for (int64_t f = 0; f < c->s.filters; f++) {
        double bias = 0;
        for (int64_t i = f; i < c->count * c->y_size; i += c->s.filters)
            bias += (double)c->d_y.at[i];
        const float expected = lki_flush((float)bias);
        lkt_same(v, "d_bias", d_b.at + f, &expected, 1);
        for (int64_t channel = f % 5; channel < c->s.channels; channel += 7) {
            float taps[9];
            weight_definition(c, channel, f, taps);
            lkt_same(v, "d_w", d_w.at + (f * c->s.channels + channel) * 9, taps, 9);
        }
    }
    lkt_floats_free(&d_w);
    lkt_floats_free(&d_b);
    free(sums);
}

static void convolutions(void **state)
{
    lkt_random random = lkt_random_make("winograd", 131);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < cases() / 2; k++) {
        const form tile = form_of(k % 2 == 0 ? 4 : 2, 3);
        wino_case c = wino_make(v, &random, tile, k < 2,
                                k == 4 || k == 5   ? MANY
                                : k == 2 || k == 3 ? 11 - 2 * k /* 7 and 5: 2 and 4 blocks */
                                                   : 0);
        check_forward(v, &c, &random);
        check_data(v, &c, k % 3 == 0, &random);
        check_weight(v, &c, &random);
        wino_free(&c);
    }
}

/* Of 5 x 5 taps; their gradient is formed directly, as cpu/convolutions holds it. */
static void five_taps(void **state)
{
    lkt_random random = lkt_random_make("winograd of 5 taps", 134);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < cases() / 2; k++) {
        wino_case c = wino_make(v, &random, form_of(2, 5), k == 0, k == 1 ? 5 : 0);
        check_forward(v, &c, &random);
        check_data(v, &c, k % 3 == 0, &random);
        wino_free(&c);
    }
}

/* A weight that is larger than caches: strips are longer then, of which samples one by one fill none. */
static void large_weights(void **state)
{
    enum { COUNT = 50, SIDE = 8, CHANNELS = 96, FILTERS = 928 };
    lkt_random random = lkt_random_make("winograd large", 133);
    const lki_conv_shape s = {.groups = 1,
                              .channels = CHANNELS,
                              .filters = FILTERS,
                              .in = {SIDE, SIDE},
                              .out = {SIDE, SIDE},
                              .kernel = {3, 3},
                              .stride = {1, 1},
                              .padding = {1, 1},
                              .dilation = {1, 1},
                              .winograd = 4};
    const int64_t in = SIDE * SIDE * CHANNELS, out = SIDE * SIDE * FILTERS;
    const lki_vector *v = lki_cpu_vector();
    lkt_floats x = lkt_floats_make(&random, COUNT * in);
    lkt_floats w = lkt_floats_make(&random, FILTERS * CHANNELS * 9);
    float *all = lkt_scratch(sizeof(float) * (size_t)(COUNT * out));
    float *one = lkt_scratch(sizeof(float) * (size_t)(COUNT * out));
    void *packed = lkt_scratch(v->winograd->packed_bytes(&s));
    void *space = lkt_scratch(v->winograd->workspace_bytes(&s, COUNT));
    v->winograd->pack(&s, w.at, packed, 0, 1);
    v->winograd->forward(&s, COUNT, x.at, (lki_conv_weight){w.at, packed}, NULL, false, all, space);
    for (int64_t i = 0; i < COUNT; i++)
        v->winograd->forward(&s, 1, x.at + i * in, (lki_conv_weight){w.at, packed}, NULL, false,
                             one + i * out, space);
    lkt_same(v, "y", all, one, COUNT * out);
    lkt_floats_free(&x);
    lkt_floats_free(&w);
    (void)state;
    void *const made[] = {all, one, packed, space};
    for (int i = 0; i < 4; i++) free(made[i]);
}

/* A piece may have fewer images than its memory was made for, and then longer strips: 4 of 14 tiles are two strips of 28, 3
 * one of 42. */
static void fewer_images_need_no_more(void **state)
{
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t columns = 4; columns <= 64; columns += 4) {
        lki_conv_shape s = {.groups = 1,
                            .channels = 64,
                            .filters = 64,
                            .in = {8, columns},
                            .out = {8, columns},
                            .kernel = {3, 3},
                            .stride = {1, 1},
                            .padding = {1, 1},
                            .dilation = {1, 1},
                            .winograd = 4};
        for (int64_t count = 1; count < 16; count++)
            assert_true(v->winograd->workspace_bytes(&s, count) <=
                        v->winograd->workspace_bytes(&s, count + 1));
    }
}

/* The fused kernel of block.c: the same sums, then bias, relu and the maximum of each window. Sums of windows of 2 x 2 are those
 * of tiles that end with the last window, others those of the whole image. */
static void check_block(const lki_vector *v, lkt_random *random, form k, int window, int step)
{
    lki_block_shape s = {.channels = lkt_random_from(random, 16, 48),
                         .kernel = {k.kernel, k.kernel},
                         .filters = lkt_random_from(random, 16, 70),
                         .rows = lkt_random_from(random, 1, 7),
                         .columns = lkt_random_from(random, 1, 7),
                         .window = window,
                         .step = step,
                         .winograd = k.side};
    const int64_t under[2] = {(s.rows - 1) * step + window, (s.columns - 1) * step + window};
    const int64_t more[2] = {lkt_random_below(random, step), lkt_random_below(random, step)};
    const int64_t in[2] = {under[0] + more[0] + k.kernel - 1, under[1] + more[1] + k.kernel - 1};
    const int64_t out[2] = {under[0] + (window == 2 ? 0 : more[0]),
                            under[1] + (window == 2 ? 0 : more[1])};
    const int64_t none[2] = {0, 0}, n = s.rows * s.columns * s.filters;
    const int64_t all = out[0] * out[1] * s.filters;
    s.in_rows = in[0];
    s.in_columns = in[1];
    wino_case c = {.s = {.groups = 1,
                         .channels = s.channels,
                         .filters = s.filters,
                         .kernel = {k.kernel, k.kernel},
                         .winograd = k.side},
                   .count = 1};
    c.x = lkt_floats_make(random, in[0] * in[1] * s.channels);
    c.w = lkt_floats_make(random, k.kernel * k.kernel * s.channels * s.filters);
    c.bias = lkt_floats_make(random, s.filters);
    lkt_floats y = lkt_floats_make(random, n), least = lkt_floats_make(random, n);
    const bool relu = lkt_random_below(random, 2) == 0;
    uint8_t *where = lkt_scratch((size_t)(s.rows * s.columns * lki_block_where(&s)));
    void *packed = lkt_scratch(v->block->packed_bytes(&s));
    void *space = lkt_scratch(v->block->workspace_bytes(&s));
    float *u = all_weights(&c, false), *sums = lkt_scratch(sizeof(float) * (size_t)all);
    for (int part = 0; part < 2; part++) v->block->pack(&s, c.w.at, packed, part, 2);
    s.parts = (int)lkt_random_from(random, 1, 3);
    for (s.part = 0; s.part < s.parts; s.part++) {
        memset(space, 0x7f,
               v->block->workspace_bytes(&s)); /* what another part left is not there */
        v->block->forward(&s, c.x.at, packed, c.bias.at, y.at, relu ? NULL : least.at, where,
                          space);
    }
    definition(k, 1, c.x.at, in, s.channels, none, u, out, s.filters, sums);
    for (int64_t i = 0; i < n; i++) {
        const int64_t f = i % s.filters, at = i / s.filters;
        float from[9];
        for (int p = 0; p < window * window; p++) {
            const int64_t row = at / s.columns * step + p / window;
            const int64_t column = at % s.columns * step + p % window;
            from[p] = sums[(row * out[1] + column) * s.filters + f] + c.bias.at[f];
        }
        const lkt_pooled expected = lkt_pool(from, window * window, relu);
        lkt_same(v, "pooled", y.at + i, &expected.high, 1);
        if (!relu) lkt_same(v, "least", least.at + i, &expected.low, 1);
        assert_int_equal(where[at * lki_block_where(&s) + f], expected.where);
    }
    lkt_floats *floats[] = {&c.x, &c.w, &c.bias, &y, &least};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) lkt_floats_free(floats[i]);
    void *const made[] = {where, packed, space, u, sums};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) free(made[i]);
}

static void blocks(void **state)
{
    static const int windows[][2] = {{2, 2}, {3, 2}, {3, 3}};
    lkt_random random = lkt_random_make("winograd blocks", 132);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < cases() / 2; k++) {
        const int *window = windows[k / 2 % 3];
        if (window[0] == 2) check_block(v, &random, form_of(k % 2 == 0 ? 4 : 2, 3), 2, 2);
        check_block(v, &random, form_of(2, 5), window[0], window[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(five_taps),
                                       cmocka_unit_test(blocks), cmocka_unit_test(large_weights),
                                       cmocka_unit_test(fewer_images_need_no_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
