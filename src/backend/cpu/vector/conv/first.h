/*
 * Convolutions of few channels, below LKI_NARROW, as first layers have them: forward, and the gradient of the
 * weight, with the sums of conv.c and conv_weight.c, to the bit. What differs is how few terms there are to a
 * number of the output, so that all else counts:
 *
 *   - The terms of a sum, taps row by row, under a tap channels, are one list of offsets, and one loop,
 *     however short a row of the kernel is.
 *   - A tile has as many vectors as there are filters for, so that none is empty.
 *   - Fewer than LKI_NARROW filters are summed in double: x becomes doubles once, not for each product.
 *   - x may be bytes, which become numbers where an image gets its border (lki_conv_shape.table).
 *   - The gradient of the weight takes the output's as it lies: relu and the sums of the bias ride in the
 *     loop of the first tile, under multiply-adds.
 *
 *   forward   packed [panel of FIRST_WIDTH vectors or fewer][term][filters of the panel]
 *   weight    sums   [panel of 2 vectors or fewer         ][term][filters of the panel]
 *
 * first_tile.h has the loops, for floats and for doubles.
 */
#ifndef LKI_CPU_VECTOR_FIRST_H
#define LKI_CPU_VECTOR_FIRST_H

#include "backend/cpu/vector/conv/conv.h"

/* Vectors of filters in a panel, at most, and pixels of a tile; each is one that FIRST_CASES has: a row is cut
 * into tiles of nearly equal height, and where it is shorter than half a tile, into pixels; so are terms of the
 * weight's gradient. */
#if TILE_ROWS == 12
enum { FIRST_WIDTH = 4 };
#define FIRST_HEIGHT(V) ((V) < 2 ? 12 : 24 / (V))
#else
enum { FIRST_WIDTH = 2 };
#define FIRST_HEIGHT(V) (12 / (V))
#endif

/* Stays in a register: compilers would rather add each of a tile's distances to what it was made of. */
#define FIRST_POINTER(p) __asm__("" : "+r"(p))

typedef struct first {
    const lki_conv_shape *shape;
    frame frame;
    int64_t terms;
    int64_t pixel, row,
        image;   /* numbers of x from pixel to pixel of y, from row to row, from image to image */
    int64_t run; /* terms whose numbers of x lie side by side, a row of the kernel; or all, apart */
    const int64_t *offset; /* of each term in x, from the first of its pixel */
    const float *bias;     /* forward */
    bool relu;
} first;

/* Pixels of the output, to the end of a block of the gradient's sums. */
typedef struct first_strip {
    int64_t pixels, number, column,
        y;                  /* how many; of the first: number in the replica, column and row */
    const void *x;          /* that row of x */
    const float *d_y, *out; /* the first one's gradient; behind relu its value, else NULL */
    void *kept;             /* the gradient behind relu, as numbers of the sums' kind */
    conv_sums sums;
} first_strip;

/* The cases of a switch over V * 16 + R: F(R, V), both constant. */
// clang-format off
#define FIRST_CASE(F, R, V)                                                                        \
    case (V) * 16 + (R):                                                                           \
        F(R, V);                                                                                   \
        break;
#define FIRST_3_TO_6(F, V)                                                                         \
    FIRST_CASE(F, 3, V) FIRST_CASE(F, 4, V) FIRST_CASE(F, 5, V) FIRST_CASE(F, 6, V)
#define FIRST_7_TO_12(F, V)                                                                        \
    FIRST_CASE(F, 7, V) FIRST_CASE(F, 8, V) FIRST_CASE(F, 9, V)                                    \
    FIRST_CASE(F, 10, V) FIRST_CASE(F, 11, V) FIRST_CASE(F, 12, V)
#define FIRST_TALL(F, V) FIRST_CASE(F, 1, V) FIRST_CASE(F, 6, V) FIRST_7_TO_12(F, V)
#define FIRST_FLAT(F, V) FIRST_CASE(F, 1, V) FIRST_3_TO_6(F, V)
#if TILE_ROWS == 12
#define FIRST_WIDE_CASES(F) FIRST_TALL(F, 1) FIRST_TALL(F, 2)
#define FIRST_CASES(F)                                                                             \
    FIRST_WIDE_CASES(F) FIRST_FLAT(F, 3) FIRST_CASE(F, 7, 3) FIRST_CASE(F, 8, 3) FIRST_FLAT(F, 4)
#define FIRST_WEIGHT_CASES(F) FIRST_TALL(F, 1) FIRST_TALL(F, 2)
#else
#define FIRST_WIDE_CASES(F)   FIRST_TALL(F, 1) FIRST_FLAT(F, 2)
#define FIRST_CASES(F)        FIRST_WIDE_CASES(F)
#define FIRST_WEIGHT_CASES(F) FIRST_FLAT(F, 1) FIRST_FLAT(F, 2)
#endif
// clang-format on

#endif
