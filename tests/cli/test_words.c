/* Numbers, counts, texts, words and distances as the program prints them, compared with
 * golden/words.txt, which is written anew by
 *
 *     LKT_SOURCE=$PWD LKT_TRANSCRIPTS=write build/release/tests/test_cli_words
 */
#include "cli/golden.h"

#include <math.h>

#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include "recipe/text/setting.h"

static cli_pool pool;

static int forget(void **state)
{
    (void)state;
    pool_clear(&pool);
    return 0;
}

static void numbers(void **state)
{
    (void)state;
    char number[TEXT_NUMBER_SIZE];
    static const double numbers[] = {0,
                                     -0.0,
                                     1,
                                     0.1,
                                     1e-6,
                                     1e22,
                                     123456789012345678.0,
                                     1.0 / 3,
                                     5e-324,
                                     2.2250738585072009e-308,
                                     2.2250738585072014e-308,
                                     1.7976931348623157e308,
                                     -2.5,
                                     100,
                                     1e15,
                                     1e16,
                                     NAN,
                                     INFINITY,
                                     -INFINITY};
    static const int64_t counts[] = {0,     7,      999,     1000,      -999,
                                     -1000, 999999, 1000000, INT64_MAX, INT64_MIN};
    head("numbers");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fprintf(text, "%s\n", lks_text_number(number, numbers[i]));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        fprintf(text, "%s\n", lks_text_count(number, counts[i]));
}

static void clean_texts(void **state)
{
    (void)state;
    static const char *const dirty[] = {
        "plain",
        "tab\tline\n\x7f",
        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
        "\xc2\x80\xc2\x9f\xc2\xa0",
        "\xc0\xaf\xc1\xbf",
        "\xe0\x9f\xbf\xe0\xa0\x80",
        "\xed\x9f\xbf\xed\xa0\x80\xed\xbf\xbf\xee\x80\x80",
        "\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf",
        "\xf0\x8f\xbf\xbf\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbd\xf4\x8f\xbf\xbe\xf4\x90\x80\x80\xf5\x80\x80\x80",
        "\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf",
        "\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
        "\xe6\x97\xa5\xe6\x9c\xac\xe9\xbe\x8d \xed\x95\x9c\xea\xb8\x80 \xef\xbc\xa1", /* two columns each */
        "\x65\xcc\x81\xe2\x80\x8b\xf0\xa0\x80\x80\xf0\x9f\xa6\x80", /* one, none, none, two, two */
        "cut \xe2\x82",
        "cut \xf0\x9f\x98",
        "\x80\xbf"};
    head("clean, their columns, the bytes of two of them");
    for (size_t i = 0; i < sizeof dirty / sizeof *dirty; i++) {
        const char *clean = text_clean(&pool, dirty[i]);
        fprintf(text, "%s %d %d\n", clean, text_length(clean), text_bytes(clean, 2));
    }
}

static void values(void **state)
{
    (void)state;
    static const char *const plain[] = {"a",         "",
                                        "1",         "1.5",
                                        "true",      "no",
                                        "null",      "~",
                                        "a b",       "a:b",
                                        "-a",        "/a",
                                        "_a",        ".a",
                                        "a.b-c_d/e", "1a",
                                        "a#",        "None",
                                        "\xc2\x85",  "\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf",
                                        "\xc2\xa0",  "quote\"back\\slash",
                                        "line\n"};
    head("as YAML and as JSON");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        json_t *json = json_string(plain[i]);
        char *line = text_json(json);
        fprintf(text, "%s  %s\n", text_yaml(&pool, json), line);
        free(line);
        json_decref(json);
    }
    json_t *json = json_loads("{\"a\": [1, 2.5, null], \"b\": [], \"c\": {}, \"d\": [{\"e\": "
                              "true}, {\"f\": [[1], []]}], \"g\": {\"h\": {\"i\": false}}}",
                              0, NULL);
    fprintf(text, "%s\n", text_yaml(&pool, json));
    text_print_json(text, json, 2);
    fputc('\n', text);
    text_print_json(text, json, 0);
    json_decref(json);
}

static void wrapped(void **state)
{
    (void)state;
    head("XML");
    text_print_xml(text, "a<b>&\"c\"'d'");
    head("words wrapped");
    for (int size = 0; size < 24; size += size == 0 ? 8 : 3) {
        fprintf(text, "%2d: ", size);
        text_print_wrapped(text, "\xc3\xa4\xc3\xb6 three  four five-six, seventeen i", 4,
                           size % 2 == 0 ? 2 : 4, size);
    }
}

static void distances(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},       {"abc", "abc"},        {"abc", "ABC"},
                                           {"abc", "abd"}, {"abc", "ab"},         {"abc", "acb"},
                                           {"ba", "ab"},   {"kitten", "sitting"}, {"flaw", "lawn"},
                                           {"", "abcd"},   {"abcdef", "badcfe"},  {"AB", "ba"}};
    static const char *const words[] = {"ab", "abcd", "abce", "abcdefgh"};
    static const char *const wanted[] = {"abcf",     "abxx", "axxx", "abcdxxxx",
                                         "abcxxxxx", "abce", ""};
    head("distances");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        fprintf(text, "%s %s %d\n", pairs[i][0], pairs[i][1],
                lki_edit_distance(pairs[i][0], pairs[i][1]));
    char longest[80];
    memset(longest, 'a', sizeof longest);
    longest[64] = '\0';
    fprintf(text, "%d ", lki_edit_distance(longest, longest));
    longest[64] = 'a';
    longest[65] = '\0';
    fprintf(text, "%d\n", lki_edit_distance(longest, longest));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        lki_nearest near = {.word = wanted[i]};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            lki_nearest_offer(&near, words[k]);
        fprintf(text, "%s: %s %d\n", wanted[i], near.best != NULL ? near.best : "none",
                near.best != NULL ? near.distance : 0);
    }
}

static void codes(void **state)
{
    (void)state;
    head("exit codes");
    for (int status = 0; status <= LKS_E_TIMEOUT; status++)
        fprintf(text, "%s %d\n", lks_status_name((lks_status)status),
                exit_code_of((lks_status)status));
}

#define WORDS(name) cmocka_unit_test_teardown(name, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORDS(numbers),
        WORDS(clean_texts),
        WORDS(values),
        WORDS(wrapped),
        WORDS(distances),
        WORDS(codes),
        cmocka_unit_test(all_is_as_it_was),
    };
    return GOLDEN_RUN("words.txt", tests);
}
