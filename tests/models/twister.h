/* NumPy's numbers of np.random.seed(), which Needle draws its parameters from. */
#ifndef LKT_MODELS_TWISTER_H
#define LKT_MODELS_TWISTER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* MT19937 (Matsumoto, Nishimura, 1998) as NumPy's RandomState has it. */
typedef struct twister {
    uint32_t word[624];
    int at;
    bool has;
    double kept;
} twister;

static inline void seed(twister *t, uint32_t number)
{
    *t = (twister){.word = {number}, .at = 624};
    for (uint32_t i = 1; i < 624; i++)
        t->word[i] = 1812433253u * (t->word[i - 1] ^ t->word[i - 1] >> 30) + i;
}

static inline uint32_t next(twister *t)
{
    if (t->at == 624) {
        for (int i = 0; i < 624; i++) {
            const uint32_t y = (t->word[i] & 0x80000000u) | (t->word[(i + 1) % 624] & 0x7fffffffu);
            t->word[i] = t->word[(i + 397) % 624] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->word[t->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static inline double uniform(twister *t)
{
    const uint32_t a = next(t) >> 5, b = next(t) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

/* Marsaglia's polar method: the second number of a pair comes first. */
static inline double normal(twister *t)
{
    if (t->has) {
        t->has = false;
        return t->kept;
    }
    double x, y, r;
    do {
        x = 2.0 * uniform(t) - 1.0;
        y = 2.0 * uniform(t) - 1.0;
        r = x * x + y * y;
    } while (r >= 1.0 || r == 0.0);
    const double f = sqrt(-2.0 * log(r) / r);
    t->kept = f * x;
    t->has = true;
    return f * y;
}

static inline float between(twister *t, double bound)
{
    return (float)uniform(t) * (float)(bound - -bound) + (float)-bound;
}

#endif
