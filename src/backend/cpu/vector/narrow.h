/*
 * The register tile of narrow results, those of fewer than LKI_NARROW columns: the panels of tile.h, summed
 * in double from the first term to the last, ascending, and rounded once. Products of floats are exact.
 *
 * A panel's lanes would be half empty, so this costs little; and most of these sums are too short for
 * the blocks of tile.h to keep their error small. A vector of doubles is half a vector of floats: V = 2 of
 * them hold LANES columns, V = 4 a panel.
 */
#ifndef LKI_CPU_VECTOR_NARROW_H
#define LKI_CPU_VECTOR_NARROW_H

#include "backend/cpu/vector/tile.h"

/* Accumulators of both kinds take the same registers. */
#define NARROW_ROWS (LANES == 16 ? TILE_ROWS : TILE_ROWS / 2)

/* Whether V is 4, not 2: never where a vector holds all columns of a narrow result. */
INLINE bool narrow_panel(int64_t columns)
{
    return LANES < LKI_NARROW && columns > LANES;
}

/* As doubles: a number in all lanes, a float in all lanes, and LANES / 2 floats; and c + a * b, where a * b is exact. */
#if defined(__AVX512F__)
INLINE vd vd_set(double x)
{
    return _mm512_set1_pd(x);
}
INLINE vd vd_spread(const float *p)
{
    return _mm512_cvtps_pd(_mm256_broadcast_ss(p));
}
INLINE vd vd_floats(const float *p)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}
INLINE vd vd_add_exact(vd c, vd a, vd b)
{
    return _mm512_fmadd_pd(a, b, c);
}
#elif defined(__AVX2__)
INLINE vd vd_set(double x)
{
    return _mm256_set1_pd(x);
}
INLINE vd vd_spread(const float *p)
{
    return _mm256_cvtps_pd(_mm_broadcast_ss(p));
}
INLINE vd vd_floats(const float *p)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
}
INLINE vd vd_add_exact(vd c, vd a, vd b)
{
    return _mm256_fmadd_pd(a, b, c);
}
#elif defined(LKI_NEON)
INLINE vd vd_set(double x)
{
    return (vd)vdupq_n_f64(x);
}
INLINE vd vd_spread(const float *p)
{
    return vd_set((double)*p);
}
INLINE vd vd_floats(const float *p)
{
    return (vd)vcvt_f64_f32(vld1_f32(p));
}
INLINE vd vd_add_exact(vd c, vd a, vd b)
{
    return (vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
INLINE vd vd_set(double x)
{
    vd v = {0};
    for (int i = 0; i < LANES / 2; i++) v[i] = x;
    return v;
}
INLINE vd vd_spread(const float *p)
{
    return vd_set((double)*p);
}
INLINE vd vd_floats(const float *p)
{
    vh half;
    memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, vd);
}
INLINE vd vd_add_exact(vd c, vd a, vd b)
{
    return c + a * b;
}
#endif

/* tile_run() of narrow results. R and V are constants, and R <= NARROW_ROWS. */
INLINE void narrow_run(const int R, const int V, vd acc[][4], const float *a, int64_t row,
                       int64_t step, const float *b, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++, a += step, b += PANEL) {
        vd column[4];
        UNROLL
        for (int v = 0; v < V; v++) column[v] = vd_floats(b + v * LANES / 2);
        UNROLL
        for (int r = 0; r < R; r++) {
            const vd x = vd_spread(a + r * row);
            UNROLL
            for (int v = 0; v < V; v++) acc[r][v] = vd_add_exact(acc[r][v], x, column[v]);
        }
    }
}

INLINE void narrow_zero(const int R, const int V, vd acc[][4])
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) acc[r][v] = (vd){0};
    }
}

/* V vectors of each row wait at `total`, [r][PANEL]; the rest of the panel is 0 there. */
INLINE void narrow_load(const int R, const int V, vd acc[][4], const double *total)
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) acc[r][v] = vd_load(total + r * PANEL + v * LANES / 2);
    }
}

INLINE void narrow_store(const int R, const int V, vd acc[][4], double *total)
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < 4; v++)
            vd_store(total + r * PANEL + v * LANES / 2, v < V ? acc[r][v] : (vd){0});
    }
}

INLINE void narrow_round(const int R, const int V, vd acc[][4], vf to[][2])
{
    UNROLL
    for (int r = 0; r < R; r++) {
        to[r][0] = vf_join(acc[r][0], acc[r][1]);
        to[r][1] = vf_zero();
        if (V > 2) to[r][1] = vf_join(acc[r][2], acc[r][3]);
    }
}

#endif
