/* How the ten digits are written: strokes of a pen, for the embedded data set. */
#ifndef LKI_DATA_GLYPHS_H
#define LKI_DATA_GLYPHS_H

#include <stdint.h>

enum { LKI_STROKE_POINTS = 11, LKI_GLYPH_STROKES = 2, LKI_GLYPH_VARIANTS = 3 };

/*
 * A stroke is a curve along its control points, a uniform quadratic B-spline: it starts at the
 * first point, ends at the last, and in between goes through the middles of neighbours, tangent to
 * the line that joins them. A point that stands twice is a corner.
 *
 *   x: -35 (left) .. 35, y: -50 (top) .. 50; 100 is the height of a digit
 */
typedef struct lki_stroke {
    uint8_t points; /* 2 .. LKI_STROKE_POINTS; 0: no stroke */
    int8_t at[LKI_STROKE_POINTS][2];
} lki_stroke;

/* One way to write a digit. */
typedef struct lki_glyph {
    uint8_t strokes; /* 0: no such variant */
    lki_stroke stroke[LKI_GLYPH_STROKES];
} lki_glyph;

/* The variants of each digit; those that are there come first. */
extern const lki_glyph lki_glyphs[10][LKI_GLYPH_VARIANTS];

#endif
