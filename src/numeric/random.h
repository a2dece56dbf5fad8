/*
 * Random numbers without state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011).
 *
 * Every number is a function of a key and a counter. The key is a hash of (seed, purpose, name);
 * the counter is (step, position in the global batch, block of elements).
 */
#ifndef LKI_NUMERIC_RANDOM_H
#define LKI_NUMERIC_RANDOM_H

#include <stdint.h>

/* XXH3-64 of: the seed as 8 little-endian bytes, purpose, one zero byte, name. */
uint64_t lki_random_key(uint64_t seed, const char *purpose, const char *name);

/* counter[0], [1]: low and high half of the step; [2]: position; [3]: block. */
void lki_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* (w0 2^32 + w1) n / 2^64, rounded down: a number from 0 to n - 1, n above 0. */
int64_t lki_random_below(const uint32_t word[2], int64_t n);

/*
 * The bits of one element: how many are drawn for an event of probability p, and when it happens.
 * The smallest of 1, 2, 4, 8 bits that represents p exactly, else 16 bits and p rounded to nearest.
 * Element e of a sample takes bits [e*bits, (e+1)*bits) of the stream of its blocks, little-endian
 * (block b is 128 bits: out[0] lowest); the event happens when their value is below `threshold`.
 */
typedef struct lki_bernoulli {
    unsigned bits;
    uint32_t threshold;
    double probability; /* the one realised: threshold / 2^bits */
} lki_bernoulli;
lki_bernoulli lki_bernoulli_make(double p);

/* Writes one byte per element, 1 where the event happens, for elements [first, first + count) of
 * the sample at `position`. */
void lki_bernoulli_draw(const lki_bernoulli *event, uint64_t key, uint64_t step, uint32_t position,
                        int64_t first, int64_t count, uint8_t *out);

/* Initial values: element e of a parameter takes word e % 4 of block e / 4 (block number in
 * counter[0..1]; counter[2], [3] are 0). uniform: in [-1, 1) steps of 2^-23; normal: Box-Muller in
 * double with the functions of real.h, from the pairs of words (0,1) and (2,3). */
void lki_random_uniform(uint64_t key, int64_t count, float *out);
void lki_random_normal(uint64_t key, int64_t count, float *out);

#endif
