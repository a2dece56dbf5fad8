/* Images with the border that a convolution needs around them. */
#include "backend/cpu/vector/conv/conv.h"

frame LKI_ISA_NAME(lki_conv_frame)(const lki_conv_shape *s)
{
    frame f = {.channels = s->channels};
    for (int i = 0; i < 2; i++) {
        const int64_t seen = (s->out[i] - 1) * s->stride[i] + s->dilation[i] * (s->kernel[i] - 1) +
                             1;
        f.before[i] = s->padding[i];
        f.after[i] = seen > s->in[i] + s->padding[i] ? seen - s->in[i] - s->padding[i] : 0;
        f.size[i] = f.before[i] + s->in[i] + f.after[i];
    }
    return f;
}

void LKI_ISA_NAME(lki_conv_fill)(const frame *f, const float *from, float *to)
{
    const int64_t row = f->size[1] * f->channels, left = f->before[1] * f->channels;
    const int64_t right = f->after[1] * f->channels, inside = row - left - right;
    memset(to, 0, sizeof(float) * (size_t)(f->before[0] * row));
    to += f->before[0] * row;
    for (int64_t y = f->before[0]; y < f->size[0] - f->after[0]; y++, to += row, from += inside) {
        memset(to, 0, sizeof(float) * (size_t)left);
        memcpy(to + left, from, sizeof(float) * (size_t)inside);
        memset(to + left + inside, 0, sizeof(float) * (size_t)right);
    }
    memset(to, 0, sizeof(float) * (size_t)(f->after[0] * row));
}
