/*
 * The weight of dense layers whose factors are bfloat16, packed as bf16_conv_pack.c packs that of a convolution of one tap, but by
 * blocks of 16 or 32 units and 32 inputs, so that what an update has just written can be packed again.
 *
 *   forward   [panel of 32 units][block of 32 inputs]     terms are inputs
 *   backward  [panel of 32 inputs][block of 32 units]     terms are units
 */
#include "backend/cpu/vector/bf16/bf16.h"
#include "backend/cpu/vector/rows.h"

/* 32 units from u on and 32 inputs from k on: a block of each packing, or of 16 units a half of them. */
static void bf16_dense_block(const lki_dense_shape *s, const float *w, int64_t u, int64_t units,
                             int64_t k, uint16_t *forward, uint16_t *backward)
{
    const int64_t left = s->inputs - k, inputs = left < BF16_TERMS ? left : BF16_TERMS;
    const int64_t half = u % BF16_SIDE / BF16_HALF;
    const float *row[BF16_TERMS];
    for (int64_t i = 0; i < BF16_TERMS; i++)
        row[i] = i < units && u + i < s->units ? w + (u + i) * s->inputs + k : NULL;
    forward += half * (BF16_BLOCK / 2);
    for (int64_t i = 0; i < units; i += BF16_HALF, forward += BF16_BLOCK / 2) {
        uint32_t pairs[BF16_HALF][BF16_HALF] = {0};
        for (int r = 0; r < BF16_HALF; r++)
            if (row[i + r] != NULL) bf16_round_row(inputs, row[i + r], (uint16_t *)pairs[r]);
        bf16_turn(pairs, 2 * BF16_HALF, forward);
        bf16_turn_quads(s->unit, forward, BF16_HALF);
    }
    backward += half * BF16_HALF * BF16_HALF;
    bf16_block(row, units / 2, 0, inputs, backward);
    for (int i = 0; i < 2; i++)
        bf16_turn_quads(s->unit, backward + i * (BF16_BLOCK / 2), units / 2);
}

/* What fills up the last block is written with the last unit. */
void LKI_ISA_NAME(lki_bf16_dense_pack_part)(const lki_dense_shape *s, const float *weight,
                                            void *packed, int64_t row, int64_t rows, int64_t column,
                                            int64_t columns)
{
    const int64_t blocks[2] = {bf16_whole(s->inputs) / BF16_TERMS,
                               bf16_whole(s->units) / BF16_TERMS};
    const int64_t end = row + rows == s->units ? bf16_whole(s->units) : row + rows;
    uint16_t *forward = packed, *backward = forward + blocks[0] * blocks[1] * BF16_BLOCK;
    for (int64_t u = row, units; u < end; u += units) {
        units = u % BF16_SIDE == 0 && u + BF16_SIDE <= end ? BF16_SIDE : BF16_HALF;
        const int64_t of_u = u / BF16_SIDE;
        for (int64_t k = column; k < column + columns; k += BF16_TERMS) {
            const int64_t of_k = k / BF16_TERMS;
            bf16_dense_block(s, weight, u, units, k,
                             forward + (of_u * blocks[0] + of_k) * BF16_BLOCK,
                             backward + (of_k * blocks[1] + of_u) * BF16_BLOCK);
        }
    }
}
