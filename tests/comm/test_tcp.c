/* What comes in parts, late or never. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/context.h"
#include "comm/socket/tcp.h"
#include "support/test.h"

static void reads(void **state)
{
    char in[8] = "";
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(write(ends[0], "abcdef", 6), 6);
    assert_true(lki_tcp_read(ends[1], in, 2, 0)); /* what is there needs no time */
    assert_memory_equal(in, "ab", 2);
    const double begin = lki_seconds();
    assert_false(lki_tcp_read(ends[1], in, 8, begin + .02));
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(lki_seconds() >= begin + .02);
    assert_int_equal(write(ends[0], "ghi", 3), 3);
    close(ends[0]);
    assert_false(lki_tcp_read(ends[1], in, 4, begin + 60));
    assert_int_equal(errno, 0);
    assert_memory_equal(in, "ghi", 3);
    close(ends[1]);
}

static void writes(void **state)
{
    static char many[1 << 22];
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_true(lki_tcp_write(ends[0], "abc", 3, 0));
    const double begin = lki_seconds();
    assert_false(lki_tcp_write(ends[0], many, sizeof many, begin + .02)); /* nobody reads */
    assert_int_equal(errno, ETIMEDOUT);
    close(ends[1]);
    assert_false(lki_tcp_write(ends[0], "abc", 3, begin + 60)); /* and no signal */
    close(ends[0]);
}

static void keys(void **state)
{
    char a[16] = "a key of sixteen", b[16];
    (void)state;
    for (size_t i = 0; i < 128; i++) {
        memcpy(b, a, sizeof b);
        assert_true(lki_tcp_same_key(a, b, sizeof b));
        b[i / 8] ^= (char)(1 << i % 8);
        assert_false(lki_tcp_same_key(a, b, sizeof b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(writes),
        cmocka_unit_test(keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
