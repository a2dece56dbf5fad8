/* What the files of convolutions share. */
#ifndef LKI_CPU_VECTOR_CONV_H
#define LKI_CPU_VECTOR_CONV_H

#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/narrow.h"
#include "base/memory.h"

/* An image with a border of zeros, rows and columns; all 0 where none is needed. */
typedef struct frame {
    int64_t before[2], after[2];
    int64_t size[2]; /* border included */
    int64_t channels;
} frame;

INLINE bool frame_needed(const frame *f)
{
    return (f->before[0] | f->before[1] | f->after[0] | f->after[1]) != 0;
}

INLINE int64_t frame_floats(const frame *f)
{
    return f->size[0] * f->size[1] * f->channels;
}

/* Of so many images with their border. */
INLINE size_t frame_bytes(const frame *f, int64_t count)
{
    const size_t row = lki_times((size_t)f->size[1], (size_t)f->channels * sizeof(float));
    return lki_times((size_t)count, lki_times((size_t)f->size[0], row));
}

/* Of the input, for the forward pass and the weight gradient. */
frame LKI_ISA_NAME(lki_conv_frame)(const lki_conv_shape *s);
/* Copies an image without border into `to`. */
void LKI_ISA_NAME(lki_conv_fill)(const frame *f, const float *from, float *to);

INLINE int64_t conv_blocks(int64_t n)
{
    return (n + PANEL - 1) / PANEL;
}

/* A kernel's row is one run of kernel[1] * channels values where these lie side by side. */
INLINE bool conv_runs(const lki_conv_shape *s)
{
    return s->groups == 1 && s->dilation[1] == 1;
}

/* Taps that a filter has, and where tap `tap` of the kernel lies among them. */
INLINE int64_t conv_taps(const lki_conv_shape *s)
{
    return (s->before[0] + s->kernel[0] + s->behind[0]) *
           (s->before[1] + s->kernel[1] + s->behind[1]);
}
INLINE int64_t conv_tap(const lki_conv_shape *s, int64_t tap)
{
    return (s->before[0] + tap / s->kernel[1]) * (s->before[1] + s->kernel[1] + s->behind[1]) +
           s->before[1] + tap % s->kernel[1];
}

/* Floats of the weight as panels [group][block of filters][tap][channel][PANEL]. */
INLINE int64_t conv_panel_floats(const lki_conv_shape *s)
{
    return s->groups * conv_blocks(s->filters / s->groups) * s->kernel[0] * s->kernel[1] *
           (s->channels / s->groups) * PANEL;
}

/* A pass over rows of a grid of pixels: c = sum over taps and depth of a * b. */
typedef struct sweep {
    int64_t taps[2];            /* rows, columns */
    int64_t all, skipped[2];    /* columns of taps that have numbers; taps in front of the first */
    int64_t a_tap[2], b_tap[2]; /* floats from tap to tap */
    int64_t depth, all_depth;   /* channels under a tap in a block, in all */
    int64_t lead, gap;          /* terms left out in front of the first, and between rows of taps */
    int64_t grid[2];            /* pixels of a sample */
    int64_t row, rows;          /* which rows; they are counted through the samples */
    int64_t a_pixel[2], c_pixel[2];
    int64_t a_sample, c_sample; /* floats from sample to sample */
    const float *a, *b;
    float *c;
    int64_t
        pace; /* of tile_run_ahead(): 0 where the next tile's part of a is not behind this one's */
    int64_t columns; /* of c that exist in this panel */
    bool add, relu;
    const float *bias;
    bool first, last; /* block of channels */
    bool many;        /* more than one block of terms in all */
    bool narrow;      /* narrow.h; there is one block of channels */
    tile_wait at;     /* of one tile; with several blocks of channels, totals [pixel][PANEL] */
} sweep;

/* taps, depth, columns and `many` are constants where it is worth it: loops of three turns vanish. */
INLINE void sweep_tile(const int R, const bool many, const sweep *s, const int64_t taps[2],
                       int64_t depth, int64_t columns, const float *a, float *c, tile_wait at)
{
    const float *ahead = s->pace > 0 ? a + R * s->a_pixel[1] : a;
    vf acc[TILE_ROWS][2];
    tile_sum sum = {.begun = !s->first};
    tile_zero(R, acc);
    if (s->last) tile_fetch(R, c, s->c_pixel[1]);
    for (int64_t v = 0; v < taps[0]; v++) {
        const int64_t zeros = v == 0 ? s->lead : s->gap;
        if (many && zeros > 0) tile_skip(R, acc, at, &sum, zeros);
        for (int64_t h = 0; h < taps[1]; h++) {
            const float *x = a + v * s->a_tap[0] + h * s->a_tap[1];
            const float *b = s->b + v * s->b_tap[0] + h * s->b_tap[1];
            if (many)
                tile_terms(R, 2, acc, at, &sum, x, s->a_pixel[1], b, depth, ahead, s->pace);
            else
                tile_run_ahead(R, acc, x, s->a_pixel[1], 1, b, depth, ahead, s->pace);
        }
    }
    if (many && !s->last) {
        tile_end(R, acc, at, sum.number, true);
        tile_fold(R, acc, at.total, !sum.begun);
        return;
    }
    if (many) tile_end(R, acc, at, sum.number, !sum.begun);
    tile_put(R, acc, c, s->c_pixel[1], columns, s->bias, s->add, s->relu);
}

/* The same for narrow results. */
INLINE void sweep_narrow(const int R, const int V, const sweep *s, const float *a, float *c)
{
    vd acc[NARROW_ROWS][4];
    vf sums[TILE_ROWS][2];
    narrow_zero(R, V, acc);
    for (int64_t v = 0; v < s->taps[0]; v++)
        for (int64_t h = 0; h < s->taps[1]; h++)
            narrow_run(R, V, acc, a + v * s->a_tap[0] + h * s->a_tap[1], s->a_pixel[1], 1,
                       s->b + v * s->b_tap[0] + h * s->b_tap[1], s->depth);
    narrow_round(R, V, acc, sums);
    tile_put(R, sums, c, s->c_pixel[1], s->columns, s->bias, s->add, s->relu);
}

/* V is 0 where the result is not narrow. */
INLINE void sweep_rows(const int V, const bool many, const sweep *s, const int64_t taps[2],
                       int64_t depth, int64_t columns)
{
    const int64_t each = s->first && s->last ? 0 : PANEL;
    int64_t sample = s->row / s->grid[0], y = s->row % s->grid[0];
    for (int64_t r = 0; r < s->rows; r++) {
        const float *a_row = s->a + sample * s->a_sample + y * s->a_pixel[0];
        float *c_row = s->c + sample * s->c_sample + y * s->c_pixel[0];
        FOR_TILES_OF(V > 0 ? NARROW_ROWS : TILE_ROWS, first, height, s->grid[1])
        {
            const float *a = a_row + first * s->a_pixel[1];
            float *c = c_row + first * s->c_pixel[1];
            const tile_wait at = {.group = s->at.group,
                                  .total = s->at.total + (r * s->grid[1] + first) * each};
#define SWEEP(R)                                                                                   \
    if (V == 0)                                                                                    \
        sweep_tile(R, many, s, taps, depth, columns, a, c, at);                                    \
    else if ((R) <= NARROW_ROWS)                                                                   \
    sweep_narrow(R, V, s, a, c)
            switch (height) {
                TILE_CASES(SWEEP)
            }
#undef SWEEP
        }
        if (++y == s->grid[0]) {
            y = 0;
            sample++;
        }
    }
}

INLINE void sweep_grid(const sweep *s)
{
    if (s->narrow && narrow_panel(s->columns))
        sweep_rows(4, false, s, s->taps, s->depth, s->columns);
    else if (s->narrow)
        sweep_rows(2, false, s, s->taps, s->depth, s->columns);
    else if (s->many)
        sweep_rows(0, true, s, s->taps, s->depth, s->columns);
    else
        sweep_rows(0, false, s, s->taps, s->depth, s->columns);
}

/* Whether packed panels are so large (more than 256 KiB) that each goes over all samples, not a sample over all panels. */
INLINE bool conv_large(int64_t floats)
{
    return floats > 64 * 1024;
}
enum { FEW_COLUMNS = 4 }; /* rows of fewer pixels make no good tiles */

/* Whether the panels of the data gradient are not packed, but formed one by one in front of all samples: of large 1x1
 * kernels, where that is to copy lines of the weight. */
INLINE bool conv_forms_reversed(const lki_conv_shape *s)
{
    return s->frugal && s->groups == 1 && conv_taps(s) == 1 && s->channels >= LKI_NARROW &&
           conv_large(conv_blocks(s->channels) * s->filters * PANEL) &&
           s->in[1] > (FEW_COLUMNS - 1) * s->stride[1];
}

/* Both, and that of the data gradient alone, behind conv_panel_floats(); part `part` of `parts`. And one panel of that. */
void LKI_ISA_NAME(lki_conv_pack)(const lki_conv_shape *s, const float *weight, void *packed,
                                 int part, int parts);
void LKI_ISA_NAME(lki_conv_pack_reversed)(const lki_conv_shape *s, const float *weight,
                                          void *packed, int part, int parts);
void LKI_ISA_NAME(lki_conv_form_reversed)(const lki_conv_shape *s, const float *weight,
                                          int64_t panel, float *to);

/* Sums of the weight's gradient, over the samples of a replica: the block that is not complete, the blocks of
 * its group, the groups before it, as many numbers each; and of the bias. */
typedef struct conv_sums {
    int64_t count;
    float *block, *group;
    double *total, *bias;
} conv_sums;
/* In memory of so many bytes. Of a replica that has at most `terms` there are no groups, or totals, if it never has one: these
 * pointers may not be read through then. */
INLINE size_t conv_sums_bytes(int64_t count, int64_t bias, int64_t terms)
{
    const size_t each = terms < LKI_BLOCK_TERMS ? 1 : terms < LKI_GROUP_TERMS ? 2 : 4;
    return sizeof(double) * (size_t)bias + sizeof(float) * each * (size_t)count;
}
INLINE conv_sums conv_sums_in(void *memory, int64_t count, int64_t terms)
{
    double *total = memory;
    float *block = (float *)(void *)(total + (terms < LKI_GROUP_TERMS ? 0 : count));
    float *group = block + (terms < LKI_BLOCK_TERMS ? 0 : count);
    return (conv_sums){.count = count,
                       .block = block,
                       .group = group,
                       .total = total,
                       .bias = (double *)(void *)(group + count)};
}
/* The most terms of a replica's sums, of which an image has `each`. */
INLINE int64_t conv_terms(const lki_conv_shape *s, int64_t each)
{
    return s->share > 0 ? s->share * each : INT64_MAX;
}
/* Behind so many pixels, rounded once, in `block`. Narrow sums are totals from their first term. */
void LKI_ISA_NAME(lki_conv_complete)(const conv_sums *sums, bool narrow, int64_t pixels);

size_t LKI_ISA_NAME(lki_conv_weight_bytes)(const lki_conv_shape *s, int64_t count);
size_t LKI_ISA_NAME(lki_conv_sums_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_conv_weight)(const lki_conv_shape *s, int64_t count,
                                   const lki_conv_gradient *g);

#endif
