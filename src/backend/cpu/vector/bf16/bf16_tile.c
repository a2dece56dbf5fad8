/* Tiles of products of bfloat16 (bf16.h): by a matrix unit, by products of pairs, and by multiply-adds. */
#include "backend/cpu/vector/bf16/bf16.h"

/* Terms of block k of a run that are there. */
INLINE int64_t block_terms(const bf16_terms *t, int64_t k)
{
    return k + 1 < t->blocks ? BF16_TERMS : t->last;
}

#if defined(__AVX512F__) && defined(__x86_64__)
#define HAS_UNITS 1
#define MATRIX    __attribute__((target("amx-tile,amx-bf16")))
#define PAIRS     __attribute__((target("avx512bf16")))

/* Eight registers of 16 rows and 64 bytes: four of c, two of a, two of b. A constant, as compilers think that the
 * instruction reads 8 bytes of it. */
typedef struct matrix_layout {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} matrix_layout;
static const matrix_layout LAYOUT = {.palette = 1,
                                     .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                     .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

MATRIX static void matrix_begin(void)
{
    _tile_loadconfig(&LAYOUT);
}

MATRIX static void matrix_end(void)
{
    _tile_release();
}

MATRIX static void matrix_tile(const bf16_terms *t, const uint16_t *const a[2], bool two, float *c,
                               bool begun)
{
    const int64_t row = t->row * 2, c_row = BF16_SIDE * sizeof(float);
    const uint16_t *b = t->b;
    if (begun) {
        _tile_loadd(0, c, c_row);
        _tile_loadd(1, c + BF16_HALF, c_row);
        if (two) {
            _tile_loadd(2, c + BF16_HALF * BF16_SIDE, c_row);
            _tile_loadd(3, c + BF16_HALF * BF16_SIDE + BF16_HALF, c_row);
        }
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t v = 0; v < t->taps; v++)
        for (int64_t k = 0; k < t->blocks; k++, b += BF16_BLOCK) {
            const int64_t at = v * t->a_tap + k * BF16_TERMS;
            _tile_loadd(6, b, 64);
            _tile_loadd(4, a[0] + at, row);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + BF16_BLOCK / 2, 64);
            _tile_dpbf16ps(1, 4, 7);
            if (!two) continue;
            _tile_loadd(5, a[1] + at, row);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    _tile_stored(0, c, c_row);
    _tile_stored(1, c + BF16_HALF, c_row);
    if (two) {
        _tile_stored(2, c + BF16_HALF * BF16_SIDE, c_row);
        _tile_stored(3, c + BF16_HALF * BF16_SIDE + BF16_HALF, c_row);
    }
}

/*
 * vdpbf16ps adds the product of the upper halves of two lanes to a third, then that of the lower halves, each with
 * one rounding. So a lane has two terms of one chain, the earlier one in its upper half: of terms 0 to 3, whose lanes
 * lie in memory as (0 low, 1 high) and (2 low, 3 high), `even` has (2 low, 0 high), and `odd` (3 low, 1 high).
 */
enum { PAIR_ROWS = 6 };

/* Even and odd of each quad of a row's 32 terms. */
PAIRS INLINE void turn_quads(const uint16_t *from, uint32_t *to)
{
    const __m512i places = _mm512_broadcast_i32x4(
        _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
    _mm512_store_si512(to, _mm512_shuffle_epi8(_mm512_loadu_si512(from), places));
}

PAIRS INLINE __m512bh pair_of(uint32_t word)
{
    return (__m512bh)_mm512_set1_epi32((int)word);
}

/* 32 columns of R rows. */
PAIRS INLINE void pair_rows(const int R, const bf16_terms *t, const uint16_t *a, float *c,
                            bool begun)
{
    const __mmask32 low = 0x55555555;
    const uint16_t *b = t->b;
    for (int64_t k = 0; k < t->blocks; k++, a += BF16_TERMS, b += BF16_BLOCK, begun = true) {
        const int64_t end = block_terms(t, k);
        _Alignas(64) uint32_t quads[PAIR_ROWS][BF16_TERMS / 2];
        __m512 even[PAIR_ROWS][2], odd[PAIR_ROWS][2];
        UNROLL
        for (int r = 0; r < R; r++) {
            turn_quads(a + r * t->row, quads[r]);
            for (int i = 0; i < 2; i++) even[r][i] = odd[r][i] = _mm512_setzero_ps();
        }
        /* Unrolled, compilers would take the words out of registers, by shuffles. */
        _Pragma("GCC unroll 1") for (int64_t term = 0; term < end; term += 4)
        {
            __m512bh b_even[2], b_odd[2];
            for (int i = 0; i < 2; i++) {
                const uint16_t *p = b + i * (BF16_BLOCK / 2) + term * BF16_HALF;
                const __m512i first = _mm512_loadu_si512(p);
                const __m512i second = _mm512_loadu_si512(p + 2 * BF16_HALF);
                b_even[i] = (__m512bh)_mm512_mask_mov_epi16(_mm512_slli_epi32(first, 16), low,
                                                            second);
                b_odd[i] = (__m512bh)_mm512_mask_mov_epi16(first, low,
                                                           _mm512_srli_epi32(second, 16));
            }
            UNROLL
            for (int r = 0; r < R; r++) {
                const __m512bh x = pair_of(quads[r][term / 2]), y = pair_of(quads[r][term / 2 + 1]);
                for (int i = 0; i < 2; i++) {
                    even[r][i] = _mm512_dpbf16_ps(even[r][i], x, b_even[i]);
                    odd[r][i] = _mm512_dpbf16_ps(odd[r][i], y, b_odd[i]);
                }
            }
        }
        UNROLL
        for (int r = 0; r < R; r++)
            for (int i = 0; i < 2; i++) {
                float *to = c + r * BF16_SIDE + i * LANES;
                vf_store(to, (begun ? vf_load(to) : vf_zero()) + (even[r][i] + odd[r][i]));
            }
    }
}

PAIRS static void pair_part(int64_t rows, const bf16_terms *t, const uint16_t *a, float *c,
                            bool begun)
{
    switch (rows) {
    case 1:
        pair_rows(1, t, a, c, begun);
        break;
    case 2:
        pair_rows(2, t, a, c, begun);
        break;
    case 3:
        pair_rows(3, t, a, c, begun);
        break;
    case 4:
        pair_rows(4, t, a, c, begun);
        break;
    case 5:
        pair_rows(5, t, a, c, begun);
        break;
    default:
        pair_rows(6, t, a, c, begun);
        break;
    }
}
#endif

#if LANES == 16
enum { VECTOR_ROWS = 6 };
#else
enum { VECTOR_ROWS = 2 };
#endif

/* Two vectors of columns, from `column` on, of R rows. */
INLINE void vector_rows(const int R, const bf16_terms *t, const uint16_t *a, int64_t column,
                        float *c, bool begun)
{
    typedef uint32_t memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
    const uint16_t *b = t->b;
    int64_t offset[2];
    vf sum[VECTOR_ROWS][2];
    for (int i = 0; i < 2; i++) {
        const int64_t at = column + i * LANES;
        offset[i] = at / BF16_HALF * (BF16_BLOCK / 2) + at % BF16_HALF * 2;
    }
    UNROLL
    for (int r = 0; r < R; r++)
        for (int i = 0; i < 2; i++)
            sum[r][i] = begun ? vf_load(c + r * BF16_SIDE + i * LANES) : vf_zero();
    for (int64_t k = 0; k < t->blocks; k++, a += BF16_TERMS, b += BF16_BLOCK) {
        const int64_t end = block_terms(t, k);
        vf even[VECTOR_ROWS][2], odd[VECTOR_ROWS][2];
        UNROLL
        for (int r = 0; r < R; r++)
            for (int i = 0; i < 2; i++) even[r][i] = odd[r][i] = vf_zero();
        for (int64_t term = 0; term < end; term += 2) {
            vf b_even[2], b_odd[2];
            for (int i = 0; i < 2; i++) {
                const uint16_t *p = b + offset[i] + term * BF16_HALF;
                const vu both = *(const memory *)(const void *)p;
                b_even[i] = (vf)(both << 16);
                b_odd[i] = (vf)(both & 0xffff0000u);
            }
            UNROLL
            for (int r = 0; r < R; r++) {
                const vf x = vf_set(lki_bf16_value(a[r * t->row + term]));
                const vf y = vf_set(lki_bf16_value(a[r * t->row + term + 1]));
                for (int i = 0; i < 2; i++) {
                    even[r][i] = vf_fma(x, b_even[i], even[r][i]);
                    odd[r][i] = vf_fma(y, b_odd[i], odd[r][i]);
                }
            }
        }
        UNROLL
        for (int r = 0; r < R; r++)
            for (int i = 0; i < 2; i++) sum[r][i] += even[r][i] + odd[r][i];
    }
    UNROLL
    for (int r = 0; r < R; r++)
        for (int i = 0; i < 2; i++) vf_store(c + r * BF16_SIDE + i * LANES, sum[r][i]);
}

static void vector_part(int64_t rows, const bf16_terms *t, const uint16_t *a, float *c, bool begun)
{
    for (int64_t column = 0; column < BF16_SIDE; column += 2 * LANES) switch (rows) {
        case 1:
            vector_rows(1, t, a, column, c + column, begun);
            break;
#if LANES == 16
        case 2:
            vector_rows(2, t, a, column, c + column, begun);
            break;
        case 3:
            vector_rows(3, t, a, column, c + column, begun);
            break;
        case 4:
            vector_rows(4, t, a, column, c + column, begun);
            break;
        case 5:
            vector_rows(5, t, a, column, c + column, begun);
            break;
#endif
        default:
            vector_rows(VECTOR_ROWS, t, a, column, c + column, begun);
            break;
        }
}

/* Up to 16 rows, by parts of about the same size. */
static void vector_half(lki_bf16_unit unit, const bf16_terms *t, const uint16_t *a, int64_t rows,
                        float *c, bool begun)
{
    for (int64_t left = rows; left > 0;) {
        const int64_t parts = (left + VECTOR_ROWS - 1) / VECTOR_ROWS;
        const int64_t n = (left + parts - 1) / parts;
#ifdef HAS_UNITS
        if (unit == LKI_BF16_PAIRS)
            pair_part(n, t, a, c, begun);
        else
#endif
            vector_part(n, t, a, c, begun);
        (void)unit;
        left -= n;
        a += n * t->row;
        c += n * BF16_SIDE;
    }
}

/* So many blocks of b at a time stay in the nearest cache for all rows. */
enum { NEAR_BLOCKS = 8 };

static void vector_tile(lki_bf16_unit unit, const bf16_terms *t, const uint16_t *const a[2],
                        int64_t rows, float *c, bool begun)
{
    bf16_terms part = {.row = t->row, .b = t->b};
    for (int64_t v = 0; v < t->taps; v++)
        for (int64_t k = 0; k < t->blocks; k += NEAR_BLOCKS, begun = true) {
            const int64_t left = t->blocks - k, at = v * t->a_tap + k * BF16_TERMS;
            part.blocks = left < NEAR_BLOCKS ? left : NEAR_BLOCKS;
            part.last = left <= NEAR_BLOCKS ? t->last : BF16_TERMS;
            vector_half(unit, &part, a[0] + at, rows < BF16_HALF ? rows : BF16_HALF, c, begun);
            if (rows > BF16_HALF)
                vector_half(unit, &part, a[1] + at, rows - BF16_HALF, c + BF16_HALF * BF16_SIDE,
                            begun);
            part.b += part.blocks * BF16_BLOCK;
        }
}

void LKI_ISA_NAME(lki_bf16_tile)(lki_bf16_unit unit, const bf16_terms *t,
                                 const uint16_t *const a[2], int64_t rows, float *c, bool begun)
{
#ifdef HAS_UNITS
    if (unit == LKI_BF16_MATRIX) {
        matrix_tile(t, a, rows > BF16_HALF, c, begun);
        return;
    }
#endif
    vector_tile(unit, t, a, rows, c, begun);
}

void LKI_ISA_NAME(lki_bf16_begin)(lki_bf16_unit unit)
{
    (void)unit;
#ifdef HAS_UNITS
    if (unit == LKI_BF16_MATRIX) matrix_begin();
#endif
}

void LKI_ISA_NAME(lki_bf16_end)(lki_bf16_unit unit)
{
    (void)unit;
#ifdef HAS_UNITS
    if (unit == LKI_BF16_MATRIX) matrix_end();
#endif
}
