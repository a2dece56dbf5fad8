/*
 * Weights of dense layers are packed twice, as panels for tile.h (with masks once, in wider ones: masks.h; and once
 * where the gradient of the input is not asked for):
 *
 *   forward   [block of PANEL units][input][PANEL]     y = x W^T: the sum is over inputs
 *   backward  [block of PANEL inputs][unit][PANEL]     dx = dy W: the sum is over units
 */
#include "backend/cpu/vector/rows.h"
#include "backend/cpu/vector/transpose.h"

enum {
    STRIP = 256,
    TURNED = 16,    /* inputs of a panel that are turned, and written past the caches, together */
    LARGE = 1 << 24 /* bytes of both: no cache keeps them until they are read */
};

static int64_t blocks(int64_t n)
{
    return (n + PANEL - 1) / PANEL;
}

/* With masks one packing is for both. */
static bool packs_backward(const lki_dense_shape *s)
{
    return !s->masks && !s->forward_only;
}

int64_t LKI_ISA_NAME(lki_dense_forward_floats)(const lki_dense_shape *s)
{
    return blocks(s->units) * s->inputs * PANEL;
}

size_t LKI_ISA_NAME(lki_dense_packed_bytes)(const lki_dense_shape *s)
{
    const int64_t backward = packs_backward(s) ? blocks(s->inputs) * s->units * PANEL : 0;
    return sizeof(float) * (size_t)(LKI_ISA_NAME(lki_dense_forward_floats)(s) + backward);
}

INLINE void pack_put(const bool stream, float *to, vf v)
{
    if (stream)
        vf_stream(to, v);
    else
        vf_store(to, v);
}

/* TURNED inputs of a whole panel of units. */
INLINE void turn_past(const float *from, float *to)
{
    float turned[TURNED * PANEL];
    for (int64_t j = 0; j < TURNED; j += 4)
        for (int64_t i = 0; i < PANEL; i += 4)
            transpose4(from + i * (STRIP + LANES) + j, STRIP + LANES, turned + j * PANEL + i, PANEL,
                       false);
    for (int64_t i = 0; i < TURNED * PANEL; i += LANES) vf_stream(to + i, vf_load(turned + i));
}

/* Units [u, u + units) of one panel x inputs [k, k + n), n <= STRIP, by way of a small copy: rows of the weight
 * are often a multiple of 4,096 bytes apart. What comes next is fetched on the way: the processor does not
 * foresee it, as rows take turns. */
static void dense_pack_block(const lki_dense_shape *s, const float *w, int64_t u, int64_t units,
                             int64_t k, int64_t n, float *to_forward, float *to_backward)
{
    const bool stream = !s->masks && LKI_ISA_NAME(lki_dense_packed_bytes)(s) > LARGE;
    float copy[PANEL][STRIP + LANES];
    const int64_t lanes = u + units < s->units ? units : PANEL - u % PANEL; /* behind the last 0 */
    if (units < lanes || n % PANEL != 0) memset(copy, 0, sizeof copy);
    for (int64_t i = 0; i < units; i++) {
        const float *row = w + (u + i) * s->inputs + k;
        memcpy(copy[i], row, sizeof(float) * (size_t)n);
        for (int64_t next = STRIP; next < 2 * STRIP && k + next < s->inputs; next += 16)
            __builtin_prefetch(row + next);
    }
    const int64_t group = s->masks ? u / MASKS_UNITS * MASKS_UNITS : u / PANEL * PANEL;
    const int64_t width = s->masks ? masks_width(s->units, group) : PANEL;
    float *to = to_forward + (group * s->inputs + k * width + (u - group));
    const int64_t whole = n - n % 4, streamed = stream && lanes == PANEL ? n - n % TURNED : 0;
    for (int64_t j = 0; j < streamed; j += TURNED) turn_past(&copy[0][j], to + j * PANEL);
    for (int64_t j = streamed; j < whole; j += 4)
        for (int64_t i = 0; i < lanes; i += 4)
            transpose4(&copy[i][j], STRIP + LANES, to + j * width + i, width, false);
    for (int64_t j = whole; j < n; j++)
        for (int64_t i = 0; i < lanes; i++) to[j * width + i] = copy[i][j];
    for (int64_t j = 0; j < n && packs_backward(s); j += PANEL)
        for (int64_t i = 0; i < units; i++) {
            float *row = to_backward + (k + j) * s->units + (u + i) * PANEL;
            pack_put(stream, row, vf_load(copy[i] + j));
            pack_put(stream, row + LANES, vf_load(copy[i] + j + LANES));
        }
}

void LKI_ISA_NAME(lki_dense_pack_part)(const lki_dense_shape *s, const float *weight, void *packed,
                                       int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    float *forward = packed;
    float *backward = forward + LKI_ISA_NAME(lki_dense_forward_floats)(s);
    for (int64_t u = row, units; u < row + rows; u += units) {
        units = PANEL - u % PANEL;
        if (units > row + rows - u) units = row + rows - u;
        for (int64_t k = column; k < column + columns; k += STRIP) {
            const int64_t left = column + columns - k, n = left < STRIP ? left : STRIP;
            dense_pack_block(s, weight, u, units, k, n, forward, backward);
        }
    }
    vf_stream_end();
}

void LKI_ISA_NAME(lki_dense_pack)(const lki_dense_shape *s, const float *weight, void *packed,
                                  int64_t first, int64_t count)
{
    LKI_ISA_NAME(lki_dense_pack_part)(s, weight, packed, first, count, 0, s->inputs);
}
