/*
 * Dense layers. Weights are packed twice, as panels for tile.h:
 *
 *   forward   [block of PANEL units][input][PANEL]     y = x W^T: the sum is over inputs
 *   backward  [block of PANEL inputs][unit][PANEL]     dx = dy W: the sum is over units
 *
 * Sums are cut into stretches of DEPTH, so that a panel's stretch stays in the first-level cache;
 * accumulators pass from one to the next through memory, which changes no bit.
 */
#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/tile.h"
#include "backend/cpu/vector/transpose.h"
#include "base/tree.h"

enum { DEPTH = 256, STRIP = 64 };

static int64_t blocks(int64_t n)
{
    return (n + PANEL - 1) / PANEL;
}

static size_t forward_bytes(const lki_dense_shape *s)
{
    return sizeof(float) * (size_t)(blocks(s->units) * s->inputs * PANEL);
}

static size_t packed_bytes(const lki_dense_shape *s)
{
    return forward_bytes(s) + sizeof(float) * (size_t)(blocks(s->inputs) * s->units * PANEL);
}

/* Units [u, u + units) x inputs [k, k + n), n <= STRIP, u and k multiples of PANEL, by way of a
 * small copy: rows of the weight are often a multiple of 4,096 bytes apart. */
static void pack_block(const lki_dense_shape *s, const float *w, int64_t u, int64_t units,
                       int64_t k, int64_t n, float *to_forward, float *to_backward)
{
    float copy[PANEL][STRIP + LANES] = {{0}};
    for (int64_t i = 0; i < units; i++)
        memcpy(copy[i], w + (u + i) * s->inputs + k, sizeof(float) * (size_t)n);
    float *to = to_forward + (u * s->inputs + k * PANEL);
    const int64_t whole = n - n % 4;
    for (int64_t j = 0; j < whole; j += 4)
        for (int64_t i = 0; i < PANEL; i += 4)
            transpose4(&copy[i][j], STRIP + LANES, to + j * PANEL + i, PANEL, false);
    for (int64_t j = whole; j < n; j++)
        for (int64_t i = 0; i < PANEL; i++) to[j * PANEL + i] = copy[i][j];
    for (int64_t j = 0; j < n; j += PANEL)
        for (int64_t i = 0; i < units; i++) {
            float *row = to_backward + (k + j) * s->units + (u + i) * PANEL;
            vf_store(row, vf_load(copy[i] + j));
            vf_store(row + LANES, vf_load(copy[i] + j + LANES));
        }
}

static void pack(const lki_dense_shape *s, const float *w, void *packed, int part, int parts)
{
    float *forward = packed;
    float *backward = (float *)(void *)((char *)packed + forward_bytes(s));
    const int64_t count = blocks(s->units);
    for (int64_t b = lki_share(part, parts, count); b < lki_share(part + 1, parts, count); b++) {
        const int64_t u = b * PANEL, left = s->units - u, units = left < PANEL ? left : PANEL;
        for (int64_t k = 0; k < s->inputs; k += STRIP) {
            const int64_t n = s->inputs - k < STRIP ? s->inputs - k : STRIP;
            pack_block(s, w, u, units, k, n, forward, backward);
        }
    }
}

/* c[r][columns] = or += a[r][depth] * b, for all rows: one panel, one stretch. */
typedef struct product {
    const float *a;
    int64_t a_row; /* from row to row */
    const float *b;
    int64_t depth;
    float *c;
    int64_t c_row, columns;
    bool add;
    const float *bias; /* added last; NULL: none */
} product;

INLINE void product_tile(const int R, const product *p, int64_t first)
{
    vf acc[TILE_ROWS][2];
    float *c = p->c + first * p->c_row;
    if (p->add)
        tile_load(R, acc, c, p->c_row, p->columns);
    else
        tile_zero(R, acc);
    tile_run(R, acc, p->a + first * p->a_row, p->a_row, 1, p->b, p->depth);
    if (p->bias != NULL) {
        vf bias[1][2];
        tile_load(1, bias, p->bias, 0, p->columns);
        for (int r = 0; r < R; r++) {
            acc[r][0] += bias[0][0];
            acc[r][1] += bias[0][1];
        }
    }
    tile_store(R, acc, c, p->c_row, p->columns);
}

static void multiply(const product *p, int64_t rows)
{
    FOR_TILES(first, height, rows)
    {
#define TILE(R) product_tile(R, p, first)
        switch (height) {
            TILE_CASES(TILE)
        }
#undef TILE
    }
}

static void forward(const lki_dense_shape *s, int64_t rows, const float *x, const void *packed,
                    const float *bias, float *y)
{
    const float *weight = packed;
    for (int64_t k = 0; k < s->inputs; k += DEPTH) {
        const int64_t depth = s->inputs - k < DEPTH ? s->inputs - k : DEPTH;
        const bool last = k + depth == s->inputs;
        for (int64_t u = 0; u < s->units; u += PANEL)
            multiply(&(product){.a = x + k,
                                .a_row = s->inputs,
                                .b = weight + u * s->inputs + k * PANEL,
                                .depth = depth,
                                .c = y + u,
                                .c_row = s->units,
                                .columns = s->units - u < PANEL ? s->units - u : PANEL,
                                .add = k > 0,
                                .bias = last && bias != NULL ? bias + u : NULL},
                     rows);
    }
}

static void backward(const lki_dense_shape *s, int64_t rows, const float *d_y, const void *packed,
                     float *d_x, bool add)
{
    const float *weight = (const float *)(const void *)((const char *)packed + forward_bytes(s));
    for (int64_t u = 0; u < s->units; u += DEPTH)
        for (int64_t k = 0; k < s->inputs; k += PANEL)
            multiply(&(product){.a = d_y + u,
                                .a_row = s->units,
                                .b = weight + k * s->units + u * PANEL,
                                .depth = s->units - u < DEPTH ? s->units - u : DEPTH,
                                .c = d_x + k,
                                .c_row = s->inputs,
                                .columns = s->inputs - k < PANEL ? s->inputs - k : PANEL,
                                .add = add || u > 0},
                     rows);
}

const lki_vector_dense LKI_ISA_NAME(lki_vector_dense) = {
    .packed_bytes = packed_bytes,
    .pack = pack,
    .forward = forward,
    .backward = backward,
    .rows_bytes = LKI_ISA_NAME(lki_vector_rows_bytes),
    .rows = LKI_ISA_NAME(lki_vector_rows),
};
