/* Philox, what is drawn from it, and keys. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

/* The known answers that come with Random123 for philox4x32-10. */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t expected[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         UINT64_C(0xffffffffffffffff),
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         UINT64_C(0x299f31d0a4093822),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        lki_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].expected, sizeof out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(philox_known_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
