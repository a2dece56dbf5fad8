/*
 * The register tile of matrix products: R rows by PANEL = 2 * LANES columns.
 *
 *                 b[k]: PANEL floats, panels of consecutive k follow each other
 *               [ vector 0 | vector 1 ]
 *   a[r][k] --> [ c[r][0]  | c[r][1]  ]   r < R <= TILE_ROWS
 *
 * Every element is one accumulator, c = fma(a[r][k], b[k], c) in ascending k, wherever the tile lies
 * and whatever R is.
 */
#ifndef LKI_CPU_VECTOR_TILE_H
#define LKI_CPU_VECTOR_TILE_H

#include "backend/cpu/vector/isa.h"

#if LANES == 16 || defined(LKI_NEON) /* 32 registers */
#define TILE_ROWS 12
#else
#define TILE_ROWS 6
#endif
#define PANEL (2 * LANES)

INLINE void tile_step(const int R, vf acc[][2], const float *a, int64_t row, const float *b)
{
    const vf b0 = vf_load(b), b1 = vf_load(b + LANES);
    for (int r = 0; r < R; r++) {
        const vf x = vf_set(a[r * row]);
        acc[r][0] = vf_fma(x, b0, acc[r][0]);
        acc[r][1] = vf_fma(x, b1, acc[r][1]);
    }
}

/* acc[r] += sum over k < depth of a[r * row + k * step] * b[k * PANEL ...]. R is a constant. Four
 * steps a turn: short loops of a fixed length are predicted to their end. */
INLINE void tile_run(const int R, vf acc[][2], const float *a, int64_t row, int64_t step,
                     const float *b, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++, a += step, b += PANEL) tile_step(R, acc, a, row, b);
}

INLINE void tile_zero(const int R, vf acc[][2])
{
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = vf_zero();
}

/* Columns [0, columns) of the tile; columns <= PANEL. */
INLINE void tile_load(const int R, vf acc[][2], const float *c, int64_t row, int64_t columns)
{
    const int64_t first = columns < LANES ? columns : LANES;
    for (int r = 0; r < R; r++) {
        acc[r][0] = vf_get(c + r * row, first);
        acc[r][1] = columns > LANES ? vf_get(c + r * row + LANES, columns - LANES) : vf_zero();
    }
}

INLINE void tile_store(const int R, vf acc[][2], float *c, int64_t row, int64_t columns)
{
    const int64_t first = columns < LANES ? columns : LANES;
    for (int r = 0; r < R; r++) {
        vf_put(c + r * row, acc[r][0], first);
        if (columns > LANES) vf_put(c + r * row + LANES, acc[r][1], columns - LANES);
    }
}

/* In a switch over the number of rows: case 1: F(1); break; ... case TILE_ROWS: F(TILE_ROWS);
 * break; so that R is a constant in F. */
// clang-format off
#define TILE_CASES_6(F)                                                                            \
    TILE_CASE(F, 1) TILE_CASE(F, 2) TILE_CASE(F, 3) TILE_CASE(F, 4) TILE_CASE(F, 5) TILE_CASE(F, 6)
#if TILE_ROWS == 12
#define TILE_CASES(F)                                                                              \
    TILE_CASES_6(F) TILE_CASE(F, 7) TILE_CASE(F, 8) TILE_CASE(F, 9) TILE_CASE(F, 10)               \
    TILE_CASE(F, 11) TILE_CASE(F, 12)
#else
#define TILE_CASES(F) TILE_CASES_6(F)
#endif
// clang-format on
#define TILE_CASE(F, R)                                                                            \
    case R:                                                                                        \
        F(R);                                                                                      \
        break;

/* Cuts rows into tiles of nearly equal height: in the body, `first` and `height` are the tile's.
 * One division for all of them. */
#define FOR_TILES(first, height, rows)                                                             \
    for (int64_t first = 0, tiles_ = ((rows) + TILE_ROWS - 1) / TILE_ROWS,                         \
                 least_ = tiles_ > 0 ? (rows) / tiles_ : 0, more_ = (rows)-least_ * tiles_,        \
                 height;                                                                           \
         height = least_ + (more_ > 0), first < (rows); first += height, more_--)

#endif
