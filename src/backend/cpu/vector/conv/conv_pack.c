/* The weight of a convolution as the panels that conv.c says: forward, and reversed for the data gradient. */
#include "backend/cpu/vector/conv/conv.h"
#include "numeric/tree.h"

/* The weight's elements [filter][channel][tap] as panels of filters. */
static void pack_ahead(const lki_conv_shape *s, const float *weight, int64_t group, int64_t block,
                       float *panel)
{
    const int64_t filters = s->filters / s->groups, channels = s->channels / s->groups;
    const int64_t taps = s->kernel[0] * s->kernel[1], all = conv_taps(s), size = channels * all;
    for (int64_t tap = 0; tap < taps; tap++) {
        const float *from = weight + (group * filters + block * PANEL) * size + conv_tap(s, tap);
        for (int64_t c = 0; c < channels; c++, from += all)
            for (int64_t i = 0; i < PANEL; i++)
                *panel++ = block * PANEL + i < filters ? from[i * size] : 0;
    }
}

/* As panels of input channels, taps reversed. */
static void pack_reversed(const lki_conv_shape *s, const float *weight, int64_t group,
                          int64_t block, float *panel)
{
    const int64_t filters = s->filters / s->groups, channels = s->channels / s->groups;
    const int64_t taps = s->kernel[0] * s->kernel[1], all = conv_taps(s), size = channels * all;
    for (int64_t tap = taps - 1; tap >= 0; tap--) {
        const float *from = weight + group * filters * size + conv_tap(s, tap);
        for (int64_t f = 0; f < filters; f++, from += size)
            for (int64_t i = 0; i < PANEL; i++) {
                const int64_t c = block * PANEL + i;
                *panel++ = c < channels ? from[c * all] : 0;
            }
    }
}

void LKI_ISA_NAME(lki_conv_form_reversed)(const lki_conv_shape *s, const float *weight,
                                          int64_t panel, float *to)
{
    const int64_t left = s->channels - panel * PANEL;
    const float *from = weight + panel * PANEL;
    for (int64_t f = 0; f < s->filters; f++, from += s->channels, to += PANEL)
        for (int64_t i = 0; i < PANEL; i += LANES)
            vf_store(to + i, i + LANES <= left ? vf_load(from + i)
                             : i < left        ? vf_load_some(from + i, left - i)
                                               : vf_zero());
}

void LKI_ISA_NAME(lki_conv_pack_reversed)(const lki_conv_shape *s, const float *weight,
                                          void *packed, int part, int parts)
{
    if (conv_forms_reversed(s)) return;
    const int64_t taps = s->kernel[0] * s->kernel[1], each = conv_blocks(s->channels / s->groups);
    const int64_t size = taps * (s->filters / s->groups) * PANEL, all = s->groups * each;
    float *reversed = (float *)packed + conv_panel_floats(s);
    for (int64_t b = lki_share(part, parts, all); b < lki_share(part + 1, parts, all); b++)
        pack_reversed(s, weight, b / each, b % each, reversed + b * size);
}

void LKI_ISA_NAME(lki_conv_pack)(const lki_conv_shape *s, const float *weight, void *packed,
                                 int part, int parts)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], each = conv_blocks(s->filters / s->groups);
    const int64_t size = taps * (s->channels / s->groups) * PANEL, all = s->groups * each;
    for (int64_t b = lki_share(part, parts, all); b < lki_share(part + 1, parts, all); b++)
        pack_ahead(s, weight, b / each, b % each, (float *)packed + b * size);
    LKI_ISA_NAME(lki_conv_pack_reversed)(s, weight, packed, part, parts);
}
