/*
 * Attention by tiles: 64 rows by 64 keys, numbered from the first position, what its files share.
 *
 *                     keys of block b
 *                  [ K' packed by column ]            [ V in panels ]
 *     rows of q    [ s, then p: a tile   ]   -> p V   [ o: o = o c + p V ]      forward, block by block
 *
 *     d_v += p' d_o,    d_k += d_s' q,    d_q += d_s k,    d_s from p and d_o V'      backward, tile by tile
 *
 * Every product is one accumulator from +0 over at most 64 terms, ascending, and then meets what is there in one
 * operation. So no bit depends on how a tile is cut (docs/numerics.md, 3), and nothing has positions x positions.
 *
 * A matrix in panels, [rows][width], is [panel of columns][row][PANEL], rows up to a whole block, zeros behind its end; by
 * column it is [panel of rows][column][PANEL].
 */
#ifndef LKI_CPU_VECTOR_ATTENTION_H
#define LKI_CPU_VECTOR_ATTENTION_H

#include "backend/cpu/vector/activation.h"
#include "backend/cpu/vector/tile.h"
#include "base/memory.h"

enum {
    SIDE = 64,  /* of a tile */
    STAIR = 16, /* rows of a tile on the diagonal that see as many keys, up to a multiple of this */
    PARTS = 16 / LANES
};

INLINE int64_t whole_blocks(int64_t positions)
{
    return (positions + SIDE - 1) / SIDE * SIDE;
}

INLINE int64_t panel_width(int64_t width)
{
    return (width + PANEL - 1) / PANEL * PANEL;
}

INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `count` rows of x, `row` floats apart, turned by their positions, from `first` on, if `turns`, into rows [0, count)
 * of panels that have `rows`; behind them zeros up to a whole block. `room`: a row. */
void LKI_ISA_NAME(lki_attention_panels)(const lki_attention_head *head, const float *x, int64_t row,
                                        bool turns, int64_t first, int64_t count, int64_t rows,
                                        float *room, float *panels);
/* The same matrix by column. */
void LKI_ISA_NAME(lki_attention_columns)(const float *panels, int64_t rows, int64_t width,
                                         float *columns);
/* Rows of panels, times the factor, turned back if `turns`: written or added. */
void LKI_ISA_NAME(lki_attention_put)(const lki_attention_head *head, const float *panels,
                                     bool turns, float factor, float *x, bool add, float *room);
/* Of a tile: s[r][j] = the product of row r of `a`, in panels that have `rows`, and of column j of `b`, by column, from
 * its first panel on; columns up to a panel. s is [SIDE][SIDE]. */
void LKI_ISA_NAME(lki_attention_scores)(const float *a, int64_t rows, const float *b,
                                        int64_t columns, int64_t width, int64_t count, float *s);
/* o[r] = o[r] factor[r] + the sum over k < depth of a[r * row + k * step] b[k], flushed: `count` rows of o, in panels;
 * o and b have `rows` and `terms` in a panel. factor NULL: 1. */
void LKI_ISA_NAME(lki_attention_products)(int64_t count, const float *a, int64_t row, int64_t step,
                                          const float *b, int64_t terms, int64_t depth,
                                          int64_t width, const float *factor, float *o,
                                          int64_t rows);

/* backward.c: of the table. */
size_t LKI_ISA_NAME(lki_attention_backward_bytes)(int64_t positions, int64_t width);
void LKI_ISA_NAME(lki_attention_backward_begin)(const lki_attention_head *head, void *workspace);
void LKI_ISA_NAME(lki_attention_backward)(const lki_attention_head *head, const float *out,
                                          const float *d_out, int64_t out_row, const float *most,
                                          const float *inverse, float *d_q, bool add,
                                          void *workspace);
void LKI_ISA_NAME(lki_attention_backward_end)(const lki_attention_head *head, float *d_k,
                                              float *d_v, bool add, void *workspace);

/* What of a tile a row sees: the first `limit` keys; of them those whose number, below SIDE, is below it. */
typedef struct attention_tile {
    int64_t key;         /* its first key */
    int64_t count;       /* keys */
    const float *number; /* of each */
    bool whole;          /* every row sees all SIDE keys */
} attention_tile;

static const float attention_numbers[SIDE] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* Rows from `first` on. */
INLINE attention_tile attention_tile_of(const lki_attention_head *head, int64_t first, int64_t key)
{
    attention_tile t = {.key = key, .count = smaller(head->positions - key, SIDE)};
    t.number = head->number != NULL ? head->number + key : attention_numbers;
    t.whole = head->number == NULL && t.count == SIDE && (!head->causal || first >= key + SIDE - 1);
    return t;
}

/* How many of its keys row i sees, but for the padding. */
INLINE int64_t attention_limit(const lki_attention_head *head, const attention_tile *t, int64_t i)
{
    return head->causal ? smaller(i + 1 - t->key, t->count) : t->count;
}

/* Rows of a tile that are taken together, from row i on: all, but on the diagonal. */
INLINE int64_t attention_rows(const lki_attention_head *head, const attention_tile *t, int64_t i,
                              int64_t last)
{
    const bool stairs = head->causal && i < t->key + SIDE - 1;
    return smaller(last - i, stairs ? STAIR : SIDE);
}

/* Keys that rows up to `last`, exclusive, have products with: up to a multiple of STAIR. */
INLINE int64_t attention_reach(const lki_attention_head *head, const attention_tile *t,
                               int64_t last)
{
    const int64_t limit = attention_limit(head, t, last - 1);
    return limit <= 0 ? 0 : smaller((limit + STAIR - 1) / STAIR * STAIR, SIDE);
}

INLINE vf vf_infinity(void)
{
    return vf_set(-__builtin_inff());
}

/* A vector of a row of scores, -infinity where a key takes no part. */
INLINE vf attention_score(const float *s, vf scale, const attention_tile *t, int64_t j, vf limit)
{
    const vf x = vf_load(s + j) * scale;
    if (t->whole) return x;
    return vf_blend(vm_gt(limit, vf_load(t->number + j)), x, vf_infinity());
}

/* Which weights of row i stay, behind dropout. */
INLINE void attention_draw(const lki_attention_head *head, const attention_tile *t, int64_t i,
                           uint8_t *dropped)
{
    LKI_ISA_NAME(lki_vector_dropout)
        .draw(head->drop, head->key, head->step, head->position,
              head->first + i * head->positions + t->key, t->count, dropped);
}

/* The sum of 16 lanes: l and l + 8, then 4, 2, 1. */
INLINE float attention_lanes(float lane[16])
{
    for (int w = 8; w > 0; w /= 2)
        for (int l = 0; l < w; l++) lane[l] += lane[l + w];
    return lane[0];
}

#endif
