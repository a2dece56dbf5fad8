/* Tiles of products of bfloat16 (bf16.h), by a matrix unit and by vectors. */
#include "backend/cpu/vector/bf16/bf16.h"

#if defined(__AVX512F__) && defined(__x86_64__)
#define HAS_MATRIX 1
#define MATRIX     __attribute__((target("amx-tile,amx-bf16")))

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
#endif

#if LANES == 16
enum { ROWS = 6 };
#else
enum { ROWS = 2 };
#endif

/* Two vectors of columns, from `column` on, of R rows. */
INLINE void vector_rows(const int R, const bf16_terms *t, const uint16_t *a, int64_t column,
                        float *c, bool begun)
{
    typedef uint32_t memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
    const uint16_t *b = t->b;
    int64_t offset[2];
    vf sum[ROWS][2];
    for (int i = 0; i < 2; i++) {
        const int64_t at = column + i * LANES;
        offset[i] = at / BF16_HALF * (BF16_BLOCK / 2) + at % BF16_HALF * 2;
    }
    UNROLL
    for (int r = 0; r < R; r++)
        for (int i = 0; i < 2; i++)
            sum[r][i] = begun ? vf_load(c + r * BF16_SIDE + i * LANES) : vf_zero();
    for (int64_t v = 0; v < t->taps; v++)
        for (int64_t k = 0; k < t->blocks; k++, b += BF16_BLOCK) {
            const uint16_t *from = a + v * t->a_tap + k * BF16_TERMS;
            vf even[ROWS][2], odd[ROWS][2];
            UNROLL
            for (int r = 0; r < R; r++)
                for (int i = 0; i < 2; i++) even[r][i] = odd[r][i] = vf_zero();
            for (int pair = 0; pair < BF16_TERMS / 2; pair++) {
                vf b_even[2], b_odd[2];
                for (int i = 0; i < 2; i++) {
                    const uint16_t *p = b + offset[i] + pair * 2 * BF16_HALF;
                    const vu both = *(const memory *)(const void *)p;
                    b_even[i] = (vf)(both << 16);
                    b_odd[i] = (vf)(both & 0xffff0000u);
                }
                UNROLL
                for (int r = 0; r < R; r++) {
                    const vf x = vf_set(lki_bf16_value(from[r * t->row + 2 * pair]));
                    const vf y = vf_set(lki_bf16_value(from[r * t->row + 2 * pair + 1]));
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

static void vector_half(const bf16_terms *t, const uint16_t *a, int64_t rows, float *c, bool begun)
{
    for (int64_t column = 0; column < BF16_SIDE; column += 2 * LANES) {
        int64_t r = 0;
        for (; r + ROWS <= rows; r += ROWS)
            vector_rows(ROWS, t, a + r * t->row, column, c + r * BF16_SIDE + column, begun);
        for (; r < rows; r++)
            vector_rows(1, t, a + r * t->row, column, c + r * BF16_SIDE + column, begun);
    }
}

void LKI_ISA_NAME(lki_bf16_tile)(bool matrix, const bf16_terms *t, const uint16_t *const a[2],
                                 int64_t rows, float *c, bool begun)
{
#ifdef HAS_MATRIX
    if (matrix) {
        matrix_tile(t, a, rows > BF16_HALF, c, begun);
        return;
    }
#endif
    (void)matrix;
    vector_half(t, a[0], rows < BF16_HALF ? rows : BF16_HALF, c, begun);
    if (rows > BF16_HALF) vector_half(t, a[1], rows - BF16_HALF, c + BF16_HALF * BF16_SIDE, begun);
}

void LKI_ISA_NAME(lki_bf16_begin)(bool matrix)
{
    (void)matrix;
#ifdef HAS_MATRIX
    if (matrix) matrix_begin();
#endif
}

void LKI_ISA_NAME(lki_bf16_end)(bool matrix)
{
    (void)matrix;
#ifdef HAS_MATRIX
    if (matrix) matrix_end();
#endif
}
