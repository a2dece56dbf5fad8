/*
 * The register tile of matrix products: R rows by PANEL = 2 * LANES columns.
 *
 *                 b[k]: PANEL floats, panels of consecutive k follow each other
 *               [ vector 0 | vector 1 ]
 *   a[r][k] --> [ c[r][0]  | c[r][1]  ]   r < R <= TILE_ROWS
 *
 * The terms of an element's sum are numbered, k = 0, 1, ... 64 consecutive numbers are a block, 16
 * blocks are a group. A block's sum is one accumulator, c = fma(a[r][k], b[k], c) in ascending k from +0;
 * the blocks of a group are added in f32, ascending; the groups in double, and the total is rounded
 * to f32, once:
 *
 *   number   0 ... 63 | 64 ... 127 | ... 1023 | 1024 ... 1087 | ... k
 *   block    c        | c          |     c    | c             |     c       f32, in registers
 *   group    c        + c          + ... c    | c             + ... c       f32
 *   total    .............................. g + ...................... g    double -> f32
 *                                                           then + bias, + what is there, relu
 *
 * So the error stays that of about a hundred terms, however many there are. Between blocks a group
 * waits in memory, while the next block is summed in the same registers; totals are touched once in a
 * thousand terms, and sums of one block never leave the registers.
 *
 * None of this depends on where the tile lies or on what R is.
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

/* Where every third row of a begins, where rows are not a constant apart. An address is a register, and a second one or its
 * double: of 12 rows four registers and their distance are enough, where compilers take one for each, and have not so many. */
enum { TILE_THIRDS = (TILE_ROWS + 2) / 3 };
INLINE void tile_thirds(const int R, const float *at[TILE_THIRDS], const float *a, int64_t row)
{
    UNROLL
    for (int i = 0; i < (R + 2) / 3; i++) {
        at[i] = a + 3 * i * row;
        __asm__("" : "+r"(at[i])); /* what it has to do with the others is forgotten */
    }
}

/* acc[r] += sum over k < depth of a[r * row + k * step] * b[k * pitch ...]. R is a constant. With each term two
 * lines are fetched that are needed later, ahead + k * pace and beyond + k * stride; NULL: none. */
INLINE void tile_run_fetch(const int R, vf acc[][2], const float *a, int64_t row, int64_t step,
                           const float *b, int64_t pitch, int64_t depth, const float *ahead,
                           int64_t pace, const float *beyond, int64_t stride)
{
    const bool thirds = !__builtin_constant_p(row);
    const float *at[TILE_THIRDS];
    if (thirds) tile_thirds(R, at, a, row);
    for (int64_t k = 0; k < depth; k++, a += step, b += pitch) {
        if (ahead != NULL) __builtin_prefetch(ahead + k * pace);
        if (beyond != NULL) __builtin_prefetch(beyond + k * stride);
        const vf b0 = vf_load(b), b1 = vf_load(b + LANES);
        UNROLL
        for (int r = 0; r < R; r++) {
            const vf x = vf_set(thirds ? at[r / 3][r % 3 * row] : a[r * row]);
            acc[r][0] = vf_fma(x, b0, acc[r][0]);
            acc[r][1] = vf_fma(x, b1, acc[r][1]);
        }
        for (int i = 0; i < (R + 2) / 3 && thirds; i++) at[i] += step;
    }
}
INLINE void tile_run_ahead(const int R, vf acc[][2], const float *a, int64_t row, int64_t step,
                           const float *b, int64_t depth, const float *ahead, int64_t pace)
{
    tile_run_fetch(R, acc, a, row, step, b, PANEL, depth, ahead, pace, NULL, 0);
}
INLINE void tile_run(const int R, vf acc[][2], const float *a, int64_t row, int64_t step,
                     const float *b, int64_t depth)
{
    tile_run_ahead(R, acc, a, row, step, b, depth, NULL, 0);
}

INLINE void tile_zero(const int R, vf acc[][2])
{
    UNROLL
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = vf_zero();
}

/* Columns [0, columns) of the tile; columns <= PANEL. */
INLINE void tile_load(const int R, vf acc[][2], const float *c, int64_t row, int64_t columns)
{
    const int64_t first = columns < LANES ? columns : LANES;
    UNROLL
    for (int r = 0; r < R; r++) {
        acc[r][0] = vf_get(c + r * row, first);
        acc[r][1] = columns > LANES ? vf_get(c + r * row + LANES, columns - LANES) : vf_zero();
    }
}

/* Pieces of rows that lie far apart are asked for before the sum begins that they take. */
INLINE void tile_fetch(const int R, const float *c, int64_t row)
{
    UNROLL
    for (int r = 0; r < R; r++)
        for (int k = 0; k < PANEL; k += 16) __builtin_prefetch(c + r * row + k, 1);
}

INLINE void tile_store(const int R, vf acc[][2], float *c, int64_t row, int64_t columns)
{
    const int64_t first = columns < LANES ? columns : LANES;
    UNROLL
    for (int r = 0; r < R; r++) {
        vf_put(c + r * row, acc[r][0], first);
        if (columns > LANES) vf_put(c + r * row + LANES, acc[r][1], columns - LANES);
    }
}

/* Where the sums of a tile wait, [r][PANEL] each; undefined until a block ends. */
typedef struct tile_wait {
    float *group;  /* the blocks of the group that is not complete */
    double *total; /* the groups before it */
} tile_wait;

/* The accumulators become the sum of the group so far. */
INLINE void tile_add(const int R, vf acc[][2], const float *group)
{
    UNROLL
    for (int r = 0; r < R; r++) {
        acc[r][0] = vf_load(group + r * PANEL) + acc[r][0];
        acc[r][1] = vf_load(group + r * PANEL + LANES) + acc[r][1];
    }
}

/* A group ends: into the totals, which start with it if it is `first`. */
INLINE void tile_fold(const int R, vf acc[][2], double *total, bool first)
{
    UNROLL
    for (int r = 0; r < R; r++) {
        vf_fold(total + r * PANEL, acc[r][0], first);
        vf_fold(total + r * PANEL + LANES, acc[r][1], first);
    }
}

/* The sum of the totals and the last group, rounded. */
INLINE void tile_total(const int R, vf acc[][2], const double *total)
{
    UNROLL
    for (int r = 0; r < R; r++) {
        acc[r][0] = vf_total(total + r * PANEL, acc[r][0]);
        acc[r][1] = vf_total(total + r * PANEL + LANES, acc[r][1]);
    }
}

/* A block ends at `number`, a multiple of LKI_BLOCK_TERMS: it waits, and the accumulators are 0. `first`:
 * its group would be the first of the total. */
INLINE void tile_block(const int R, vf acc[][2], tile_wait at, int64_t number, bool first)
{
    if (number % LKI_GROUP_TERMS != LKI_BLOCK_TERMS) tile_add(R, acc, at.group);
    if (number % LKI_GROUP_TERMS == 0)
        tile_fold(R, acc, at.total, first);
    else
        tile_store(R, acc, at.group, PANEL, PANEL);
    tile_zero(R, acc);
}

/* A sum ends behind `terms` numbers, with the block of the last one in the accumulators; `first`: the
 * last group is the only one. */
INLINE void tile_end(const int R, vf acc[][2], tile_wait at, int64_t terms, bool first)
{
    if ((terms - 1) % LKI_GROUP_TERMS >= LKI_BLOCK_TERMS) tile_add(R, acc, at.group);
    if (!first) tile_total(R, acc, at.total);
}

/* Where one vector holds the columns, the tile's two are of two rows of a each, `gap` floats apart; HALF: where half a
 * vector does, it has the columns of two sums, and for each term a has a vector of both. b's vectors are `pitch` floats
 * apart; the rest is tile_run_fetch()'s. */
enum { HALF = 0 };
INLINE void tile_run_pairs(const int R, const bool half, vf acc[][2], const float *a, int64_t row,
                           int64_t gap, const float *b, const int pitch, int64_t depth,
                           const float *ahead, int64_t pace, const float *beyond)
{
    const float *at[TILE_THIRDS];
    tile_thirds(R, at, a, row);
    for (int64_t k = 0; k < depth; k++, b += pitch) {
        if (ahead != NULL) __builtin_prefetch(ahead + k * pace);
        if (beyond != NULL) __builtin_prefetch(beyond + k * pace);
        const vf column = vf_load(b);
        UNROLL
        for (int r = 0; r < R; r++) {
            const float *one = at[r / 3] + r % 3 * row, *other = at[r / 3] + (r % 3 * row + gap);
            acc[r][0] = vf_fma(half ? vf_load(one) : vf_set(*one), column, acc[r][0]);
            acc[r][1] = vf_fma(half ? vf_load(other) : vf_set(*other), column, acc[r][1]);
        }
        for (int i = 0; i < (R + 2) / 3; i++) at[i] += half ? LANES : 1;
    }
}

/* A tile's a: from row to row and from term to term; of pairs between the two rows, and the step is 1. */
typedef struct tile_rows {
    const float *a;
    int64_t row, step, gap;
} tile_rows;

/* Terms [number, end) of `terms`, from a block's border on, as tile_run_ahead() takes them, or tile_run_pairs() with the
 * first vectors of a panel; blocks that are followed by a term end. False: the sum does not end here. `begun`: totals have,
 * with terms in front of these; `more`: others come behind the last of these. Both begin with number 0. */
INLINE bool tile_stretch(const int R, const bool pairs, vf acc[][2], tile_wait at, int64_t number,
                         int64_t end, int64_t terms, bool begun, bool more, tile_rows of,
                         const float *b, const float *ahead, int64_t pace)
{
    tile_zero(R, acc);
    while (number < end) {
        const int64_t n = end - number < LKI_BLOCK_TERMS ? end - number : LKI_BLOCK_TERMS;
        const float *beyond = ahead != NULL && pace > 16 ? ahead + 16 : NULL; /* the second line */
        if (pairs)
            tile_run_pairs(R, false, acc, of.a, of.row, of.gap, b, PANEL, n, ahead, pace, beyond);
        else
            tile_run_fetch(R, acc, of.a, of.row, of.step, b, PANEL, n, ahead, pace, beyond, pace);
        of.a += pairs ? n : n * of.step;
        b += n * PANEL;
        if (ahead != NULL) ahead += n * pace;
        number += n;
        if (number < terms) tile_block(R, acc, at, number, !begun && number == LKI_GROUP_TERMS);
    }
    if (end < terms) return false;
    const bool first = !begun && end <= LKI_GROUP_TERMS;
    tile_end(R, acc, at, end, more || first);
    if (more) tile_fold(R, acc, at.total, first);
    return !more;
}

/* Terms in several runs: the number of the next, from a border of groups on, and whether totals have begun. */
typedef struct tile_sum {
    int64_t number;
    bool begun;
} tile_sum;

/* The next `depth` terms, with 2 vectors of columns as tile_run_ahead() takes them; blocks that are followed by a
 * term end. */
INLINE void tile_terms(const int R, const int vectors, vf acc[][2], tile_wait at, tile_sum *sum,
                       const float *a, int64_t row, const float *b, int64_t depth,
                       const float *ahead, int64_t pace)
{
    while (depth > 0) {
        const int64_t inside = sum->number % LKI_BLOCK_TERMS, left = LKI_BLOCK_TERMS - inside;
        const int64_t n = depth < left ? depth : left;
        if (inside == 0 && sum->number > 0) {
            tile_block(R, acc, at, sum->number, !sum->begun);
            sum->begun |= sum->number % LKI_GROUP_TERMS == 0;
        }
        if (vectors == 2)
            tile_run_ahead(R, acc, a, row, 1, b, n, ahead, pace);
        else
            tile_run_pairs(R, vectors == HALF, acc, a, 2 * row, row, b, LANES, n, NULL, 0, NULL);
        a += vectors == HALF ? n * LANES : n;
        b += vectors == 2 ? n * PANEL : n * LANES;
        if (ahead != NULL) ahead += n * pace;
        depth -= n;
        sum->number += n;
    }
}

/* The next `terms` are zeros that are left out. In front of the first one that is there no block ends: groups of zeros
 * do not begin, and blocks of zeros are one zero that waits. */
INLINE void tile_skip(const int R, vf acc[][2], tile_wait at, tile_sum *sum, int64_t terms)
{
    if (sum->number == 0) {
        sum->number = terms % LKI_GROUP_TERMS;
        if (sum->number >= LKI_BLOCK_TERMS) tile_store(R, acc, at.group, PANEL, PANEL);
        return;
    }
    while (terms > 0) {
        const int64_t inside = sum->number % LKI_BLOCK_TERMS, left = LKI_BLOCK_TERMS - inside;
        if (inside == 0) {
            tile_block(R, acc, at, sum->number, !sum->begun);
            sum->begun |= sum->number % LKI_GROUP_TERMS == 0;
        }
        sum->number += terms < left ? terms : left;
        terms -= left;
    }
}

/* What is added to a total, and what becomes of it: + bias, + what is there, relu; then it is stored. */
INLINE void tile_put(const int R, vf acc[][2], float *c, int64_t row, int64_t columns,
                     const float *bias, bool add, bool relu)
{
    vf more[TILE_ROWS][2];
    if (bias != NULL) {
        tile_load(1, more, bias, 0, columns);
        UNROLL
        for (int r = 0; r < R; r++) {
            acc[r][0] += more[0][0];
            acc[r][1] += more[0][1];
        }
    }
    if (add) {
        tile_load(R, more, c, row, columns);
        UNROLL
        for (int r = 0; r < R; r++) {
            acc[r][0] += more[r][0];
            acc[r][1] += more[r][1];
        }
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        acc[r][0] = relu ? vf_relu_flush(acc[r][0]) : vf_flush(acc[r][0]);
        acc[r][1] = relu ? vf_relu_flush(acc[r][1]) : vf_flush(acc[r][1]);
    }
    tile_store(R, acc, c, row, columns);
}

/* tile_put() of pairs, whose rows of c are `gap` floats apart; columns <= LANES. A row may be in two pairs: what is there is
 * read of all before one is written. */
INLINE void tile_put_pairs(const int R, vf acc[][2], float *c, int64_t row, int64_t gap,
                           int64_t columns, const float *bias, bool add)
{
    if (bias != NULL) {
        const vf more = vf_get(bias, columns);
        UNROLL
        for (int r = 0; r < R; r++) {
            acc[r][0] += more;
            acc[r][1] += more;
        }
    }
    UNROLL
    for (int r = 0; r < R && add; r++) {
        acc[r][0] += vf_get(c + r * row, columns);
        acc[r][1] += vf_get(c + r * row + gap, columns);
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        vf_put(c + r * row, vf_flush(acc[r][0]), columns);
        vf_put(c + r * row + gap, vf_flush(acc[r][1]), columns);
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

/* Cuts rows into tiles of nearly equal height, at most `most`: in the body, `first` and `height` are the
 * tile's. One division for all of them. */
#define FOR_TILES_OF(most, first, height, rows)                                                    \
    for (int64_t first = 0, tiles_ = ((rows) + (most)-1) / (most),                                 \
                 least_ = tiles_ > 0 ? (rows) / tiles_ : 0, more_ = (rows)-least_ * tiles_,        \
                 height;                                                                           \
         height = least_ + (more_ > 0), first < (rows); first += height, more_--)
#define FOR_TILES(first, height, rows) FOR_TILES_OF(TILE_ROWS, first, height, rows)

#endif
