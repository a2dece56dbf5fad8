/* What the files of convolutions share. */
#ifndef LKI_CPU_VECTOR_CONV_H
#define LKI_CPU_VECTOR_CONV_H

#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/tile.h"

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

/* Floats of the weight as panels [group][block of filters][tap][channel][PANEL]. */
INLINE int64_t conv_panel_floats(const lki_conv_shape *s)
{
    return s->groups * conv_blocks(s->filters / s->groups) * s->kernel[0] * s->kernel[1] *
           (s->channels / s->groups) * PANEL;
}

size_t LKI_ISA_NAME(lki_conv_weight_bytes)(const lki_conv_shape *s, int64_t count);
void LKI_ISA_NAME(lki_conv_weight)(const lki_conv_shape *s, int64_t count, const float *x,
                                   const float *d_y, float *d_weight, float *d_bias, bool add,
                                   void *workspace);
/* Panels of filters [block of PANEL, ...) of a group, from and to the parameter's order. */
void LKI_ISA_NAME(lki_conv_pack_block)(const lki_conv_shape *s, const float *weight, int64_t group,
                                       int64_t block, float *panel);

#endif
