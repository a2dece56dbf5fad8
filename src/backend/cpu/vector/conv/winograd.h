/*
 * Winograd's convolutions F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3): what their files share.
 *
 * The result is cut into tiles of side x side pixels. A tile y of one filter follows from the patch d of
 * (side + 2) x (side + 2) pixels under it and from the filter's taps g:
 *
 *     y = sum over channels of A' [(G g G') * (B' d B)] A          * element by element, ' transposed
 *         |                    |   |          |
 *         |                    |   |          V, once a patch and channel, for all filters
 *         |                    |   U, once an update, for all patches
 *         |                    M: for each of the (side + 2)^2 elements a matrix product of its own,
 *         y, once a tile and filter            [tiles][channels] x [channels][filters] (tile.h)
 *
 * 16 products stand for 4 outputs, or 36 for 16, where a direct sum has 36, or 144.
 *
 * A, B and G evaluate and interpolate polynomials: at 0, 1, -1 and infinity for side 2; for side 4 at 0,
 * 3/4, -3/4, 3/2, -3/2 and infinity. All elements of A and B are then floats, without a rounding, and errors
 * are half those of the usual 0, 1, -1, 2, -2: what counts is how far apart the powers of the points are.
 *
 * Tiles are numbered through the images of a call, and taken in strips whose V stays in the second-level cache.
 */
#ifndef LKI_CPU_VECTOR_WINOGRAD_H
#define LKI_CPU_VECTOR_WINOGRAD_H

#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/tile.h"
#include "base/memory.h"

enum { WINOGRAD_MOST = 6 }; /* pixels of a patch, along an axis */

typedef struct winograd winograd;

/* A strip whose products are there for a panel of columns: M is [place in the patch][tile][PANEL]. */
typedef struct winograd_strip {
    const winograd *pass;
    int64_t first, tiles; /* counted through the images */
    int64_t column;       /* of the result; the first of the panel */
    const float *m;
    int64_t plane; /* floats from place to place */
} winograd_strip;

/* A pass over images: a convolution with stride 1 of what is read, `depth` channels, to what is written,
 * `columns`. */
struct winograd {
    int64_t side;
    int64_t depth, columns;
    int64_t in[2], out[2]; /* pixels */
    int64_t before[2];     /* rows and columns of zeros before the image */
    int64_t count;         /* images */
    const float *x, *u;
    /* What becomes of the products. */
    void (*put)(const winograd_strip *s);
    const float *bias; /* NULL: none */
    bool add, relu;
    float *y;
    uint8_t *where; /* of a pass that pools (block.c) */
};

/* What a convolution reads and writes, forward. */
INLINE winograd winograd_of(const lki_conv_shape *s, int64_t count)
{
    return (winograd){.side = s->winograd,
                      .depth = s->channels,
                      .columns = s->filters,
                      .in = {s->in[0], s->in[1]},
                      .out = {s->out[0], s->out[1]},
                      .before = {s->padding[0], s->padding[1]},
                      .count = count};
}

/* A tile's place: image, and first pixel of the result. */
typedef struct winograd_place {
    int64_t image, row, column;
} winograd_place;

INLINE int64_t winograd_tiles(const winograd *w, int way)
{
    return (w->out[way] + w->side - 1) / w->side;
}

INLINE winograd_place winograd_place_of(const winograd *w, int64_t tile)
{
    const int64_t columns = winograd_tiles(w, 1), each = winograd_tiles(w, 0) * columns;
    return (winograd_place){.image = tile / each,
                            .row = tile % each / columns * w->side,
                            .column = tile % columns * w->side};
}

/* Points a, -a, b, -b. */
#define WINOGRAD_A 0.75f
#define WINOGRAD_B 1.5f

/* B' d: of side + 2 values as many. */
INLINE void winograd_in(const int side, const vf *d, vf *v)
{
    const float a = WINOGRAD_A, b = WINOGRAD_B;
    if (side == 2) {
        v[0] = d[0] - d[2];
        v[1] = d[1] + d[2];
        v[2] = d[2] - d[1];
        v[3] = d[1] - d[3];
        return;
    }
    const vf ends = vf_set(a * a * b * b), middle = vf_set(-(a * a + b * b));
    const vf even_a = vf_fma(vf_set(-b * b), d[2], d[4]),
             odd_a = vf_fma(vf_set(-b * b), d[1], d[3]);
    const vf even_b = vf_fma(vf_set(-a * a), d[2], d[4]),
             odd_b = vf_fma(vf_set(-a * a), d[1], d[3]);
    v[0] = vf_fma(middle, d[2], vf_fma(ends, d[0], d[4]));
    v[1] = vf_fma(vf_set(a), odd_a, even_a);
    v[2] = vf_fma(vf_set(-a), odd_a, even_a);
    v[3] = vf_fma(vf_set(b), odd_b, even_b);
    v[4] = vf_fma(vf_set(-b), odd_b, even_b);
    v[5] = vf_fma(middle, d[3], vf_fma(ends, d[1], d[5]));
}

/* A' m: of side + 2 values `side`. */
INLINE void winograd_out(const int side, const vf *m, vf *y)
{
    const float a = WINOGRAD_A, b = WINOGRAD_B;
    if (side == 2) {
        y[0] = (m[0] + m[1]) + m[2];
        y[1] = (m[1] - m[2]) - m[3];
        return;
    }
    const vf even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const vf even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = (m[0] + even_a) + even_b;
    y[1] = vf_fma(vf_set(b), odd_b, vf_set(a) * odd_a);
    y[2] = vf_fma(vf_set(b * b), even_b, vf_set(a * a) * even_a);
    y[3] = vf_fma(vf_set(b * b * b), odd_b, vf_fma(vf_set(a * a * a), odd_a, m[5]));
}

/* A' M A of a tile, LANES columns. */
INLINE void winograd_result(const int side, const float *m, int64_t plane, vf y[4][4])
{
    vf half[WINOGRAD_MOST][4];
    UNROLL
    for (int i = 0; i < side + 2; i++) {
        vf row[WINOGRAD_MOST];
        UNROLL for (int j = 0; j < side + 2; j++)
            row[j] = vf_load(m + (i * (side + 2) + j) * plane);
        winograd_out(side, row, half[i]);
    }
    UNROLL
    for (int j = 0; j < side; j++) {
        vf column[WINOGRAD_MOST], out[4];
        UNROLL for (int i = 0; i < side + 2; i++) column[i] = half[i][j];
        winograd_out(side, column, out);
        UNROLL for (int i = 0; i < side; i++) y[i][j] = out[i];
    }
}

/* Floats from place to place of so many: places do not meet in one set of a cache. */
INLINE int64_t winograd_plane(int64_t floats)
{
    return (floats + 1023) / 1024 * 1024 + 16;
}

/* Floats of U: [panel of columns][place][depth][PANEL]. */
INLINE int64_t winograd_floats(int64_t side, int64_t depth, int64_t columns)
{
    return (side + 2) * (side + 2) * depth * ((columns + PANEL - 1) / PANEL * PANEL);
}

/* U of a weight whose taps of depth d and column c begin at d * depth_step + c * column_step, in PyTorch's
 * order or turned round; part `part` of `parts`. */
typedef struct winograd_weight {
    const float *taps;
    int64_t side, depth, columns, depth_step, column_step;
    bool reversed;
} winograd_weight;
void LKI_ISA_NAME(lki_winograd_pack)(const winograd_weight *w, float *u, int part, int parts);

/* V of a strip: [place][tile][row], where a row has the channels [channel, channel + channels) of the image, and
 * zeros up to a whole vector. */
typedef struct winograd_patches {
    int64_t first, tiles, channel, channels;
    float *v;
    int64_t row, plane;
} winograd_patches;
void LKI_ISA_NAME(lki_winograd_in)(const winograd *w, const winograd_patches *p);

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
                                      const float *bias, float *out, uint8_t *where,
                                      void *workspace);

#endif
