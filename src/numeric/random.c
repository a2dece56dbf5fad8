/* Philox4x32-10 and what is drawn from it. */
#include "numeric/random.h"

#include <math.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for a streaming state on the stack */
#include <xxhash.h>

#include "numeric/real.h"

uint64_t lki_random_key(uint64_t seed, const char *purpose, const char *name)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(seed >> 8 * i);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, bytes, sizeof bytes);
    XXH3_64bits_update(&state, purpose, strlen(purpose) + 1);
    XXH3_64bits_update(&state, name, strlen(name));
    return XXH3_64bits_digest(&state);
}

void lki_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

int64_t lki_random_below(const uint32_t word[2], int64_t n)
{
    const uint64_t high = (uint64_t)n >> 32, low = (uint64_t)n & UINT32_MAX;
    const uint64_t middle = word[1] * high + (word[1] * low >> 32);
    const uint64_t rest = word[0] * low + (middle & UINT32_MAX);
    return (int64_t)(word[0] * high + (middle >> 32) + (rest >> 32));
}

lki_bernoulli lki_bernoulli_make(double p)
{
    const double inside = p > 0 ? (p < 1 ? p : 1) : 0;
    unsigned bits = 1;
    double scaled = inside * 2;
    while (bits < 16 && scaled != floor(scaled)) {
        bits *= 2;
        scaled = inside * (double)(UINT32_C(1) << bits);
    }
    const uint32_t threshold = (uint32_t)floor(scaled + 0.5);
    return (lki_bernoulli){.bits = bits,
                           .threshold = threshold,
                           .probability = (double)threshold / (double)(UINT32_C(1) << bits)};
}

void lki_bernoulli_draw(const lki_bernoulli *event, uint64_t key, uint64_t step, uint32_t position,
                        int64_t first, int64_t count, uint8_t *out)
{
    const unsigned bits = event->bits;
    const int64_t per_word = 32 / bits, per_block = 4 * per_word;
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    const int64_t end = first + count;
    for (int64_t element = first; element < end;) {
        const int64_t block = element / per_block;
        const int64_t block_end = (block + 1) * per_block;
        const uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), position,
                                     (uint32_t)block};
        uint32_t words[4];
        lki_philox(key, counter, words);
        for (; element < end && element < block_end; element++) {
            const int64_t inside = element - block * per_block;
            const unsigned shift = (unsigned)(inside % per_word) * bits;
            *out++ = (words[inside / per_word] >> shift & mask) < event->threshold;
        }
    }
}

/* The words of block `block` of a parameter's initial values. */
static void initial_words(uint64_t key, int64_t block, uint32_t words[4])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)((uint64_t)block >> 32), 0, 0};
    lki_philox(key, counter, words);
}

void lki_random_uniform(uint64_t key, int64_t count, float *out)
{
    uint32_t words[4];
    for (int64_t e = 0; e < count; e++) {
        if (e % 4 == 0) initial_words(key, e / 4, words);
        out[e] = (float)((int32_t)(words[e % 4] >> 8) - (1 << 23)) * 0x1p-23f; /* exact */
    }
}

/* Two independent normal numbers (Box, Muller 1958). The radius takes u in (0, 1], so that its
 * logarithm is finite. */
static void normal_pair(uint32_t a, uint32_t b, double out[2])
{
    const double u = ((double)a + 1) * 0x1p-32, turns = (double)b * 0x1p-32;
    const double radius = sqrt(-2 * lki_log(u));
    out[0] = radius * lki_cos_2pi(turns);
    out[1] = radius * lki_sin_2pi(turns);
}

void lki_random_normal(uint64_t key, int64_t count, float *out)
{
    double values[4];
    for (int64_t e = 0; e < count; e++) {
        if (e % 4 == 0) {
            uint32_t words[4];
            initial_words(key, e / 4, words);
            normal_pair(words[0], words[1], values);
            normal_pair(words[2], words[3], values + 2);
        }
        out[e] = (float)values[e % 4];
    }
}
