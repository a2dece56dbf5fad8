/* Tiles of products of bfloat16 (bf16.h): by a matrix unit, by products of pairs, and by multiply-adds. */
#include "backend/cpu/vector/bf16/bf16.h"

/* Terms of block k of a run that are there. */
INLINE int64_t block_terms(const bf16_terms *t, int64_t k)
{
    return k + 1 < t->blocks ? BF16_TERMS : t->last;
}

/* Where the block behind block *k of a run lies, and its number. */
INLINE const uint16_t *block_next(const bf16_terms *t, const uint16_t *a, int64_t *k)
{
    if (++*k < t->blocks) return a + BF16_TERMS;
    *k = 0;
    return a + t->a_tap - (t->blocks - 1) * BF16_TERMS;
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
 * one rounding. So a lane has two terms of one chain, the earlier one in its upper half: of a quad of terms 0 to 3,
 * `even` has (2 low, 0 high), and `odd` (3 low, 1 high). b is packed so; rows of a are turned block by block. Where it
 * is known that factors of b are 0, quads are made of the other terms of either chain (bf16_order).
 */
enum { PAIR_ROWS = 6 };

#define QUAD(i) i + 2, i, i + 3, i + 1
static const uint16_t QUADS[BF16_TERMS] = {QUAD(0),  QUAD(4),  QUAD(8),  QUAD(12),
                                           QUAD(16), QUAD(20), QUAD(24), QUAD(28)};
#undef QUAD

PAIRS INLINE __m512i pair_places(const bf16_terms *t, int64_t k)
{
    return _mm512_loadu_si512(t->order != NULL ? t->order[k].place : QUADS);
}

PAIRS INLINE int64_t pair_quads(const bf16_terms *t, int64_t k)
{
    return t->order != NULL ? t->order[k].quads : (block_terms(t, k) + 3) / 4;
}

PAIRS INLINE void pair_turn(__m512i places, const uint16_t *row, uint32_t *to)
{
    _mm512_store_si512(to, _mm512_permutexvar_epi16(places, _mm512_loadu_si512(row)));
}

PAIRS INLINE __m512bh pair_of(uint32_t word)
{
    return (__m512bh)_mm512_set1_epi32((int)word);
}

/* 32 columns of R rows; a block's rows are turned while the block in front of it is multiplied. */
PAIRS INLINE void pair_rows(const int R, const bf16_terms *t, const uint16_t *a, float *c,
                            bool begun)
{
    _Alignas(64) uint32_t words[2][PAIR_ROWS][BF16_TERMS / 2];
    const uint16_t *b = t->b;
    const int64_t all = t->taps * t->blocks;
    for (int r = 0; r < R; r++) pair_turn(pair_places(t, 0), a + r * t->row, words[0][r]);
    for (int64_t i = 0, k = 0; i < all; i++, b += BF16_BLOCK, begun = true) {
        const int64_t quads = pair_quads(t, k);
        a = block_next(t, a, &k);
        uint32_t(*now)[BF16_TERMS / 2] = words[i % 2], (*to)[BF16_TERMS / 2] = words[(i + 1) % 2];
        const __m512i places = pair_places(t, k);
        const uint16_t *next = a;
        int64_t left = i + 1 < all ? R : 0;
        __m512 even[PAIR_ROWS][2], odd[PAIR_ROWS][2];
        UNROLL
        for (int r = 0; r < R; r++)
            for (int v = 0; v < 2; v++) even[r][v] = odd[r][v] = _mm512_setzero_ps();
        /* Unrolled, compilers would take the words out of registers, by shuffles. */
        _Pragma("GCC unroll 1") for (int64_t q = 0; q < quads; q++)
        {
            if (left > 0) {
                pair_turn(places, next, *to++);
                next += t->row;
                left--;
            }
            __m512bh b_even[2], b_odd[2];
            for (int v = 0; v < 2; v++) {
                const uint16_t *p = b + v * (BF16_BLOCK / 2) + q * 4 * BF16_HALF;
                b_even[v] = (__m512bh)_mm512_loadu_si512(p);
                b_odd[v] = (__m512bh)_mm512_loadu_si512(p + 2 * BF16_HALF);
            }
            UNROLL
            for (int r = 0; r < R; r++) {
                const __m512bh x = pair_of(now[r][2 * q]), y = pair_of(now[r][2 * q + 1]);
                for (int v = 0; v < 2; v++) {
                    even[r][v] = _mm512_dpbf16_ps(even[r][v], x, b_even[v]);
                    odd[r][v] = _mm512_dpbf16_ps(odd[r][v], y, b_odd[v]);
                }
            }
        }
        for (; left > 0; left--, next += t->row) pair_turn(places, next, *to++);
        UNROLL
        for (int r = 0; r < R; r++)
            for (int v = 0; v < 2; v++) {
                float *sum = c + r * BF16_SIDE + v * LANES;
                vf_store(sum, (begun ? vf_load(sum) : vf_zero()) + (even[r][v] + odd[r][v]));
            }
    }
}

PAIRS static void pair_part(int64_t rows, const bf16_terms *t, const uint16_t *a, float *c,
                            bool begun)
{
#define PART(R) pair_rows(R, t, a, c, begun)
    switch (rows) {
        TILE_CASES_6(PART)
    }
#undef PART
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
    for (int64_t n = t->taps * t->blocks, k = 0; n > 0; n--, a = block_next(t, a, &k)) {
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
        b += BF16_BLOCK;
    }
    UNROLL
    for (int r = 0; r < R; r++)
        for (int i = 0; i < 2; i++) vf_store(c + r * BF16_SIDE + i * LANES, sum[r][i]);
}

static void vector_part(int64_t rows, const bf16_terms *t, const uint16_t *a, float *c, bool begun)
{
#define PART(R)                                                                                    \
    if ((R) <= VECTOR_ROWS) vector_rows(R, t, a, column, c + column, begun)
    for (int64_t column = 0; column < BF16_SIDE; column += 2 * LANES) switch (rows) {
            TILE_CASES_6(PART)
        }
#undef PART
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

/* So many blocks of b at a time stay in the nearest cache for all rows: of a run, or some whole runs. */
enum { NEAR_BLOCKS = 8 };

static void vector_tile(lki_bf16_unit unit, const bf16_terms *t, const uint16_t *const a[2],
                        int64_t rows, float *c, bool begun)
{
    const int64_t together = t->blocks < NEAR_BLOCKS ? NEAR_BLOCKS / t->blocks : 1;
    bf16_terms part = *t;
    for (int64_t v = 0; v < t->taps; v += part.taps)
        for (int64_t k = 0; k < t->blocks; k += part.blocks, begun = true) {
            const int64_t left = t->blocks - k, at = v * t->a_tap + k * BF16_TERMS;
            part.taps = t->taps - v < together ? t->taps - v : together;
            part.blocks = left < NEAR_BLOCKS ? left : NEAR_BLOCKS;
            part.last = left <= NEAR_BLOCKS ? t->last : BF16_TERMS;
            part.order = t->order != NULL ? t->order + k : NULL;
            vector_half(unit, &part, a[0] + at, rows < BF16_HALF ? rows : BF16_HALF, c, begun);
            if (rows > BF16_HALF)
                vector_half(unit, &part, a[1] + at, rows - BF16_HALF, c + BF16_HALF * BF16_SIDE,
                            begun);
            part.b += part.taps * part.blocks * BF16_BLOCK;
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
