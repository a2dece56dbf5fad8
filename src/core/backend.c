/* What every device's memory is used for in the same way. */
#include "core/backend.h"

void lki_fill(const lki_memory *memory, float *to, int64_t count, float value)
{
    enum { BLOCK = 256 };
    float block[BLOCK];
    for (int i = 0; i < BLOCK; i++) block[i] = value;
    for (int64_t first = 0; first < count; first += BLOCK)
        memory->copy_in(to + first, block,
                        (size_t)(count - first < BLOCK ? count - first : BLOCK) * sizeof *to);
}
