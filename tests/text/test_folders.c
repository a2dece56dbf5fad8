/* A folder whose files are one text: the bits of `cat`, splits, what verbs show of it, and what is refused. */
#include "cli/program.h"

/* Ends are within words, lines and characters; byte order is Z, a, b, and one file is empty. */
static void write_folder(void)
{
    static const char *const name[] = {"Z.txt", "a.txt", "b.tokens", "b.txt", "c.txt.gz", "d.txt"};
    static const char *const begin[] = {"the ", "ox ", "\xA9t\xC3\xA9 ", "y dog ", "sts\n\n", "n "};
    static const char *const end[] = {"quick brown f", "jumps \xC3", "over the laz",
                                      "and re",        "the",        "a mat"};
    static char text[2000];
    shell("rm -rf many && mkdir many && : >joined.txt && : >many/aa.txt");
    for (int i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "%s", begin[i]);
        for (int k = 0; k < 15; k++) strcat(text, "the dog sleeps on\n");
        strcat(text, end[i]);
        write_text("piece", text);
        shell("%s piece >many/%s && cat piece >>joined.txt", i == 4 ? "gzip -c" : "cat", name[i]);
    }
    shell("printf unread >many/.hidden.txt && printf unread >many/notes.md");
}

static void train(char hash[32], const char *text, const char *options)
{
    run("train c.yaml --set data.text=%s %s", text, options);
    expect_ok();
    last_hash(hash);
}

static void it_has_the_bits_of_one_file(void **state)
{
    static const char *const levels[] = {"char", "word", "byte", "bpe --set data.words=270"};
    (void)state;
    write_folder();
    write_text("c.yaml",
               "data: {context: 9, cache: cache}\nvalidation: {fraction: 0.2}\n"
               "model: {layers: [embedding: 6, {dense: {units: 6, name: all}}]}\n"
               "train: {batch_size: 8, replicas: 3, epochs: 2}\noptimizer: {name: adam}\n");
    for (int i = 0; i < 4; i++) {
        char hash[4][32], level[400];
        static const int vocabulary[] = {29, 18, 256, 270};
        snprintf(level, sizeof level,
                 "--set data.level=%s --set 'model.layers=[embedding: 6, dense: %d]'", levels[i],
                 vocabulary[i]);
        train(hash[0], "joined.txt", level);
        shell("find cache -type f | sort >before");
        train(hash[1], "many", level);
        shell("find cache -type f | sort >after");
        assert_int_equal(shell("cmp before after"), 0); /* it is the same text */
        shell("rm -r cache");
        train(hash[2], "many", level);
        strcat(level, " --set data.cache=none --workers 2");
        train(hash[3], "many", level);
        for (int k = 1; k < 4; k++) assert_string_equal(hash[k], hash[0]);
    }
}

static void verbs_take_it(void **state)
{
    static char expected[OUTPUT_SIZE];
    static const char *const verbs[] = {"show --count 3 --first 2", "stats", "check"},
                             *const texts[] = {"joined.txt", "many"};
    char keys[300];
    (void)state;
    write_folder();
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(keys, sizeof keys,
                     "data: {text: %s, context: 9, cache: none, level: word}\n"
                     "validation: {fraction: 0.1}\nmodel: {layers: [embedding: 6, dense: 18]}\n",
                     texts[k]);
            write_text("c.yaml", keys);
            run("data %s c.yaml", verbs[i]);
            expect_ok();
            for (char *at; k == 0 && (at = strstr(last.out, "joined.txt")) != NULL;) {
                memmove(at + 4, at + 10, strlen(at + 10) + 1);
                memcpy(at, "many", 4);
            }
            if (k == 0) snprintf(expected, sizeof expected, "%s", last.out);
            assert_string_equal(last.out, expected);
        }
    run("data vocabulary many --level char --out v.txt"); /* it has something else, too */
    expect(2, "many is no text; give a text file (.txt), a folder with some, or a configuration");
    shell("rm many/notes.md");
    run("data vocabulary many --level char --out v.txt");
    expect_ok();
    run("data show many --count 1");
    expect_ok();
    run("train c.yaml --data many --steps 1");
    expect_ok();
}

static void a_wrong_byte_is_named_by_its_file(void **state)
{
    (void)state;
    write_folder();
    write_text("c.yaml", "data: {text: many, context: 9, cache: none}\n"
                         "model: {layers: [embedding: 6, dense: 29]}\n");
    shell("printf 'wi\\377se' >many/e.txt");
    for (int level = 0; level < 2; level++) {
        run("train c.yaml --set data.level=%s", level ? "word" : "char");
        expect(4, "many/e.txt': byte 2, which is 0xff, is no part of a character in UTF-8");
    }
    run("data check c.yaml");
    expect(4, "many/e.txt': byte 2, which is 0xff");
    /* A character that a vocabulary has not. */
    write_folder();
    run("data vocabulary joined.txt --level char --out v.txt");
    expect_ok();
    shell("printf 'an X' >many/e.txt");
    run("train c.yaml --set data.tokenizer=v.txt");
    expect(4, "many/e.txt': the character U+0058 at byte 3 is not in the vocabulary");
    shell("rm many/* && ln -s nowhere many/a.txt && printf abc >many/b.txt");
    run("train c.yaml");
    expect(3, "many/a.txt");
}

static void a_name_that_says_a_split_is_no_part(void **state)
{
    (void)state;
    write_folder();
    write_text("c.yaml", "data: {text: many, context: 9, cache: none}\n"
                         "model: {layers: [embedding: 6, dense: 29]}\n");
    shell("mv many/d.txt many/d.valid.txt");
    run("train c.yaml --steps 1");
    expect(2, "data.text is a folder with 7 text files (.txt), none of them called train; give one "
              "of them, or call one so");
    shell("rm many/*");
    run("train c.yaml --steps 1");
    expect(2, "data.text is a folder without a text; expected files that end in .txt, .txt.gz or "
              ".tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_has_the_bits_of_one_file),
        TEST(verbs_take_it),
        TEST(a_wrong_byte_is_named_by_its_file),
        TEST(a_name_that_says_a_split_is_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
