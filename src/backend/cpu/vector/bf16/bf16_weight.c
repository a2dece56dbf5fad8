/*
 * The gradient of the weight of a convolution whose factors are bfloat16.
 *
 * The terms of a sum are positions: pixels of the result, row by row, where a row has as many positions as the taps reach columns,
 * those beyond the result with a gradient of 0. Then what a tap reads of a channel follows position by position in a
 * plane of the image, shifted by the tap's place; a stride has a plane for each of its phases:
 *
 *     plane      x x x x x x | x x x x x x | ...      of a channel, in pairs as everywhere
 *     gradient   d d d d 0 0 | d d d d 0 0 | ...      of 32 filters, as b of bf16.h
 *
 * Products of pairs leave the zeros beyond rows out: quads are made of what is there of each chain (bf16_order).
 * Rows of a tile are 16 channels under a tap; taps that meet no pixel have none, as their gradient is 0. Sums wait as tiles
 * from piece to piece, [panel of filters][two of such rows].
 */
#include "backend/cpu/vector/bf16/bf16.h"

enum { STRIP_BYTES = 1 << 21 }; /* of images whose terms are added in turn */

typedef struct bf16_planes {
    bf16_taps taps[2];
    int64_t phases[2]; /* of the stride, which these taps see */
    int64_t reach[2];  /* places of the last tap */
    int64_t pitch;     /* positions of a row: as if no tap were left out */
    int64_t blocks;    /* of 32 positions of an image, */
    int64_t last;      /* and how many of the last one are there */
    int64_t length;    /* elements of a plane */
    int64_t groups;    /* of 16 channels */
    int64_t tiles;     /* of rows: taps times groups */
    int64_t panels;    /* of 32 filters */
} bf16_planes;

INLINE bf16_planes planes_of(const lki_conv_shape *s)
{
    bf16_planes p = {.groups = (s->channels + BF16_HALF - 1) / BF16_HALF,
                     .panels = (s->filters + BF16_SIDE - 1) / BF16_SIDE};
    for (int i = 0; i < 2; i++) {
        p.taps[i] = bf16_meeting(s->kernel[i], s->dilation[i], -s->padding[i], s->out[i],
                                 s->stride[i], s->in[i]);
        const int64_t last = (p.taps[i].count - 1) * s->dilation[i];
        p.phases[i] = last + 1 < s->stride[i] ? last + 1 : s->stride[i];
        p.reach[i] = last / s->stride[i];
    }
    p.pitch = s->out[1] + (s->kernel[1] - 1) * s->dilation[1] / s->stride[1];
    const int64_t positions = (s->out[0] - 1) * p.pitch + s->out[1];
    p.blocks = (positions + BF16_TERMS - 1) / BF16_TERMS;
    p.last = positions - (p.blocks - 1) * BF16_TERMS;
    const int64_t used = p.blocks * BF16_TERMS + p.reach[0] * p.pitch + p.reach[1];
    p.length = (used + BF16_TERMS - 1) / BF16_TERMS * BF16_TERMS;
    if (p.length % 512 == 0) p.length += BF16_TERMS; /* channels in other sets of the cache */
    p.tiles = p.taps[0].count * p.taps[1].count * p.groups;
    return p;
}

INLINE int64_t planes_elements(const bf16_planes *p)
{
    return p->phases[0] * p->phases[1] * p->groups * BF16_HALF * p->length;
}
INLINE int64_t gradient_elements(const bf16_planes *p)
{
    return p->blocks * BF16_BLOCK;
}

INLINE int64_t planes_strip(const bf16_planes *p, int64_t count)
{
    const int64_t each = planes_elements(p) + p->panels * gradient_elements(p);
    const int64_t most = STRIP_BYTES / 2 / each;
    return most < 1 ? 1 : most < count ? most : count;
}

/* Orders of an image's blocks: of products of pairs. */
INLINE int64_t orders_of(const lki_conv_shape *s, const bf16_planes *p)
{
    return s->unit == LKI_BF16_PAIRS ? p->blocks : 0;
}

size_t LKI_ISA_NAME(lki_bf16_weight_bytes)(const lki_conv_shape *s, int64_t count)
{
    const bf16_planes p = planes_of(s);
    const int64_t each = planes_elements(&p) + p.panels * gradient_elements(&p);
    return lki_plus(lki_times((size_t)planes_strip(&p, count), (size_t)each * sizeof(uint16_t)),
                    lki_times((size_t)orders_of(s, &p), sizeof(bf16_order)));
}

INLINE int64_t tile_pairs(const bf16_planes *p)
{
    return (p->tiles + 1) / 2;
}

INLINE int64_t sums_floats(const bf16_planes *p)
{
    return p->panels * tile_pairs(p) * BF16_SIDE * BF16_SIDE;
}

size_t LKI_ISA_NAME(lki_bf16_sums_bytes)(const lki_conv_shape *s)
{
    const bf16_planes p = planes_of(s);
    return (size_t)sums_floats(&p) * sizeof(float) + (size_t)s->filters * sizeof(double);
}

/* A position, as the place in its row and the row. */
typedef struct place {
    int64_t y, x;
} place;

INLINE place place_next(const bf16_planes *p, place at)
{
    return at.x + 1 < p->pitch ? (place){at.y, at.x + 1} : (place){at.y + 1, 0};
}

/* The source pixel at a position of a plane, or NULL for the border. */
INLINE const float *planes_source(const lki_conv_shape *s, const bf16_planes *p, const float *image,
                                  const int64_t phase[2], place at)
{
    const int64_t y = at.y * s->stride[0] + phase[0] + p->taps[0].first;
    const int64_t x = at.x * s->stride[1] + phase[1] + p->taps[1].first;
    return y < 0 || y >= s->in[0] || x < 0 || x >= s->in[1]
               ? NULL
               : image + (y * s->in[1] + x) * s->channels;
}

/* Pixels of so many positions are more streams than a processor foresees: the next but one of each is asked for. */
static void planes_fill(const lki_conv_shape *s, const bf16_planes *p, const float *image,
                        uint16_t *to)
{
    const float *from[BF16_TERMS];
    for (int64_t i = 0; i < p->phases[0] * p->phases[1]; i++) {
        const int64_t phase[2] = {i / p->phases[1], i % p->phases[1]};
        place next = {0, 0};
        for (int64_t at = 0; at < p->length; at += BF16_TERMS) {
            for (int64_t k = 0; k < BF16_TERMS; k++, next = place_next(p, next))
                from[k] = planes_source(s, p, image, phase, next);
            for (int64_t g = 0; g < p->groups; g++) {
                for (int64_t k = 0; k < BF16_TERMS; k++)
                    if (from[k] != NULL) __builtin_prefetch(from[k] + (g + 2) * BF16_HALF);
                bf16_turn_terms(from, g * BF16_HALF, s->channels, p->length,
                                to + (i * p->groups + g) * BF16_HALF * p->length + at);
            }
        }
    }
}

/* A position of the result, and not one beyond it. */
INLINE bool place_counts(const lki_conv_shape *s, place at)
{
    return at.y < s->out[0] && at.x < s->out[1];
}

static void orders_fill(const lki_conv_shape *s, const bf16_planes *p, bf16_order *to)
{
    place at = {0, 0};
    for (int64_t block = 0; block < orders_of(s, p); block++, to++) {
        int64_t count[2] = {0, 0}; /* of either chain */
        for (int64_t i = 0; i < BF16_TERMS; i++) to->place[i] = BF16_TERMS;
        for (int64_t i = 0; i < BF16_TERMS; i++, at = place_next(p, at)) {
            if (!place_counts(s, at)) continue;
            const int64_t n = count[i % 2]++; /* the first of a pair in the upper half */
            to->place[n / 2 * 4 + i % 2 * 2 + (n + 1) % 2] = (uint16_t)i;
        }
        to->quads = ((count[0] > count[1] ? count[0] : count[1]) + 1) / 2;
    }
}

/* A panel of the gradient; orders: NULL, or of its blocks. */
static void gradient_fill(const lki_conv_shape *s, const bf16_planes *p, const bf16_order *orders,
                          const float *d_y, int64_t panel, uint16_t *to)
{
    place at = {0, 0};
    for (int64_t block = 0; block < p->blocks; block++, to += BF16_BLOCK) {
        const float *from[BF16_TERMS + 1] = {NULL}, *turned[BF16_TERMS];
        for (int64_t i = 0; i < BF16_TERMS; i++, at = place_next(p, at))
            if (place_counts(s, at)) from[i] = d_y + (at.y * s->out[1] + at.x) * s->filters;
        for (int64_t i = 0; i < BF16_TERMS && orders != NULL; i++)
            turned[i] = from[orders[block].place[i]];
        bf16_block(orders != NULL ? turned : from, BF16_HALF, panel * BF16_SIDE, s->filters, to);
    }
}

/* Where 16 rows of terms begin: a group of channels under a tap. */
INLINE const uint16_t *planes_tile(const lki_conv_shape *s, const bf16_planes *p,
                                   const uint16_t *planes, int64_t tile)
{
    const int64_t tap = tile / p->groups, group = tile % p->groups, row = p->taps[1].count;
    const int64_t v = tap / row * s->dilation[0], h = tap % row * s->dilation[1];
    const int64_t phase = v % s->stride[0] * p->phases[1] + h % s->stride[1];
    return planes + (phase * p->groups + group) * BF16_HALF * p->length +
           v / s->stride[0] * p->pitch + h / s->stride[1];
}

static void planes_multiply(const lki_conv_shape *s, const bf16_planes *p, int64_t images,
                            const bf16_order *orders, const uint16_t *planes,
                            const uint16_t *gradient, bool begun, float *sums)
{
    bf16_terms t = {.row = p->length,
                    .taps = images,
                    .a_tap = planes_elements(p),
                    .blocks = p->blocks,
                    .last = p->last,
                    .order = orders};
    for (int64_t panel = 0; panel < p->panels; panel++) {
        t.b = gradient + panel * images * gradient_elements(p);
        for (int64_t tile = 0; tile < p->tiles; tile += 2, sums += BF16_SIDE * BF16_SIDE) {
            const bool two = tile + 1 < p->tiles;
            const uint16_t *a[2] = {planes_tile(s, p, planes, tile),
                                    two ? planes_tile(s, p, planes, tile + 1) : NULL};
            LKI_ISA_NAME(lki_bf16_tile)(s->unit, &t, a, two ? BF16_SIDE : BF16_HALF, sums, begun);
        }
    }
}

/* Sums of taps that lie side by side in the weight. */
INLINE void planes_run(int64_t taps, const float *from, int64_t step, float *to)
{
    for (int64_t tap = 0; tap < taps; tap++) to[tap] = from[tap * step];
}

/* In the order of the parameter, [filter][channel][tap]; 16 channels of 32 filters stay in the nearest cache. */
static void planes_write(const lki_conv_shape *s, const bf16_planes *p, float *sums,
                         float *d_weight)
{
    const int64_t all = s->kernel[0] * s->kernel[1], tile = BF16_HALF * BF16_SIDE;
    const int64_t first = p->taps[0].skipped * s->kernel[1] + p->taps[1].skipped;
    const int64_t taps = p->taps[0].count * p->taps[1].count;
    const int64_t run = p->taps[1].count == s->kernel[1] ? taps : p->taps[1].count;
    for (int64_t i = 0; i < sums_floats(p); i += LANES)
        vf_store(sums + i, vf_flush(vf_load(sums + i)));
    if (taps < all)
        memset(d_weight, 0, (size_t)(s->filters * s->channels * all) * sizeof *d_weight);
    for (int64_t panel = 0; panel < p->panels; panel++)
        for (int64_t group = 0; group < p->groups; group++)
            for (int64_t f = panel * BF16_SIDE; f < s->filters && f < (panel + 1) * BF16_SIDE;
                 f++) {
                const float *from = sums + (2 * panel * tile_pairs(p) + group) * tile +
                                    f % BF16_SIDE;
                const int64_t channel = group * BF16_HALF, left = s->channels - channel;
                float *to = d_weight + (f * s->channels + channel) * all + first;
                for (int64_t c = 0; c < (left < BF16_HALF ? left : BF16_HALF); c++, to += all)
                    for (int64_t tap = 0, at = 0; tap < taps; tap += run, at += s->kernel[1])
                        planes_run(run, from + tap * p->groups * tile + c * BF16_SIDE,
                                   p->groups * tile, to + at);
            }
}

void LKI_ISA_NAME(lki_bf16_weight)(const lki_conv_shape *s, int64_t count,
                                   const lki_conv_gradient *g)
{
    const bf16_planes p = planes_of(s);
    const int64_t strip = planes_strip(&p, count), each = planes_elements(&p);
    const int64_t in = s->in[0] * s->in[1] * s->channels, pixels = s->out[0] * s->out[1];
    uint16_t *planes = g->workspace, *gradient = planes + strip * each;
    float *sums = g->sums;
    double *bias = (double *)(void *)(sums + sums_floats(&p));
    bf16_order *space = (bf16_order *)(void *)(planes +
                                               strip * (each + p.panels * gradient_elements(&p)));
    const bf16_order *orders = orders_of(s, &p) > 0 ? space : NULL;
    if (g->sample == 0) memset(bias, 0, (size_t)s->filters * sizeof *bias);
    orders_fill(s, &p, space);
    LKI_ISA_NAME(lki_bf16_begin)(s->unit);
    for (int64_t n = 0; n < count; n += strip) {
        const int64_t images = count - n < strip ? count - n : strip;
        for (int64_t i = 0; i < images; i++) {
            planes_fill(s, &p, g->x + (n + i) * in, planes + i * each);
            for (int64_t panel = 0; panel < p.panels; panel++)
                gradient_fill(s, &p, orders, g->d_y + (n + i) * pixels * s->filters, panel,
                              gradient + (panel * images + i) * gradient_elements(&p));
        }
        planes_multiply(s, &p, images, orders, planes, gradient, g->sample + n > 0, sums);
    }
    LKI_ISA_NAME(lki_bf16_end)(s->unit);
    if (g->d_bias != NULL)
        LKI_ISA_NAME(lki_vector_norm_sums)(count * pixels, s->filters, s->filters, g->d_y, bias);
    if (!g->last) return;
    planes_write(s, &p, sums, g->d_weight);
    for (int64_t f = 0; f < s->filters && g->d_bias != NULL; f++) g->d_bias[f] = lki_round(bias[f]);
}
