/* Dropout: Philox4x32-10 on LANES / 2 counters at once, few bits an element. */
#include "backend/cpu/vector/local.h"

enum { BLOCKS = LANES / 2, CHUNK = 64 * BLOCKS }; /* of 128 bits: a vector, a chunk */

typedef struct counters {
    vq word[4]; /* of 64 bits each the low 32 count */
} counters;

INLINE vq splat(uint64_t x)
{
    vq v = {0};
    for (int i = 0; i < BLOCKS; i++) v[i] = x;
    return v;
}

/* The ten rounds of lki_philox(). The multiplications ignore the upper halves, so what the lower
 * words carry there does no harm. */
INLINE counters rounds(counters c, uint64_t key)
{
    const vq m0 = splat(0xD2511F53u), m1 = splat(0xCD9E8D57u);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int r = 0; r < 10; r++) {
        const vq p0 = vq_multiply(m0, c.word[0]), p1 = vq_multiply(m1, c.word[2]);
        c = (counters){
            {(p1 >> 32) ^ c.word[1] ^ splat(k0), p1, (p0 >> 32) ^ c.word[3] ^ splat(k1), p0}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* Blocks [first, first + CHUNK) as words. */
static void generate(uint64_t key, uint64_t step, uint32_t position, uint32_t first, int64_t blocks,
                     uint32_t *out)
{
    for (int64_t b = 0; b < blocks; b += BLOCKS) {
        counters c = {{splat(step & 0xffffffffu), splat(step >> 32), splat(position), splat(0)}};
        for (int i = 0; i < BLOCKS; i++) c.word[3][i] = (uint32_t)(first + b + i);
        c = rounds(c, key);
        const vq low = (c.word[0] & 0xffffffffu) | (c.word[1] << 32);
        const vq high = (c.word[2] & 0xffffffffu) | (c.word[3] << 32);
        for (int i = 0; i < BLOCKS; i++) {
            const uint64_t pair[2] = {low[i], high[i]};
            memcpy(out + 4 * (b + i), pair, sizeof pair);
        }
    }
}

/* The events of `words` words. Of one bit the threshold may be 0, for none, and 2, for all. */
INLINE void events_of_1(const uint32_t *word, int64_t words, uint32_t threshold, uint8_t *out)
{
    for (int64_t w = 0; w < words; w++)
        for (unsigned i = 0; i < 32; i++)
            out[w * 32 + i] = (uint8_t)(((word[w] >> i) & 1) < threshold);
}

/* Of more bits, which a threshold has only where it is odd. A word is read as bytes, the lowest first, as they
 * lie in memory; `bits` is a constant, so that the loop becomes a few vector instructions. */
INLINE void events_of_bytes(const uint32_t *word, int64_t words, unsigned bits, uint32_t threshold,
                            uint8_t *restrict out)
{
    const unsigned each = 8 / bits;
    const uint8_t *byte = (const uint8_t *)word, mask = (uint8_t)((1u << bits) - 1);
    const uint8_t most = (uint8_t)(threshold - 1);
    for (int64_t b = 0; b < 4 * words; b++)
        for (unsigned i = 0; i < each; i++)
            out[b * each + i] = ((byte[b] >> (i * bits)) & mask) <= most;
}

INLINE void events_of_16(const uint32_t *word, int64_t words, uint32_t threshold,
                         uint8_t *restrict out)
{
    typedef uint16_t __attribute__((may_alias)) half_of_word;
    const half_of_word *half = (const half_of_word *)word;
    const uint16_t most = (uint16_t)(threshold - 1);
    for (int64_t h = 0; h < 2 * words; h++) out[h] = half[h] <= most;
}

static void vector_dropout_draw(const lki_bernoulli *event, uint64_t key, uint64_t step,
                                uint32_t position, int64_t first, int64_t count, uint8_t *out)
{
    uint32_t word[4 * CHUNK];
    uint8_t happens[128 * CHUNK];
    const int64_t each = 128 / event->bits; /* elements of a block */
    while (count > 0) {
        const int64_t block = first / each, skip = first % each;
        int64_t blocks = (skip + count + each - 1) / each;
        if (blocks > CHUNK) blocks = CHUNK;
        const int64_t n = blocks * each - skip < count ? blocks * each - skip : count;
        generate(key, step, position, (uint32_t)block, blocks, word);
        switch (event->bits) {
        case 1:
            events_of_1(word, 4 * blocks, event->threshold, happens);
            break;
        case 2:
            events_of_bytes(word, 4 * blocks, 2, event->threshold, happens);
            break;
        case 4:
            events_of_bytes(word, 4 * blocks, 4, event->threshold, happens);
            break;
        case 8:
            events_of_bytes(word, 4 * blocks, 8, event->threshold, happens);
            break;
        default:
            events_of_16(word, 4 * blocks, event->threshold, happens);
            break;
        }
        memcpy(out, happens + skip, (size_t)n);
        out += n;
        first += n;
        count -= n;
    }
}

static void vector_dropout_apply(int64_t count, const uint8_t *dropped, float scale,
                                 const float *in, float *out, bool add)
{
    const vf factor = vf_set(scale), zero = vf_zero();
    FOR_VECTORS(i, n, count)
    {
        uint8_t rest[LANES] = {0};
        if (n < LANES) memcpy(rest, dropped + i, (size_t)n);
        const vm keep = vm_equal(vi_from_bytes(n < LANES ? rest : dropped + i), vi_set(0));
        vf_put_result(out + i, vf_blend(keep, vf_get(in + i, n) * factor, zero), n, add);
    }
}

const lki_vector_dropout LKI_ISA_NAME(lki_vector_dropout) = {.draw = vector_dropout_draw,
                                                             .apply = vector_dropout_apply};
