/*
 * Convolutions of one group whose factors are bfloat16: forward and data gradient (bf16_weight.c has the weight's).
 *
 * Images are rounded into a frame of zeros. Terms of a result stand in the order (tap row, tap column, channel). Where these
 * lie side by side in the frame, in runs of whole blocks, tiles read it as it is, at positions that run through its rows, those
 * between images' columns included, whose results are dropped; else a result's terms are gathered first, and the last block
 * is filled up with zeros:
 *
 *     frame      | 0 x x x x 0 | 0 x x x x 0 | ...      rows of a tile: positions 0, 1, 2, ... of the frame
 *     gathered   | terms of result 0, 0 0 0 | terms of result 1, 0 0 0 | ...
 *
 * The data gradient of a stride is a pass for each phase (phase.h): results that see the same taps.
 */
#include "backend/cpu/vector/bf16/bf16.h"
#include "backend/cpu/vector/conv/phase.h"
#include "numeric/tree.h"

enum {
    STRIP_BYTES = 1 << 19, /* of images that all panels pass over in turn */
    PACK_TAPS = 9,         /* of a kernel whose weight is packed in squares, at most */
    WIDE = 12 /* columns from which on gathering costs more than the positions that are dropped */
};

/* One way: results are taken at `grid` places, from source pixel `first` + place + tap * tap_step on. */
typedef struct bf16_pass {
    int64_t channels, columns; /* of the source; of the result */
    int64_t source[2], grid[2], step[2], taps[2], tap_step[2];
    int64_t skipped[2]; /* taps in front of these, which are left out */
    frame frame;
    int64_t at[2]; /* in the frame: what result 0 has under tap 0 */
    bool line;     /* results follow each other as pixels of the source do, through all samples */
    bool gathers;
    int64_t terms;  /* of a result, whole blocks */
    int64_t panels; /* of 32 columns */
    const uint16_t *b;
    /* The result: floats from row to row, pixel to pixel, sample to sample. */
    int64_t c_row, c_pixel, c_sample;
    float *c;
    bool add, relu;
    const float *bias;
    int part, parts; /* of the panels; 0, 0: all of them */
} bf16_pass;

/* Fills in what follows from the rest; origin: the source pixel under tap 0 of result 0. Taps that meet no pixel are left
 * out where their terms are whole blocks, and so blocks of zeros. */
INLINE void bf16_layout(bf16_pass *p, const int64_t origin[2])
{
    p->frame = (frame){.channels = p->channels};
    for (int i = 0; i < 2; i++) {
        bf16_taps t = {.count = p->taps[i], .first = origin[i]};
        if (p->channels % BF16_TERMS == 0)
            t = bf16_meeting(t.count, p->tap_step[i], t.first, p->grid[i], p->step[i],
                             p->source[i]);
        const int64_t last = t.first + (p->grid[i] - 1) * p->step[i] +
                             (t.count - 1) * p->tap_step[i];
        p->taps[i] = t.count;
        p->skipped[i] = t.skipped;
        p->frame.before[i] = t.first < 0 ? -t.first : 0;
        p->frame.after[i] = last >= p->source[i] ? last + 1 - p->source[i] : 0;
        p->frame.size[i] = p->frame.before[i] + p->source[i] + p->frame.after[i];
        p->at[i] = t.first + p->frame.before[i];
    }
    const int64_t run = p->taps[1] * p->channels;
    p->line = p->taps[0] * p->taps[1] == 1 && p->frame.size[1] == p->grid[1] &&
              p->frame.size[0] == p->grid[0];
    p->gathers = p->step[0] != 1 || p->step[1] != 1 || (p->tap_step[1] != 1 && p->taps[1] > 1) ||
                 run % BF16_TERMS != 0 || (!p->line && p->grid[1] < WIDE);
    p->terms = bf16_whole(p->taps[0] * run);
    p->panels = (p->columns + BF16_SIDE - 1) / BF16_SIDE;
}

static bf16_pass bf16_forward_pass(const lki_conv_shape *s)
{
    bf16_pass p = {.channels = s->channels, .columns = s->filters};
    for (int i = 0; i < 2; i++) {
        p.source[i] = s->in[i];
        p.grid[i] = s->out[i];
        p.step[i] = s->stride[i];
        p.taps[i] = s->kernel[i];
        p.tap_step[i] = s->dilation[i];
    }
    bf16_layout(&p, (const int64_t[2]){-s->padding[0], -s->padding[1]});
    p.c_pixel = s->filters;
    p.c_row = s->out[1] * s->filters;
    p.c_sample = s->out[0] * p.c_row;
    return p;
}

/* Passes of the data gradient. */
INLINE int64_t bf16_phases(const lki_conv_shape *s)
{
    return phases(s, 0) * phases(s, 1);
}

/* That of this number, with its phases along rows and columns; without terms where no tap reaches a pixel. */
static bf16_pass bf16_phase_pass(const lki_conv_shape *s, int64_t number, phase way[2])
{
    way[0] = phase_of(s, 0, number / phases(s, 1));
    way[1] = phase_of(s, 1, number % phases(s, 1));
    bf16_pass p = {.channels = s->filters, .columns = s->channels};
    for (int i = 0; i < 2; i++) {
        p.source[i] = s->out[i];
        p.grid[i] = way[i].pixels;
        p.step[i] = 1;
        p.taps[i] = way[i].taps;
        p.tap_step[i] = way[i].out_step;
    }
    if (p.taps[0] > 0 && p.taps[1] > 0) bf16_layout(&p, (const int64_t[2]){way[0].out, way[1].out});
    p.c_pixel = s->stride[1] * s->channels;
    p.c_row = s->stride[0] * s->in[1] * s->channels;
    p.c_sample = s->in[0] * s->in[1] * s->channels;
    return p;
}

/* ---------------------------------------------------------------- packing */

INLINE int64_t bf16_packed(const bf16_pass *p)
{
    return p->panels * BF16_SIDE * p->terms;
}

/* The weight as a pass reads it: floats from column to column, tap to tap, channel to channel. */
typedef struct bf16_factor {
    const float *weight;
    int64_t column, tap[2], channel;
    int64_t first; /* where the pass's tap 0 lies */
    int64_t taps;  /* of the kernel, side by side */
} bf16_factor;

static void bf16_pack_panel(const bf16_pass *p, const bf16_factor *w, int64_t panel, uint16_t *to)
{
    const int64_t left = p->columns - panel * BF16_SIDE, taps = p->taps[0] * p->taps[1];
    for (int64_t i = 0; i < (left < BF16_SIDE ? left : BF16_SIDE); i++) {
        const float *column = w->weight + w->first + (panel * BF16_SIDE + i) * w->column;
        uint16_t *place = to + i / BF16_HALF * (BF16_BLOCK / 2) + i % BF16_HALF * 2;
        for (int64_t tap = 0, k = 0; tap < taps; tap++) {
            const float *from = column + tap / p->taps[1] * w->tap[0] +
                                tap % p->taps[1] * w->tap[1];
            for (int64_t c = 0; c < p->channels; c++, k++)
                place[(k / BF16_TERMS * BF16_BLOCK | k / 2 % BF16_HALF * 2 * BF16_HALF) + k % 2] =
                    lki_bf16(from[c * w->channel]);
        }
    }
}

/* Where a tap has whole blocks: 32 columns by 32 channels, under all taps, wait rounded in the nearest cache. */
static void bf16_pack_squares(const bf16_pass *p, const bf16_factor *w, int64_t panel, uint16_t *to)
{
    uint16_t square[BF16_SIDE * BF16_TERMS * PACK_TAPS];
    const bool by_column = w->column > w->channel; /* rows of the weight are columns, or channels */
    const int64_t left = p->columns - panel * BF16_SIDE;
    const int64_t columns = left < BF16_SIDE ? left : BF16_SIDE;
    const int64_t rows = by_column ? columns : BF16_TERMS;
    const int64_t step = by_column ? w->column : w->channel;
    const int64_t row = (by_column ? BF16_TERMS : columns) * w->taps;
    for (int64_t k = 0; k < p->channels; k += BF16_TERMS) {
        const float *from = w->weight + panel * BF16_SIDE * w->column + k * w->channel;
        for (int64_t i = 0; i < rows; i++) bf16_round_row(row, from + i * step, square + i * row);
        for (int64_t v = 0; v < p->taps[0]; v++)
            for (int64_t h = 0; h < p->taps[1]; h++)
                bf16_pack_square(square + w->first + v * w->tap[0] + h * w->tap[1], columns,
                                 by_column ? row : w->taps, by_column ? w->taps : row,
                                 to + ((v * p->taps[1] + h) * p->channels + k) * BF16_SIDE);
    }
}

/* Panels [begin, end) of all passes; `number`: of this pass's first; returns what follows. */
static uint16_t *bf16_pack_pass(const bf16_pass *p, bf16_factor w, int64_t *number, int64_t begin,
                                int64_t end, uint16_t *to)
{
    const bool squares = p->channels % BF16_TERMS == 0 && w.taps <= PACK_TAPS;
    w.first += p->skipped[0] * w.tap[0] + p->skipped[1] * w.tap[1];
    for (int64_t i = 0; i < p->panels; i++, ++*number, to += BF16_SIDE * p->terms) {
        if (*number < begin || *number >= end) continue;
        if ((i + 1) * BF16_SIDE > p->columns || p->channels % BF16_TERMS != 0)
            memset(to, 0, (size_t)(BF16_SIDE * p->terms) * sizeof *to);
        (squares ? bf16_pack_squares : bf16_pack_panel)(p, &w, i, to);
    }
    return to;
}

static size_t bf16_packed_bytes(const lki_conv_shape *s)
{
    const bf16_pass forward = bf16_forward_pass(s);
    int64_t all = bf16_packed(&forward);
    for (int64_t i = 0; i < bf16_phases(s); i++) {
        phase way[2];
        const bf16_pass p = bf16_phase_pass(s, i, way);
        all += bf16_packed(&p);
    }
    return (size_t)all * sizeof(uint16_t);
}

static void bf16_pack(const lki_conv_shape *s, const float *weight, void *packed, int part,
                      int parts)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], size = s->channels * taps;
    const bf16_pass forward = bf16_forward_pass(s);
    int64_t panels = forward.panels, number = 0;
    phase way[2];
    for (int64_t i = 0; i < bf16_phases(s); i++) panels += bf16_phase_pass(s, i, way).panels;
    const int64_t begin = lki_share(part, parts, panels), end = lki_share(part + 1, parts, panels);
    const bf16_factor ahead = {weight, size, {s->kernel[1], 1}, taps, 0, taps};
    uint16_t *to = bf16_pack_pass(&forward, ahead, &number, begin, end, packed);
    for (int64_t i = 0; i < bf16_phases(s); i++) {
        const bf16_pass p = bf16_phase_pass(s, i, way);
        const int64_t last = way[0].tap * s->kernel[1] + way[1].tap;
        const int64_t up = -way[0].step * s->kernel[1], left = -way[1].step;
        const bf16_factor back = {weight, taps, {up, left}, size, last, taps};
        to = bf16_pack_pass(&p, back, &number, begin, end, to);
    }
}

/* ---------------------------------------------------------------- running a pass */

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
    int64_t width, height; /* so many beside and above each other */
} positions;

static void bf16_put_tile(const bf16_pass *p, const positions *all, int64_t image, int64_t from,
                          int64_t rows, int64_t panel, const float *tile)
{
    const int64_t column = panel * BF16_SIDE, left = p->columns - column;
    int64_t y = from / all->width, x = from % all->width;
    for (int64_t r = 0; r < rows; r++, x++) {
        if (x == all->width) {
            x = 0;
            y++;
        }
        const int64_t n = image + y / all->height, line = y % all->height;
        if (x >= p->grid[1] || line >= p->grid[0]) continue;
        bf16_put_row(p, tile + r * BF16_SIDE, column, left < BF16_SIDE ? left : BF16_SIDE,
                     p->c + n * p->c_sample + line * p->c_row + x * p->c_pixel + column);
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
        t.b = p->b + panel * BF16_SIDE * p->terms;
        for (int64_t first = 0; first < all->count; first += BF16_SIDE) {
            const int64_t left = all->count - first, rows = left < BF16_SIDE ? left : BF16_SIDE;
            const uint16_t *from = a + first * row;
            LKI_ISA_NAME(lki_bf16_tile)
            (unit, &t, (const uint16_t *[]){from, from + BF16_HALF * row}, rows, tile, false);
            bf16_put_tile(p, all, image, first, rows, panel, tile);
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
            const positions all = {images * pixels, p->grid[1], p->grid[0]};
            bf16_run(p, unit, &all, n, p->gathers ? gathered : frames, tile);
            continue;
        }
        const int64_t width = p->frame.size[1];
        const positions all = {(p->grid[0] - 1) * width + p->grid[1], width, p->grid[0]};
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
    .packed_bytes = bf16_packed_bytes,
    .pack = bf16_pack,
    .workspace_bytes = bf16_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_bf16_sums_bytes),
    .forward = bf16_forward,
    .forward_moments = bf16_forward_moments,
    .backward = bf16_backward,
    .backward_weight = LKI_ISA_NAME(lki_bf16_weight),
};
