/*
 * The gradients of dense layers by rows whose factors are bfloat16: as rows.c, with tiles of 32 units by 32 inputs. Terms
 * are samples of a replica, whose last block is filled up with zeros, so that each segment begins a block:
 *
 *   a   dy, [unit][place of a sample]
 *   b   x, [panel of 32 inputs][block of 32 places]
 *
 * A tile takes one segment after the other, and the sums that wait in the tree lie on its stack; that of a replica whose
 * segments have not all been there lies on top.
 */
#include "backend/cpu/vector/bf16/bf16.h"
#include "backend/cpu/vector/rows.h"

enum { SQUARE = BF16_SIDE * BF16_SIDE };

/* Places of the node's samples. */
static int64_t node_places(const block *b)
{
    int64_t all = 0;
    for (int64_t r = b->node.lo; r < b->node.hi; r++)
        all += bf16_whole(rows_start(b->shape, b->rows, r + 1) - rows_start(b->shape, b->rows, r));
    return all;
}

int64_t LKI_ISA_NAME(lki_bf16_rows_columns)(block *b)
{
    const int64_t places = node_places(b);
    int64_t panels = X_FLOATS * 2 / (BF16_SIDE * (places < SAMPLES ? places : SAMPLES));
    b->stack_row = 0;
    if (places > SAMPLES) {
        const int depth = lki_tree_slots(b->rows->replicas, b->node.lo, b->node.hi);
        const int64_t most = STACK_FLOATS / (depth * SQUARE * (BLOCK_ROWS / BF16_SIDE));
        if (panels > most) panels = most;
        b->stack_row = depth * SQUARE;
    }
    return panels * BF16_SIDE < SUMS_ROW ? panels * BF16_SIDE : SUMS_ROW;
}

/* Rows of 32 terms of a segment from number k on; NULL behind its last. */
INLINE void segment_terms(const segment *s, int64_t k, const float *from, int64_t step,
                          const float *terms[BF16_TERMS])
{
    for (int64_t i = 0; i < BF16_TERMS; i++)
        terms[i] = k + i < s->count ? from + (k + i) * step : NULL;
}

void LKI_ISA_NAME(lki_bf16_rows_copy_x)(const block *b)
{
    const int64_t inputs = b->shape->inputs;
    const float *from = b->rows->in + (b->begin + b->sample) * inputs, *terms[BF16_TERMS];
    uint16_t *x = (uint16_t *)(void *)b->space->x;
    for (const segment *s = b->space->segment; s < b->space->segment + b->segments; s++) {
        for (int64_t k = 0; k < s->count; k += BF16_TERMS) {
            segment_terms(s, k, from + b->column, inputs, terms);
            for (int64_t column = 0; column < b->columns; column += BF16_SIDE) {
                uint16_t *to = x + column * b->places + (s->first + k) * BF16_SIDE;
                bf16_block(terms, BF16_TERMS / 2, column, b->columns, to);
                bf16_turn_quads(b->shape->unit, to, BF16_TERMS);
            }
        }
        from += s->count * inputs;
    }
}

void LKI_ISA_NAME(lki_bf16_rows_copy_dy)(const block *b)
{
    const int64_t units = b->shape->units;
    const float *from = b->rows->d_out + (b->begin + b->sample) * units, *terms[BF16_TERMS];
    uint16_t *dy = (uint16_t *)(void *)b->space->dy;
    for (const segment *s = b->space->segment; s < b->space->segment + b->segments; s++) {
        for (int64_t k = 0; k < s->count; k += BF16_TERMS) {
            segment_terms(s, k, from + b->row, units, terms);
            for (int64_t unit = 0; unit < b->row_count; unit += BF16_HALF)
                bf16_turn_terms(terms, unit, b->row_count, b->places,
                                dy + unit * b->places + s->first + k);
        }
        from += s->count * units;
    }
}

/* All segments of a tile, whose sums wait on its stack; those of the last one go to `sums`. */
static void bf16_rows_tile(const block *b, const uint16_t *dy, const uint16_t *x, int64_t rows,
                           float *stack, float *sums)
{
    for (int i = 0; i < b->segments; i++) {
        const segment *s = &b->space->segment[i];
        const int64_t blocks = bf16_whole(s->count) / BF16_TERMS;
        const bf16_terms terms = {.row = b->places,
                                  .taps = 1,
                                  .blocks = blocks,
                                  .last = s->count - (blocks - 1) * BF16_TERMS,
                                  .b = x + s->first * BF16_SIDE};
        const uint16_t *a[2] = {dy + s->first, dy + BF16_HALF * b->places + s->first};
        float *top = stack + s->depth * SQUARE;
        LKI_ISA_NAME(lki_bf16_tile)(b->shape->unit, &terms, a, rows, top, s->number > 0);
        if (s->number + s->count < s->terms) continue; /* the replica goes on */
        for (int64_t at = 0; at < SQUARE; at += LANES)
            vf_store(top + at, vf_flush(vf_load(top + at)));
        for (int m = 0; m < s->merges; m++, top -= SQUARE)
            for (int64_t at = 0; at < SQUARE; at += LANES)
                vf_store(top - SQUARE + at, vf_load(top - SQUARE + at) + vf_load(top + at));
    }
    for (int64_t r = 0; r < rows && b->last; r++)
        memcpy(sums + r * SUMS_ROW, stack + r * BF16_SIDE, BF16_SIDE * sizeof *sums);
}

void LKI_ISA_NAME(lki_bf16_rows_block)(const block *b)
{
    const uint16_t *dy = (const uint16_t *)(const void *)b->space->dy;
    const uint16_t *x = (const uint16_t *)(const void *)b->space->x;
    float *stack = b->space->stack;
    for (int64_t unit = 0; unit < b->row_count; unit += BF16_SIDE) {
        const int64_t left = b->row_count - unit, rows = left < BF16_SIDE ? left : BF16_SIDE;
        LKI_ISA_NAME(lki_bf16_begin)(b->shape->unit);
        for (int64_t k = 0; k < b->columns; k += BF16_SIDE, stack += b->stack_row) {
            rows_soon(b, unit, rows, k, BF16_SIDE);
            bf16_rows_tile(b, dy + unit * b->places, x + k * b->places, rows, stack,
                           &b->space->sums[0][k]);
        }
        LKI_ISA_NAME(lki_bf16_end)(b->shape->unit);
        if (b->last) rows_give(b, unit, rows);
    }
}
