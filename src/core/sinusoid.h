/* Sines and cosines of positions: a rule of the numerics, which every device has. */
#ifndef LKI_CORE_SINUSOID_H
#define LKI_CORE_SINUSOID_H

#include <stdint.h>

/* Channel c of position t, of `channels`: sin(t r) where c is even, and cos(t r), with r = 10000^(-(c - c mod 2) / channels)
 * (A. Vaswani et al.: "Attention is all you need", 2017). In double, right to 10^-9 for positions below 2^20. */
double lki_sinusoid(int64_t position, int64_t channel, int64_t channels);

#endif
