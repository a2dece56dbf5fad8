/* Where a generated text ends: beside a search of every beginning of it. */
#include <string.h>

#include "cli/sample/ends.h"
#include "support/test.h"

enum { LONGEST = 40, MOST_ENDS = 4, TEXTS = 20000 };

typedef struct written {
    char text[LONGEST + 1];
    size_t bytes;
} written;

static void put(void *user, char byte)
{
    written *to = user;
    assert_true(to->bytes < LONGEST);
    to->text[to->bytes++] = byte;
}

/* Of two letters, so that ends are frequent and begin within each other. */
static void draw(lkt_random *random, char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) text[i] = "ab"[lkt_random_below(random, 2)];
    text[bytes] = '\0';
}

/* How many bytes are in front of the end that is made first, of these the longest; all: none is made. */
static size_t front_of(const char *text, char ends[][LONGEST + 1], int count, size_t *taken)
{
    const size_t bytes = strlen(text);
    for (*taken = 1; *taken <= bytes; ++*taken) {
        size_t most = 0;
        for (int i = 0; i < count; i++) {
            const size_t end = strlen(ends[i]);
            if (end <= *taken && memcmp(text + *taken - end, ends[i], end) == 0 && end > most)
                most = end;
        }
        if (most > 0) return *taken - most;
    }
    --*taken;
    return bytes;
}

static void a_text_ends_in_front_of_the_first(void **state)
{
    lkt_random random = lkt_random_make("a_text_ends_in_front_of_the_first", 41);
    static const cli_option option = {.name = "stop", .local = LOCAL_STOP};
    static const cli_option other = {.name = "set", .local = LOCAL_SET};
    (void)state;
    for (int n = 0; n < TEXTS; n++) {
        char ends[MOST_ENDS][LONGEST + 1], text[LONGEST + 1];
        const int count = (int)lkt_random_below(&random, MOST_ENDS + 1);
        cli_setting setting[MOST_ENDS + 1] = {{&other, "a=b"}};
        for (int i = 0; i < count; i++) {
            draw(&random, ends[i], lkt_random_from(&random, 1, 8));
            setting[i + 1] = (cli_setting){&option, ends[i]};
        }
        draw(&random, text, lkt_random_below(&random, LONGEST + 1));

        cli_pool pool = {0};
        sample_ends found = sample_ends_of(
            &(cli_args){.pool = &pool, .settings = count + 1, .setting = setting});
        assert_int_equal(found.count, count);
        for (int again = 0; again < 2; again++) {
            written to = {.bytes = 0};
            size_t taken, at = 0;
            const size_t front = front_of(text, ends, count, &taken);
            bool ended = false;
            while (text[at] != '\0' && !ended)
                ended = sample_ends_take(&found, text[at++], put, &to);
            assert_int_equal(ended, front < strlen(text));
            sample_ends_release(&found, put, &to);
            assert_int_equal(at, taken);
            assert_int_equal(to.bytes, front);
            assert_memory_equal(to.text, text, front);
        }
        pool_clear(&pool);
    }
}

/* What can be no end any more is written at once. */
static void no_more_is_held_back_than_may_be_an_end(void **state)
{
    static const cli_option option = {.name = "stop", .local = LOCAL_STOP};
    cli_setting setting[] = {{&option, "aab"}, {&option, "ba"}};
    cli_pool pool = {0};
    sample_ends ends = sample_ends_of(
        &(cli_args){.pool = &pool, .settings = 2, .setting = setting});
    static const char text[] = "xaaaxb";
    static const size_t written_behind[] = {1, 1, 1, 2, 5, 5};
    written to = {.bytes = 0};
    (void)state;
    for (size_t i = 0; i < strlen(text); i++) {
        assert_false(sample_ends_take(&ends, text[i], put, &to));
        assert_int_equal(to.bytes, written_behind[i]);
    }
    sample_ends_release(&ends, put, &to);
    assert_int_equal(to.bytes, strlen(text));
    assert_memory_equal(to.text, text, strlen(text));
    pool_clear(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_ends_in_front_of_the_first),
        cmocka_unit_test(no_more_is_held_back_than_may_be_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
