/* Bias, relu and max-pooling of what a convolution has formed: direct (block.c), or Winograd's. */
#ifndef LKI_CPU_VECTOR_WINDOW_H
#define LKI_CPU_VECTOR_WINDOW_H

#include "backend/cpu/vector/isa.h"
#include "backend/cpu/vector/vector.h"

enum { MOST_PLACES = 9 };

/* The maximum of a window's places for n <= LANES filters, and its place. Values below LKI_TINY count as 0, as
 * if the convolution had stored them. */
INLINE void pool_window(const int places, const vf *from, vf bias, int64_t n, float *out,
                        uint8_t *where)
{
    vf best = vf_set(0x1.fffffep-64f); /* the largest float below LKI_TINY */
    vi place = vi_set(LKI_BLOCK_OFF);
    UNROLL
    for (int i = 0; i < places; i++) {
        const vf v = from[i] + bias;
        const vm better = vm_gt(v, best); /* false for NaN */
        best = vf_blend(better, v, best);
        place = vi_blend(better, vi_set(i), place);
    }
    vf_put(out, vf_flush(best), n);
    vi_to_bytes(where, place);
}

#endif
