/* Passes over images whose factors are bfloat16 (bf16.c runs them, bf16_conv_pack.c packs the weight for them). */
#ifndef LKI_CPU_VECTOR_BF16_PASS_H
#define LKI_CPU_VECTOR_BF16_PASS_H

#include "backend/cpu/vector/bf16/bf16.h"
#include "backend/cpu/vector/conv/phase.h"

/* Columns from which on gathering costs more than the positions that are dropped. */
enum { BF16_WIDE = 12 };

/* One way: results are taken at `grid` places, from source pixel `first` + place + tap * tap_step on. */
typedef struct bf16_pass {
    int64_t channels, columns; /* of the source; of the result */
    int64_t source[2], grid[2], step[2], taps[2], tap_step[2];
    int64_t skipped[2]; /* taps in front of these, which are left out */
    frame frame;
    int64_t at[2]; /* in the frame: what result 0 has under tap 0 */
    bool line;     /* results follow each other as pixels of the source do, through all samples */
    bool gathers;
    int64_t terms;  /* of a result, whole blocks */
    int64_t panels; /* of 32 columns */
    const uint16_t *b;
    /* The result: floats from row to row, pixel to pixel, sample to sample. */
    int64_t c_row, c_pixel, c_sample;
    float *c;
    bool add, relu;
    const float *bias;
    int part, parts; /* of the panels; 0, 0: all of them */
} bf16_pass;

/* Fills in what follows from the rest; origin: the source pixel under tap 0 of result 0. Taps that meet no pixel are left
 * out where their terms are whole blocks, and so blocks of zeros. */
INLINE void bf16_layout(bf16_pass *p, const int64_t origin[2])
{
    p->frame = (frame){.channels = p->channels};
    for (int i = 0; i < 2; i++) {
        bf16_taps t = {.count = p->taps[i], .first = origin[i]};
        if (p->channels % BF16_TERMS == 0)
            t = bf16_meeting(t.count, p->tap_step[i], t.first, p->grid[i], p->step[i],
                             p->source[i]);
        const int64_t last = t.first + (p->grid[i] - 1) * p->step[i] +
                             (t.count - 1) * p->tap_step[i];
        p->taps[i] = t.count;
        p->skipped[i] = t.skipped;
        p->frame.before[i] = t.first < 0 ? -t.first : 0;
        p->frame.after[i] = last >= p->source[i] ? last + 1 - p->source[i] : 0;
        p->frame.size[i] = p->frame.before[i] + p->source[i] + p->frame.after[i];
        p->at[i] = t.first + p->frame.before[i];
    }
    const int64_t run = p->taps[1] * p->channels;
    p->line = p->taps[0] * p->taps[1] == 1 && p->frame.size[1] == p->grid[1] &&
              p->frame.size[0] == p->grid[0];
    p->gathers = p->step[0] != 1 || p->step[1] != 1 || (p->tap_step[1] != 1 && p->taps[1] > 1) ||
                 run % BF16_TERMS != 0 || (!p->line && p->grid[1] < BF16_WIDE);
    p->terms = bf16_whole(p->taps[0] * run);
    p->panels = (p->columns + BF16_SIDE - 1) / BF16_SIDE;
}

INLINE bf16_pass bf16_forward_pass(const lki_conv_shape *s)
{
    bf16_pass p = {.channels = s->channels, .columns = s->filters};
    for (int i = 0; i < 2; i++) {
        p.source[i] = s->in[i];
        p.grid[i] = s->out[i];
        p.step[i] = s->stride[i];
        p.taps[i] = s->kernel[i];
        p.tap_step[i] = s->dilation[i];
    }
    bf16_layout(&p, (const int64_t[2]){-s->padding[0], -s->padding[1]});
    p.c_pixel = s->filters;
    p.c_row = s->out[1] * s->filters;
    p.c_sample = s->out[0] * p.c_row;
    return p;
}

/* Passes of the data gradient. */
INLINE int64_t bf16_phases(const lki_conv_shape *s)
{
    return phases(s, 0) * phases(s, 1);
}

/* That of this number, with its phases along rows and columns; without terms where no tap reaches a pixel. */
INLINE bf16_pass bf16_phase_pass(const lki_conv_shape *s, int64_t number, phase way[2])
{
    way[0] = phase_of(s, 0, number / phases(s, 1));
    way[1] = phase_of(s, 1, number % phases(s, 1));
    bf16_pass p = {.channels = s->filters, .columns = s->channels};
    for (int i = 0; i < 2; i++) {
        p.source[i] = s->out[i];
        p.grid[i] = way[i].pixels;
        p.step[i] = 1;
        p.taps[i] = way[i].taps;
        p.tap_step[i] = way[i].out_step;
    }
    if (p.taps[0] > 0 && p.taps[1] > 0) bf16_layout(&p, (const int64_t[2]){way[0].out, way[1].out});
    p.c_pixel = s->stride[1] * s->channels;
    p.c_row = s->stride[0] * s->in[1] * s->channels;
    p.c_sample = s->in[0] * s->in[1] * s->channels;
    return p;
}

/* Elements of a pass's packed weight. */
INLINE int64_t bf16_packed(const bf16_pass *p)
{
    return p->panels * BF16_SIDE * p->terms;
}

/* bf16_conv_pack.c */
size_t LKI_ISA_NAME(lki_bf16_conv_packed_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_bf16_conv_pack)(const lki_conv_shape *s, const float *weight, void *packed,
                                      int part, int parts);

#endif
