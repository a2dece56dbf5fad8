/* A keyed permutation of [0, count), evaluated at any position in O(1): the order of samples. */
#ifndef LKI_NUMERIC_PERMUTATION_H
#define LKI_NUMERIC_PERMUTATION_H

#include <stdint.h>

/*
 * A Feistel network over the smallest even number of bits that holds count - 1, with Philox as its
 * round function, walked until the value is below count ("cycle walking": Black, Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002).
 */
typedef struct lki_permutation {
    uint64_t key;
    uint64_t epoch;
    int64_t count;
    unsigned half_bits;
} lki_permutation;

lki_permutation lki_permutation_make(uint64_t seed, int64_t epoch, int64_t count);
int64_t lki_permutation_at(const lki_permutation *permutation, int64_t position);

#endif
