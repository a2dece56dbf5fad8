/* Rotary positions (J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021). */
#ifndef LKI_NUMERIC_ROTARY_H
#define LKI_NUMERIC_ROTARY_H

#include <stdint.h>

/* Cosines and sines of position * base^(-2d / width), [positions][width / 2], computed in double and rounded to f32
 * once. */
void lki_rotary(double base, int64_t positions, int64_t width, float *cosine, float *sine);

#endif
