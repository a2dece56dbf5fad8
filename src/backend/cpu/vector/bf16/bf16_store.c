/* Arrays as bfloat16 and back (lki_backend.pack, unpack): bound by memory. */
#include "backend/cpu/vector/bf16/bf16.h"

typedef uint16_t vs __attribute__((vector_size(2 * LANES)));

void LKI_ISA_NAME(lki_bf16_pack)(int64_t count, const float *from, uint16_t *to)
{
    bf16_round_row(count, from, to);
}

void LKI_ISA_NAME(lki_bf16_unpack)(int64_t count, const uint16_t *from, float *to)
{
    FOR_VECTORS(i, n, count)
    {
        vs upper = {0};
        if (n == LANES)
            memcpy(&upper, from + i, sizeof upper);
        else
            memcpy(&upper, from + i, sizeof(uint16_t) * (size_t)n);
        vf_put(to + i, (vf)(__builtin_convertvector(upper, vu) << 16), n);
    }
}
