/*
 * Convolutions of one group whose factors are bfloat16: forward and data gradient (bf16_weight.c has the weight's).
 *
 * Images are rounded into a frame of zeros. Terms of a result stand in the order (tap row, tap column, channel). Where these
 * lie side by side in the frame, in runs of whole blocks, tiles read it as it is: row by row where rows are whole halves of tiles,
 * else at positions that run through its rows, those between images' columns included, whose results are dropped; where neither
 * is, a result's terms are gathered first, and the last block is filled up with zeros:
 *
 *     frame      | 0 x x x x 0 | 0 x x x x 0 | ...      rows of a tile: positions 0, 1, 2, ... of the frame
 *     gathered   | terms of result 0, 0 0 0 | terms of result 1, 0 0 0 | ...
 *
 * The data gradient of a stride is a pass for each phase (phase.h): results that see the same taps.
 */
#include "backend/cpu/vector/bf16/bf16_pass.h"

enum { STRIP_BYTES = 1 << 19 }; /* of images that all panels pass over in turn */

/* Elements of an image's frame, and of what is gathered of it. */
INLINE int64_t bf16_gathered(const bf16_pass *p)
{
    return p->gathers ? p->grid[0] * p->grid[1] * p->terms : 0;
}
INLINE int64_t bf16_row(const bf16_pass *p)
{
    return p->gathers ? p->terms : p->channels;
}

INLINE int64_t bf16_strip(const bf16_pass *p, int64_t count)
{
    const int64_t each = (frame_floats(&p->frame) + bf16_gathered(p)) * (int64_t)sizeof(uint16_t);
    const int64_t most = each < STRIP_BYTES ? STRIP_BYTES / each : 1;
    return most < count ? most : count;
}

/* What a matrix unit reads beyond the last row. */
INLINE int64_t bf16_slack(const bf16_pass *p)
{
    const int64_t below = p->gathers ? 0 : p->taps[0] * p->tap_step[0] * p->frame.size[1];
    return (BF16_SIDE * bf16_row(p) + p->terms + below * p->channels + 31) / 32 * 32;
}

static size_t bf16_pass_bytes(const bf16_pass *p, int64_t count)
{
    const int64_t n = bf16_strip(p, count);
    const size_t each = (size_t)(frame_floats(&p->frame) + bf16_gathered(p)) * sizeof(uint16_t);
    return lki_plus(lki_times((size_t)n, each),
                    (size_t)(2 * bf16_slack(p) + 128) * sizeof(uint16_t)) +
           BF16_SIDE * BF16_SIDE * sizeof(float);
}

static void bf16_fill(const bf16_pass *p, const float *image, uint16_t *to)
{
    const frame *f = &p->frame;
    const int64_t row = f->size[1] * f->channels, inside = p->source[1] * f->channels;
    const int64_t left = f->before[1] * f->channels, right = row - left - inside;
    memset(to, 0, (size_t)(f->before[0] * row) * sizeof *to);
    to += f->before[0] * row;
    for (int64_t y = 0; y < p->source[0]; y++, to += row) {
        memset(to, 0, (size_t)left * sizeof *to);
        bf16_round_row(inside, image + y * inside, to + left);
        memset(to + left + inside, 0, (size_t)right * sizeof *to);
    }
    memset(to, 0, (size_t)(f->after[0] * row) * sizeof *to);
}

static void bf16_gather(const bf16_pass *p, const uint16_t *from, uint16_t *to)
{
    const int64_t width = p->frame.size[1], channels = p->channels;
    const int64_t together = p->tap_step[1] == 1 ? p->taps[1] : 1, run = together * channels;
    const int64_t terms = p->taps[0] * p->taps[1] * channels;
    for (int64_t y = 0; y < p->grid[0]; y++)
        for (int64_t x = 0; x < p->grid[1]; x++, to += p->terms) {
            uint16_t *next = to;
            for (int64_t v = 0; v < p->taps[0]; v++)
                for (int64_t h = 0; h < p->taps[1]; h += together, next += run) {
                    const int64_t row = p->at[0] + y * p->step[0] + v * p->tap_step[0];
                    const int64_t column = p->at[1] + x * p->step[1] + h * p->tap_step[1];
                    memcpy(next, from + (row * width + column) * channels,
                           (size_t)run * sizeof *next);
                }
            memset(next, 0, (size_t)(p->terms - terms) * sizeof *next);
        }
}

/* A row of a tile, which has `columns` columns of this panel, where it belongs. */
INLINE void bf16_put_row(const bf16_pass *p, const float *row, int64_t column, int64_t columns,
                         float *to)
{
    FOR_VECTORS(i, n, columns)
    {
        vf v = vf_load(row + i);
        if (p->bias != NULL) v += vf_get(p->bias + column + i, n);
        if (p->add) v += vf_get(to + i, n);
        vf_put(to + i, p->relu ? vf_relu_flush(v) : vf_flush(v), n);
    }
}

/* Positions of a strip: a result stands at each, or none. */
typedef struct positions {
    int64_t count;         /* in an image, */
    int64_t width, height; /* so many beside and above each other, */
    int64_t pitch;         /* from row to row in what a tile reads */
} positions;

/* What a half of a tile reads, from a position on. */
INLINE const uint16_t *bf16_half(const positions *all, int64_t position, int64_t row,
                                 const uint16_t *a)
{
    return a + (position / all->width * all->pitch + position % all->width) * row;
}

/* Where the rows of a tile go, NULL: no result stands there. They lie far apart, and are asked for. */
INLINE void bf16_places(const bf16_pass *p, const positions *all, int64_t image, int64_t from,
                        int64_t rows, int64_t column, float *to[BF16_SIDE])
{
    int64_t y = from / all->width, x = from % all->width;
    for (int64_t r = 0; r < rows; r++, x++) {
        if (x == all->width) {
            x = 0;
            y++;
        }
        const int64_t n = image + y / all->height, line = y % all->height;
        to[r] = NULL;
        if (x >= p->grid[1] || line >= p->grid[0]) continue;
        to[r] = p->c + n * p->c_sample + line * p->c_row + x * p->c_pixel + column;
        for (int i = 0; i < BF16_SIDE; i += 16) __builtin_prefetch(to[r] + i, 1);
    }
}

/* All panels of some positions, which follow each other from `a` on. */
static void bf16_run(const bf16_pass *p, lki_bf16_unit unit, const positions *all, int64_t image,
                     const uint16_t *a, float *tile)
{
    const int64_t row = bf16_row(p);
    bf16_terms t = {.row = row, .taps = 1, .blocks = p->terms / BF16_TERMS, .last = BF16_TERMS};
    int64_t panel, last;
    lki_part_of(p->part, p->parts, p->panels, &panel, &last);
    if (!p->gathers) {
        t.taps = p->taps[0];
        t.blocks /= t.taps;
        t.a_tap = p->tap_step[0] * p->frame.size[1] * p->channels;
    }
    for (; panel < last; panel++) {
        const int64_t column = panel * BF16_SIDE, after = p->columns - column;
        const int64_t columns = after < BF16_SIDE ? after : BF16_SIDE;
        t.b = p->b + panel * BF16_SIDE * p->terms;
        for (int64_t first = 0; first < all->count; first += BF16_SIDE) {
            const int64_t left = all->count - first, rows = left < BF16_SIDE ? left : BF16_SIDE;
            const uint16_t *half[2] = {bf16_half(all, first, row, a),
                                       bf16_half(all, first + BF16_HALF, row, a)};
            float *to[BF16_SIDE];
            bf16_places(p, all, image, first, rows, column, to);
            LKI_ISA_NAME(lki_bf16_tile)(unit, &t, half, rows, tile, false);
            for (int64_t r = 0; r < rows; r++)
                if (to[r] != NULL) bf16_put_row(p, tile + r * BF16_SIDE, column, columns, to[r]);
        }
    }
}

static void bf16_pass_run(const bf16_pass *p, lki_bf16_unit unit, int64_t count, const float *x,
                          void *workspace)
{
    const int64_t strip = bf16_strip(p, count), each = frame_floats(&p->frame);
    const int64_t pixels = p->grid[0] * p->grid[1],
                  image = p->source[0] * p->source[1] * p->channels;
    float *tile = workspace;
    uint16_t *frames = (uint16_t *)(tile + BF16_SIDE * BF16_SIDE);
    uint16_t *gathered = frames + (strip * each + bf16_slack(p) + 31) / 32 * 32;
    for (int64_t n = 0; n < count; n += strip) {
        const int64_t images = count - n < strip ? count - n : strip;
        for (int64_t i = 0; i < images; i++) {
            bf16_fill(p, x + (n + i) * image, frames + i * each);
            if (p->gathers) bf16_gather(p, frames + i * each, gathered + i * pixels * p->terms);
        }
        if (p->gathers || p->line) {
            const positions all = {images * pixels, p->grid[1], p->grid[0], p->grid[1]};
            bf16_run(p, unit, &all, n, p->gathers ? gathered : frames, tile);
            continue;
        }
        const int64_t width = p->frame.size[1];
        positions all = {(p->grid[0] - 1) * width + p->grid[1], width, p->grid[0], width};
        if (p->grid[1] % BF16_HALF == 0) all = (positions){pixels, p->grid[1], p->grid[0], width};
        for (int64_t i = 0; i < images; i++)
            bf16_run(p, unit, &all, n + i,
                     frames + i * each + (p->at[0] * width + p->at[1]) * p->channels, tile);
    }
}

static void bf16_forward(const lki_conv_shape *s, int64_t count, const float *x, lki_conv_weight w,
                         const float *bias, bool relu, float *y, void *workspace)
{
    bf16_pass p = bf16_forward_pass(s);
    p.b = w.packed;
    p.c = y;
    p.bias = bias;
    p.relu = relu;
    p.part = s->part;
    p.parts = s->parts;
    LKI_ISA_NAME(lki_bf16_begin)(s->unit);
    bf16_pass_run(&p, s->unit, count, x, workspace);
    LKI_ISA_NAME(lki_bf16_end)(s->unit);
}

static void bf16_forward_moments(const lki_conv_shape *s, int64_t count, const float *x,
                                 lki_conv_weight weight, const float *bias, float *y,
                                 const lki_norm_moments *moments, void *workspace)
{
    bf16_forward(s, count, x, weight, bias, false, y, workspace);
    LKI_ISA_NAME(lki_vector_norm_moments)
    (count * s->out[0] * s->out[1], s->filters, s->filters, y, moments);
}

/* Pixels that no tap reaches. */
static void bf16_clear(const bf16_pass *p, int64_t count)
{
    for (int64_t n = 0; n < count; n++)
        for (int64_t y = 0; y < p->grid[0]; y++)
            for (int64_t x = 0; x < p->grid[1]; x++)
                memset(p->c + n * p->c_sample + y * p->c_row + x * p->c_pixel, 0,
                       (size_t)p->columns * sizeof(float));
}

static void bf16_backward(const lki_conv_shape *s, int64_t count, const float *d_y,
                          lki_conv_weight weight, float *d_x, bool add, void *workspace)
{
    const bf16_pass forward = bf16_forward_pass(s);
    const uint16_t *b = (const uint16_t *)weight.packed + bf16_packed(&forward);
    LKI_ISA_NAME(lki_bf16_begin)(s->unit);
    for (int64_t i = 0; i < bf16_phases(s); i++) {
        phase way[2];
        bf16_pass p = bf16_phase_pass(s, i, way);
        p.b = b;
        p.c = d_x + (way[0].pixel * s->in[1] + way[1].pixel) * s->channels;
        p.add = add;
        b += bf16_packed(&p);
        if (p.terms > 0)
            bf16_pass_run(&p, s->unit, count, d_y, workspace);
        else if (!add)
            bf16_clear(&p, count);
    }
    LKI_ISA_NAME(lki_bf16_end)(s->unit);
}

static size_t bf16_workspace_bytes(const lki_conv_shape *s, int64_t count)
{
    const bf16_pass forward = bf16_forward_pass(s);
    size_t most = bf16_pass_bytes(&forward, count);
    for (int64_t i = 0; i < bf16_phases(s); i++) {
        phase way[2];
        const bf16_pass p = bf16_phase_pass(s, i, way);
        const size_t bytes = p.terms > 0 ? bf16_pass_bytes(&p, count) : 0;
        if (bytes > most) most = bytes;
    }
    const size_t weight = LKI_ISA_NAME(lki_bf16_weight_bytes)(s, count);
    return weight > most ? weight : most;
}

const lki_vector_conv LKI_ISA_NAME(lki_vector_bf16) = {
    .packed_bytes = LKI_ISA_NAME(lki_bf16_conv_packed_bytes),
    .pack = LKI_ISA_NAME(lki_bf16_conv_pack),
    .workspace_bytes = bf16_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_bf16_sums_bytes),
    .forward = bf16_forward,
    .forward_moments = bf16_forward_moments,
    .backward = bf16_backward,
    .backward_weight = LKI_ISA_NAME(lki_bf16_weight),
};
