/* The weight of a convolution whose factors are bfloat16, packed for its passes (bf16_pass.h), one after the other. */
#include "backend/cpu/vector/bf16/bf16_pass.h"
#include "numeric/tree.h"

enum { PACK_TAPS = 9 }; /* of a kernel whose weight is packed in squares, at most */

/* The weight as a pass reads it: floats from column to column, tap to tap, channel to channel. */
typedef struct bf16_factor {
    const float *weight;
    int64_t column, tap[2], channel;
    int64_t first; /* where the pass's tap 0 lies */
    int64_t taps;  /* of the kernel, side by side */
} bf16_factor;

static void bf16_pack_panel(const bf16_pass *p, const bf16_factor *w, int64_t panel, uint16_t *to)
{
    const int64_t left = p->columns - panel * BF16_SIDE, taps = p->taps[0] * p->taps[1];
    for (int64_t i = 0; i < (left < BF16_SIDE ? left : BF16_SIDE); i++) {
        const float *column = w->weight + w->first + (panel * BF16_SIDE + i) * w->column;
        uint16_t *place = to + i / BF16_HALF * (BF16_BLOCK / 2) + i % BF16_HALF * 2;
        for (int64_t tap = 0, k = 0; tap < taps; tap++) {
            const float *from = column + tap / p->taps[1] * w->tap[0] +
                                tap % p->taps[1] * w->tap[1];
            for (int64_t c = 0; c < p->channels; c++, k++)
                place[(k / BF16_TERMS * BF16_BLOCK | k / 2 % BF16_HALF * 2 * BF16_HALF) + k % 2] =
                    lki_bf16(from[c * w->channel]);
        }
    }
}

/* Where a tap has whole blocks: 32 columns by 32 channels, under all taps, wait rounded in the nearest cache. */
static void bf16_pack_squares(const bf16_pass *p, const bf16_factor *w, int64_t panel, uint16_t *to)
{
    uint16_t square[BF16_SIDE * BF16_TERMS * PACK_TAPS];
    const bool by_column = w->column > w->channel; /* rows of the weight are columns, or channels */
    const int64_t left = p->columns - panel * BF16_SIDE;
    const int64_t columns = left < BF16_SIDE ? left : BF16_SIDE;
    const int64_t rows = by_column ? columns : BF16_TERMS;
    const int64_t step = by_column ? w->column : w->channel;
    const int64_t row = (by_column ? BF16_TERMS : columns) * w->taps;
    for (int64_t k = 0; k < p->channels; k += BF16_TERMS) {
        const float *from = w->weight + panel * BF16_SIDE * w->column + k * w->channel;
        for (int64_t i = 0; i < rows; i++) bf16_round_row(row, from + i * step, square + i * row);
        for (int64_t v = 0; v < p->taps[0]; v++)
            for (int64_t h = 0; h < p->taps[1]; h++)
                bf16_pack_square(square + w->first + v * w->tap[0] + h * w->tap[1], columns,
                                 by_column ? row : w->taps, by_column ? w->taps : row,
                                 to + ((v * p->taps[1] + h) * p->channels + k) * BF16_SIDE);
    }
}

/* Panels [begin, end) of all passes; `number`: of this pass's first; returns what follows. */
static uint16_t *bf16_pack_pass(const bf16_pass *p, bf16_factor w, lki_bf16_unit unit,
                                int64_t *number, int64_t begin, int64_t end, uint16_t *to)
{
    const bool squares = p->channels % BF16_TERMS == 0 && w.taps <= PACK_TAPS;
    w.first += p->skipped[0] * w.tap[0] + p->skipped[1] * w.tap[1];
    for (int64_t i = 0; i < p->panels; i++, ++*number, to += BF16_SIDE * p->terms) {
        if (*number < begin || *number >= end) continue;
        if ((i + 1) * BF16_SIDE > p->columns || p->channels % BF16_TERMS != 0)
            memset(to, 0, (size_t)(BF16_SIDE * p->terms) * sizeof *to);
        (squares ? bf16_pack_squares : bf16_pack_panel)(p, &w, i, to);
        bf16_turn_quads(unit, to, p->terms);
    }
    return to;
}

size_t LKI_ISA_NAME(lki_bf16_conv_packed_bytes)(const lki_conv_shape *s)
{
    const bf16_pass forward = bf16_forward_pass(s);
    int64_t all = bf16_packed(&forward);
    for (int64_t i = 0; i < bf16_phases(s); i++) {
        phase way[2];
        const bf16_pass p = bf16_phase_pass(s, i, way);
        all += bf16_packed(&p);
    }
    return (size_t)all * sizeof(uint16_t);
}

void LKI_ISA_NAME(lki_bf16_conv_pack)(const lki_conv_shape *s, const float *weight, void *packed,
                                      int part, int parts)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], size = s->channels * taps;
    const bf16_pass forward = bf16_forward_pass(s);
    int64_t panels = forward.panels, number = 0;
    phase way[2];
    for (int64_t i = 0; i < bf16_phases(s); i++) panels += bf16_phase_pass(s, i, way).panels;
    const int64_t begin = lki_share(part, parts, panels), end = lki_share(part + 1, parts, panels);
    const bf16_factor ahead = {weight, size, {s->kernel[1], 1}, taps, 0, taps};
    uint16_t *to = bf16_pack_pass(&forward, ahead, s->unit, &number, begin, end, packed);
    for (int64_t i = 0; i < bf16_phases(s); i++) {
        const bf16_pass p = bf16_phase_pass(s, i, way);
        const int64_t last = way[0].tap * s->kernel[1] + way[1].tap;
        const int64_t up = -way[0].step * s->kernel[1], left = -way[1].step;
        const bf16_factor back = {weight, taps, {up, left}, size, last, taps};
        to = bf16_pack_pass(&p, back, s->unit, &number, begin, end, to);
    }
}
