/*
 * Dense layers whose factors are bfloat16: convolutions of one tap over an image of one pixel, whose samples are the rows of
 * tiles. bf16_pack.c has the packing of the weight, bf16_rows.c its gradient.
 */
#include "backend/cpu/vector/bf16/bf16.h"
#include "backend/cpu/vector/rows.h"

static lki_conv_shape dense_as_conv(const lki_dense_shape *s)
{
    return (lki_conv_shape){.groups = 1,
                            .channels = s->inputs,
                            .filters = s->units,
                            .in = {1, 1},
                            .out = {1, 1},
                            .kernel = {1, 1},
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .bias = s->bias,
                            .part = s->part,
                            .parts = s->parts,
                            .bf16 = true,
                            .unit = s->unit};
}

static size_t bf16_dense_packed_bytes(const lki_dense_shape *s)
{
    const lki_conv_shape conv = dense_as_conv(s);
    return LKI_ISA_NAME(lki_vector_bf16).packed_bytes(&conv);
}

static size_t bf16_dense_workspace_bytes(const lki_dense_shape *s, int64_t rows)
{
    const lki_conv_shape conv = dense_as_conv(s);
    return LKI_ISA_NAME(lki_vector_bf16).workspace_bytes(&conv, rows);
}

static void bf16_dense_pack(const lki_dense_shape *s, const float *weight, void *packed,
                            int64_t first, int64_t count)
{
    LKI_ISA_NAME(lki_bf16_dense_pack_part)(s, weight, packed, first, count, 0, s->inputs);
}

static void bf16_dense_forward(const lki_dense_shape *s, int64_t rows, const float *x,
                               const void *packed, const float *bias, float *y, void *workspace)
{
    const lki_conv_shape conv = dense_as_conv(s);
    LKI_ISA_NAME(lki_vector_bf16)
        .forward(&conv, rows, x, (lki_conv_weight){.packed = packed}, bias, false, y, workspace);
}

static void bf16_dense_backward(const lki_dense_shape *s, int64_t rows, const float *x,
                                const float *d_y, const void *packed, float *d_x, bool add,
                                void *workspace)
{
    const lki_conv_shape conv = dense_as_conv(s);
    (void)x;
    LKI_ISA_NAME(lki_vector_bf16)
        .backward(&conv, rows, d_y, (lki_conv_weight){.packed = packed}, d_x, add, workspace);
}

const lki_vector_dense LKI_ISA_NAME(lki_vector_dense_bf16) = {
    .packed_bytes = bf16_dense_packed_bytes,
    .pack = bf16_dense_pack,
    .workspace_bytes = bf16_dense_workspace_bytes,
    .forward = bf16_dense_forward,
    .backward = bf16_dense_backward,
    .rows_bytes = LKI_ISA_NAME(lki_vector_rows_bytes),
    .rows = LKI_ISA_NAME(lki_vector_rows),
};
