/*
 * Winograd's convolutions F(2 x 2, 3 x 3), F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5): what their files share.
 *
 * The result is cut into tiles of side x side pixels. A tile y of one filter follows from the patch d of
 * size x size pixels under it, size = side + kernel - 1, and from the filter's taps g:
 *
 *     y = sum over channels of A' [(G g G') * (B' d B)] A          * element by element, ' transposed
 *         |                    |   |          |
 *         |                    |   |          V, once a patch and channel, for all filters
 *         |                    |   U, once an update, for all patches
 *         |                    M: for each of the size^2 elements a matrix product of its own,
 *         y, once a tile and filter            [tiles][channels] x [channels][filters] (tile.h)
 *
 * 16 products stand for 4 outputs, or 36 for 16, where a direct sum has 36, or 144; of 5 x 5 taps 36 for 4, and 100.
 *
 * A, B and G evaluate and interpolate polynomials: at 0, 1, -1 and infinity for size 4; for size 6 at 0,
 * 3/4, -3/4, 3/2, -3/2 and infinity. All elements of A and B are then floats, without a rounding, and errors
 * are half those of the usual 0, 1, -1, 2, -2: what counts is how far apart the powers of the points are.
 *
 * Where less than a tile is left at the end of an axis, the last tile has n < side pixels there, and side - n points less:
 * those of a whole one without the last finite ones, so that U is the same. At their places it has no products:
 *
 *     7 x 7 pixels      4       3         points of the rows or columns of the last tile, of 0 .. 5:
 *                 4   6 x 6   6 x 5       n = 3: 0 1 2 3   5     (n = 1 of F(2 x 2, 5 x 5), too)
 *                 3   5 x 6   5 x 5       n = 2: 0 1 2     5
 *                                         n = 1: 0 1       5
 *
 * What exists for each of the three ends in 2 or 4, the side where taps are 3 x 3, or in 5 where they are 5 x 5.
 *
 * Tiles are numbered through the images of a call, and taken in strips whose V stays in the second-level cache. What a
 * strip has of a place lies together: so a tile has four numbers, at places that both last rows and last columns have,
 * that only one of these has, or neither.
 */
#ifndef LKI_CPU_VECTOR_WINOGRAD_H
#define LKI_CPU_VECTOR_WINOGRAD_H

#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/tile.h"
#include "base/memory.h"

enum { WINOGRAD_MOST = 6, WINOGRAD_PLACES = 36 }; /* pixels of a patch, along an axis and in all */

typedef struct winograd winograd;

/* A strip whose products are there for a panel of columns: M is [place in the patch][tile][PANEL]. */
typedef struct winograd_strip {
    const winograd *pass;
    int64_t first, tiles; /* counted through the images */
    int64_t column;       /* of the result; the first of the panel */
    const float *m;
    int64_t plane; /* floats from place to place */
} winograd_strip;

/* A weight whose taps of depth d and column c begin at d * depth_step + c * column_step, in PyTorch's order or turned
 * round. */
typedef struct winograd_weight {
    const float *taps;
    int64_t side, size, depth, columns, depth_step, column_step;
    bool reversed;
} winograd_weight;

/* A pass over images: a convolution with stride 1 of what is read, `depth` channels, to what is written,
 * `columns`. */
struct winograd {
    int64_t side, size; /* of a tile and of the patch under it */
    int64_t depth, columns;
    int64_t in[2], out[2]; /* pixels */
    int64_t before[2];     /* rows and columns of zeros before the image */
    int64_t count;         /* images */
    const float *x, *u;
    bool forms; /* there is no u: that of a panel is formed from the weight, in the caches */
    winograd_weight weight;
    /* What becomes of the products. */
    void (*put)(const winograd_strip *s);
    const float *bias; /* NULL: none */
    bool add, relu;
    float *y;
    float *least; /* of a pass that pools (block.c) */
    uint8_t *where;
    int part,
        parts; /* of the result: tiles where there are many, else panels of columns, which stay whole; */
    bool panels; /* or always these */
};

/* Pixels of the patch under a tile, along an axis. */
INLINE int64_t winograd_size(int64_t side, int64_t kernel)
{
    return side + kernel - 1;
}

/* What a convolution reads and writes, forward. */
INLINE winograd winograd_of(const lki_conv_shape *s, int64_t count)
{
    return (winograd){.side = s->winograd,
                      .size = winograd_size(s->winograd, s->kernel[0]),
                      .depth = s->channels,
                      .columns = s->filters,
                      .in = {s->in[0], s->in[1]},
                      .out = {s->out[0], s->out[1]},
                      .before = {s->padding[0], s->padding[1]},
                      .part = s->part,
                      .parts = s->parts,
                      .count = count};
}

INLINE int64_t winograd_tiles(const winograd *w, int way)
{
    return (w->out[way] + w->side - 1) / w->side;
}

/* Pixels of the last tile along an axis. */
INLINE int winograd_last(const winograd *w, int way)
{
    return (int)(w->out[way] - (winograd_tiles(w, way) - 1) * w->side);
}

/* Whether n pixels have point i. */
INLINE bool winograd_has(const int64_t side, const int64_t size, const int n, const int i)
{
    return i + 1 < n + size - side || i + 1 == size;
}

/* A tile: image, and first pixel of the result; and pixels. */
typedef struct winograd_tile {
    int64_t image, row, column;
    int pixels[2], last[2];
} winograd_tile;

INLINE void winograd_measure(const winograd *w, winograd_tile *t)
{
    t->pixels[0] = t->row + w->side < w->out[0] ? (int)w->side : t->last[0];
    t->pixels[1] = t->column + w->side < w->out[1] ? (int)w->side : t->last[1];
}

INLINE winograd_tile winograd_first(const winograd *w, int64_t tile)
{
    const int64_t columns = winograd_tiles(w, 1), each = winograd_tiles(w, 0) * columns;
    winograd_tile t = {.image = tile / each,
                       .row = tile % each / columns * w->side,
                       .column = tile % columns * w->side,
                       .last = {winograd_last(w, 0), winograd_last(w, 1)}};
    winograd_measure(w, &t);
    return t;
}

INLINE void winograd_next(const winograd *w, winograd_tile *t)
{
    t->column += w->side;
    if (t->column >= w->out[1]) {
        t->column = 0;
        t->row += w->side;
    }
    if (t->row >= w->out[0]) {
        t->row = 0;
        t->image++;
    }
    winograd_measure(w, t);
}

/* Asks for `count` floats of each pixel of tile t, the first of which lies at `pixel` in rows of so many floats: tiles skip
 * through memory in steps that processors do not foresee. Pixels that are not there are asked for, too, which does no
 * harm. FETCH_AHEAD tiles later they are there. */
enum { FETCH_AHEAD = 2 };
INLINE void winograd_fetch(const int side, const winograd *w, const winograd_tile *t,
                           const float *pixel, int64_t row, int64_t step, int64_t count,
                           const bool writes)
{
    if (t->image >= w->count) return; /* behind the last */
    UNROLL_4 for (int i = 0; i < side; i++) UNROLL_4 for (int j = 0; j < side; j++)
    {
        const float *at = pixel + i * row + j * step;
        for (int64_t k = 0; k < count; k += 16) {
            if (writes)
                __builtin_prefetch(at + k, 1);
            else
                __builtin_prefetch(at + k);
        }
    }
}

/* Where a tile of the result, or of its gradient, begins in such an array, and the same of a panel from `column` on, fetched. */
INLINE int64_t winograd_at_tile(const winograd *w, const winograd_tile *t)
{
    return ((t->image * w->out[0] + t->row) * w->out[1] + t->column) * w->columns;
}
INLINE void winograd_fetch_panel(const int side, const winograd *w, const winograd_tile *t,
                                 const float *array, int64_t column, const bool writes)
{
    winograd_fetch(side, w, t, array + winograd_at_tile(w, t) + column, w->out[1] * w->columns,
                   w->columns, PANEL, writes);
}

/* Of so many tiles those that have a place: [2 * (the last rows have none) + (the last columns have none)]. */
typedef struct winograd_counts {
    int64_t of[4];
    int last[2];
} winograd_counts;

/* Of all tiles before this one those whose rows, columns, or both are the last of an image. */
INLINE void winograd_lasts(const winograd *w, int64_t tile, int64_t *lasts)
{
    const int64_t columns = winograd_tiles(w, 1), each = winograd_tiles(w, 0) * columns;
    const int64_t row = tile % each - (each - columns);
    lasts[0] = tile / each * columns + (row > 0 ? row : 0);
    lasts[1] = tile / columns;
    lasts[2] = tile / each;
}

INLINE winograd_counts winograd_count(const winograd *w, int64_t first, int64_t tiles)
{
    winograd_counts c = {.last = {winograd_last(w, 0), winograd_last(w, 1)}};
    int64_t before[3], lasts[3];
    winograd_lasts(w, first, before);
    winograd_lasts(w, first + tiles, lasts);
    for (int i = 0; i < 3; i++) lasts[i] -= before[i];
    c.of[0] = tiles;
    c.of[1] = tiles - lasts[1];
    c.of[2] = tiles - lasts[0];
    c.of[3] = tiles - lasts[0] - lasts[1] + lasts[2];
    return c;
}

INLINE int64_t winograd_at(const winograd *w, const winograd_counts *c, int64_t place)
{
    const bool rows = winograd_has(w->side, w->size, c->last[0], (int)(place / w->size));
    const bool columns = winograd_has(w->side, w->size, c->last[1], (int)(place % w->size));
    return c->of[2 * !rows + !columns];
}

INLINE bool winograd_whole(const int side, const winograd_tile *t)
{
    return t->pixels[0] == side && t->pixels[1] == side;
}

/* Where the places of a tile lie, of V, Y or M with such rows and planes: at the first row of each plane for a strip's first
 * tile, and behind a tile a row further in the planes of the places that it has. What that adds is there for the four
 * kinds of tiles, [2 * (its rows are cut) + (its columns are cut)], so that to go on is a few sums of vectors. */
typedef struct winograd_places {
    int64_t at[WINOGRAD_PLACES], step[4][WINOGRAD_PLACES];
} winograd_places;

INLINE void winograd_begin(const winograd *w, int64_t row, int64_t plane, winograd_places *p)
{
    const int last[2] = {winograd_last(w, 0), winograd_last(w, 1)};
    for (int i = 0, k = 0; i < w->size; i++) {
        const int64_t rows = winograd_has(w->side, w->size, last[0], i) ? row : 0;
        for (int j = 0; j < w->size; j++, k++) {
            const bool columns = winograd_has(w->side, w->size, last[1], j);
            p->at[k] = k * plane;
            p->step[0][k] = row;
            p->step[1][k] = columns ? row : 0;
            p->step[2][k] = rows;
            p->step[3][k] = columns ? rows : 0;
        }
    }
}

INLINE void winograd_further(const int side, const int size, const winograd_tile *t,
                             winograd_places *p)
{
    const int64_t *step = p->step[2 * (t->pixels[0] < side) + (t->pixels[1] < side)];
    for (int k = 0; k < size * size; k++) p->at[k] += step[k];
}

/* Floats from place to place of so many: places do not meet in one set of a cache. */
INLINE int64_t winograd_plane(int64_t floats)
{
    return (floats + 1023) / 1024 * 1024 + 16;
}

/* Floats of U: [panel of columns][place][depth][PANEL]. */
INLINE int64_t winograd_floats(int64_t size, int64_t depth, int64_t columns)
{
    return size * size * depth * ((columns + PANEL - 1) / PANEL * PANEL);
}

/* Whether U passes through the caches once a strip, from memory: strips are longer then, with V in the third-level cache. */
enum { WINOGRAD_LARGE = 1 << 20 }; /* floats */
INLINE bool winograd_large(int64_t size, int64_t depth, int64_t columns)
{
    return winograd_floats(size, depth, columns) > WINOGRAD_LARGE;
}

/* winograd_pack.c: U of a weight, part `part` of `parts`; and of depths [depth, end) of a panel, places so many floats apart. */
void LKI_ISA_NAME(lki_winograd_pack)(const winograd_weight *w, float *u, int part, int parts);
void LKI_ISA_NAME(lki_winograd_form)(const winograd_weight *w, int64_t column, int64_t depth,
                                     int64_t end, float *u, int64_t place);

/* V of a strip: [place][row of channels][tile][channel], of the channels [channel, channel + channels) of the image, and
 * zeros up to a whole vector; a row has `row` channels, at most WINOGRAD_ROW, and the next is `block` floats away. */
enum { WINOGRAD_ROW = 128 };
typedef struct winograd_patches {
    int64_t first, tiles, channel, channels;
    float *v;
    int64_t row, block, plane;
} winograd_patches;
void LKI_ISA_NAME(lki_winograd_in)(const winograd *w, const winograd_patches *p);

/* What becomes of products: sums with bias, with what is there, and with relu, as the pass says. */
void LKI_ISA_NAME(lki_winograd_put)(const winograd_strip *s);

size_t LKI_ISA_NAME(lki_winograd_bytes)(const winograd *w);
void LKI_ISA_NAME(lki_winograd_run)(const winograd *w, void *workspace);

/* winograd_weight.c, as in lki_vector_conv; relu is not looked at. */
size_t LKI_ISA_NAME(lki_winograd_weight_bytes)(const lki_conv_shape *s);
size_t LKI_ISA_NAME(lki_winograd_sums_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_winograd_weight)(const lki_conv_shape *s, int64_t count,
                                       const lki_conv_gradient *g);

/* The forward pass of block.c. */
size_t LKI_ISA_NAME(lki_winograd_block_bytes)(const lki_block_shape *s);
void LKI_ISA_NAME(lki_winograd_block)(const lki_block_shape *s, const float *x, const float *u,
                                      const float *bias, float *out, float *least, uint8_t *where,
                                      void *workspace);

#endif
