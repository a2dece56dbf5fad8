/* Hashes of state against bytes that are laid out by hand. */
#include "support/test.h"

#include <string.h>

#include "numeric/hash.h"

static void known_answer(void **state)
{
    (void)state;
    /* XXH3-64 of nothing, from its specification's test values. */
    assert_true(lki_hash("", 0) == UINT64_C(0x2d06800538d394c2));
}

static size_t put_i64(uint8_t *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> 8 * i);
    return 8;
}

static void headers(void **state)
{
    (void)state;
    const lks_shape shape = LKS_SHAPE(64, 1, 3, 300);
    uint8_t bytes[100];
    size_t used = 0;
    memcpy(bytes, "conv2.weight", 13);
    used += 13;
    memcpy(bytes + used, "F32", 4);
    used += 4;
    used += put_i64(bytes + used, 4);
    used += put_i64(bytes + used, 64);
    used += put_i64(bytes + used, 1);
    used += put_i64(bytes + used, 3);
    used += put_i64(bytes + used, 300);
    const uint64_t header = lki_hash_header("conv2.weight", LKS_F32, &shape);
    assert_true(header == lki_hash(bytes, used));
    assert_true(header != lki_hash_header("conv2.weigh", LKS_F32, &shape));
    assert_true(header != lki_hash_header("conv2.weight", LKS_I32, &shape));
    assert_true(header != lki_hash_header("conv2.weight", LKS_F32, &LKS_SHAPE(64, 3, 1, 300)));
    assert_true(header != lki_hash_header("conv2.weight", LKS_F32, &LKS_SHAPE(64, 1, 3)));
}

static void links(void **state)
{
    (void)state;
    uint8_t bytes[24];
    put_i64(bytes, UINT64_C(0x0123456789abcdef));
    put_i64(bytes + 8, 1300);
    put_i64(bytes + 16, UINT64_C(0xfedcba9876543210));
    const uint64_t link = lki_hash_link(UINT64_C(0x0123456789abcdef), 1300,
                                        UINT64_C(0xfedcba9876543210));
    assert_true(link == lki_hash(bytes, sizeof bytes));
    assert_true(link !=
                lki_hash_link(UINT64_C(0x0123456789abcdef), 1301, UINT64_C(0xfedcba9876543210)));
}

/* A stream gives the hash of all bytes together, however they come. */
static void streams(void **state)
{
    (void)state;
    static uint8_t data[70000];
    lkt_random random = lkt_random_make("streams", 5);
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)lkt_random_bits(&random);
    for (int round = 0; round < 200; round++) {
        const size_t total = (size_t)lkt_random_below(&random, sizeof data + 1);
        lki_hash_stream *stream;
        LKT_OK(lki_hash_stream_open(&stream, NULL));
        for (size_t at = 0; at < total;) {
            size_t part = (size_t)lkt_random_below(&random, round % 2 ? 300 : 30000);
            if (part > total - at) part = total - at;
            lki_hash_stream_add(stream, data + at, part);
            at += part;
        }
        assert_true(lki_hash_stream_close(stream) == lki_hash(data, total));
    }
    assert_true(lki_hash_stream_close(NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answer),
        cmocka_unit_test(headers),
        cmocka_unit_test(links),
        cmocka_unit_test(streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
