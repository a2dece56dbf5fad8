/* The order of samples. */
#include "numeric/permutation.h"

#include "numeric/random.h"

/* Four rounds make a strong pseudorandom permutation of a large domain (Luby, Rackoff 1988); small
 * data sets need more. */
enum { ROUNDS = 8 };

lki_permutation lki_permutation_make(uint64_t seed, int64_t epoch, int64_t count)
{
    lki_permutation made = {
        .key = lki_random_key(seed, "permutation", ""), .epoch = (uint64_t)epoch, .count = count};
    while (made.half_bits < 31 && (UINT64_C(1) << 2 * made.half_bits) < (uint64_t)count) {
        made.half_bits++;
    }
    return made;
}

static uint64_t encrypt(const lki_permutation *permutation, uint64_t value)
{
    const uint64_t mask = (UINT64_C(1) << permutation->half_bits) - 1;
    uint64_t left = value >> permutation->half_bits, right = value & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t counter[4] = {(uint32_t)permutation->epoch,
                                     (uint32_t)(permutation->epoch >> 32), (uint32_t)right, round};
        uint32_t out[4];
        lki_philox(permutation->key, counter, out);
        const uint64_t next = left ^ (out[0] & mask);
        left = right;
        right = next;
    }
    return left << permutation->half_bits | right;
}

int64_t lki_permutation_at(const lki_permutation *permutation, int64_t position)
{
    uint64_t value = (uint64_t)position;
    do value = encrypt(permutation, value);
    while (value >= (uint64_t)permutation->count);
    return (int64_t)value;
}
