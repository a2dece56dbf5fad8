/* Shapes of convolutions for test_convolutions.c: random ones, and those that they seldom are. */
#ifndef LKT_CPU_CONV_SHAPES_H
#define LKT_CPU_CONV_SHAPES_H

#include "backend/cpu/vector/vector.h"
#include "support/test.h"

#ifdef LKT_HAVE_CPU

static lki_conv_shape random_conv(lkt_random *random)
{
    lki_conv_shape s = {.groups = lkt_random_below(random, 4) == 0 ? 2 : 1, .bias = true};
    s.channels = s.groups * lkt_random_from(random, 1, 20);
    s.filters = s.groups * lkt_random_from(random, 1, 40);
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = lkt_random_from(random, 1, 4);
        s.stride[i] = lkt_random_below(random, 2) == 0 ? 1 : lkt_random_from(random, 1, 4);
        s.dilation[i] = lkt_random_below(random, 2) == 0 ? 1 : lkt_random_from(random, 1, 3);
        s.padding[i] = lkt_random_below(random, 3);
    }
    return s;
}

/* What random shapes seldom are: a first layer, sums of many terms, of several blocks of channels, images of a pixel or
 * few (where rows and columns are not 0) in many samples, with many terms that are left out. */
#define SHAPE(g, c, f, in_rows, in_columns, k0, k1, s0, s1, p0, p1, d0, d1)                        \
    {                                                                                              \
        .groups = g, .channels = c, .filters = f, .in = {in_rows, in_columns}, .kernel = {k0, k1}, \
        .stride = {s0, s1}, .padding = {p0, p1}, .dilation = {d0, d1}, .bias = true                \
    }
static const lki_conv_shape SHAPES[] = {
    SHAPE(1, 1, 33, 0, 0, 3, 3, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 300, 33, 0, 0, 3, 3, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 29, 300, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 64, 20, 0, 0, 2, 2, 1, 1, 1, 0, 1, 1),
    SHAPE(1, 86, 60, 0, 0, 3, 1, 1, 1, 1, 0, 1, 1),
    SHAPE(1, 2, 5, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 2, 3, 0, 0, 2, 2, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 700, 3, 0, 0, 2, 2, 2, 1, 1, 1, 1, 1),
    SHAPE(1, 130, 33, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 280, 40, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 300, 20, 1, 2, 3, 3, 2, 1, 1, 1, 1, 1),
    SHAPE(1, 128, 130, 2, 2, 3, 3, 2, 2, 1, 1, 1, 1),
    SHAPE(1, 64, 140, 3, 3, 5, 4, 1, 1, 3, 2, 1, 2),
    SHAPE(2, 140, 160, 2, 3, 3, 5, 2, 1, 2, 4, 1, 1),
    SHAPE(1, 5, 7, 1, 3, 3, 3, 1, 2, 2, 2, 2, 2),
    SHAPE(1, 40, 70, 3, 3, 5, 5, 2, 2, 1, 1, 1, 1),
    SHAPE(1, 20, 30, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1), /* no tap meets the image */
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

/* Enough columns that pixels are made a line of (conv/line.h), forward or backward: pixels 4,096 bytes apart, with totals
 * that wait, too; a stride; groups; low rows; with blocks of channels, and more terms than are copied; holes. */
static const lki_conv_shape LINES[] = {
    SHAPE(1, 1024, 70, 3, 5, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 3072, 64, 2, 3, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 70, 1024, 3, 5, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 20, 72, 9, 9, 1, 1, 2, 2, 0, 0, 1, 1),
    SHAPE(2, 40, 140, 7, 8, 1, 1, 2, 1, 0, 0, 1, 1),
    SHAPE(1, 24, 64, 9, 8, 3, 3, 2, 2, 1, 1, 1, 1),
    SHAPE(1, 66, 12, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(2, 16, 128, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 455, 64, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 500, 64, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 30, 64, 11, 13, 3, 2, 2, 3, 2, 1, 2, 1),
    SHAPE(1, 64, 512, 3, 1, 1, 1, 2, 2, 0, 0, 1, 1), /* rows follow each other, samples do not */
};
enum { LINE_SHAPES = sizeof LINES / sizeof LINES[0] };

/* For gradients of weights. Pixels that lie 4,096 bytes apart, in groups and of every second row and column; others that do
 * not; few values of the input under whole panels of filters, in groups, under taps, and of one pixel. */
static const lki_conv_shape OPERANDS[] = {
    SHAPE(1, 1024, 40, 3, 5, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(2, 512, 140, 7, 5, 1, 1, 2, 2, 0, 0, 1, 1),
    SHAPE(1, 48, 128, 9, 13, 3, 3, 2, 2, 1, 1, 1, 1),
    SHAPE(2, 256, 258, 9, 9, 1, 1, 2, 2, 0, 0, 1, 1),
    SHAPE(2, 80, 128, 9, 13, 1, 1, 1, 1, 0, 0, 1, 1),
    SHAPE(1, 7, 64, 9, 11, 3, 3, 1, 2, 1, 1, 1, 1),
    SHAPE(1, 60, 64, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1),
};
enum { OPERAND_SHAPES = sizeof OPERANDS / sizeof OPERANDS[0] };

/* Depthwise, of images that are gone through with some of their channels at a time. */
static const lki_conv_shape MANY_CHANNELS[] = {
    SHAPE(1100, 1100, 1100, 5, 13, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1100, 1100, 1100, 5, 13, 3, 3, 2, 2, 1, 1, 1, 1),
};
#undef SHAPE
enum { MANY_COUNT = sizeof MANY_CHANNELS / sizeof MANY_CHANNELS[0] };

/* Depthwise: most with three taps in a row, as these have loops of their own; some kernels with more
 * than a block of taps, or a group. */
static lki_conv_shape random_depthwise(lkt_random *random)
{
    const bool large = lkt_random_below(random, 16) == 0, three = lkt_random_below(random, 2) == 0;
    const int64_t channels = lkt_random_from(random, 3, large ? 20 : 75);
    const int64_t most = lkt_random_below(random, 2) == 0 ? 16 : 33;
    lki_conv_shape s = {
        .groups = channels, .channels = channels, .filters = channels, .bias = true};
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = large ? most + i : three ? 3 : lkt_random_from(random, 1, 9);
        s.stride[i] = lkt_random_from(random, 1, three ? 2 : 3);
        s.dilation[i] = lkt_random_below(random, 3) == 0 ? lkt_random_from(random, 1, 3) : 1;
        s.padding[i] = three && lkt_random_below(random, 2) == 0 ? 1 : lkt_random_below(random, 4);
    }
    return s;
}

#endif
#endif
