/* Pairs of bytes that are learned: as the trainer of Hugging Face's tokenizers does, ties included. */
#include "support/golden.h"
#include "text/texts.h"

static void pairs_are_learned_as_tokenizers_does(void **state)
{
    (void)state;
    json_t *golden = lkt_json_load("tests/text/golden/byte_pairs.json");
    const char *text = json_string_value(json_object_get(golden, "text"));
    const json_t *merges = json_object_get(golden, "merges");
    const int64_t size = lkt_json_integer(golden, "size");
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BPE, .words = size}, text);
    assert_int_equal(lks_tokenizer_size(t), size);
    LKT_OK(lks_tokenizer_write(t, in("learned.json")));
    json_t *own = json_load_file(in("learned.json"), 0, NULL);
    assert_non_null(own);
    assert_true(json_equal(json_object_get(json_object_get(own, "model"), "merges"), merges));
    json_decref(own);
    lks_tokenizer_destroy(t);
    json_decref(golden);
}

/* Of equally frequent pairs that with the smaller numbers goes first; a pair that is not there any more is not joined. */
static void ties_are_decided_by_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t size;
        const char *merges;
    } cases[] = {
        {"ba", 300, "[\"b a\"]"},
        {"cd ab", 300, "[\"a b\", \"c d\", \"\304\240 ab\"]"},
        {"cb ca", 257, "[\"c a\"]"},
        {"aaa", 300, "[\"a a\", \"aa a\"]"},
        {"aaaa", 300, "[\"a a\", \"aa aa\"]"},
        {"ab ab xab", 258, "[\"a b\", \"x ab\"]"},
        {"anything", 256, "[]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_tokenizer *t = build(
            &(lks_vocabulary_opts){.level = LKS_LEVEL_BPE, .words = cases[i].size}, cases[i].text);
        LKT_OK(lks_tokenizer_write(t, in("ties.json")));
        json_t *own = json_load_file(in("ties.json"), 0, NULL);
        json_t *expected = json_loads(cases[i].merges, 0, NULL);
        assert_non_null(expected);
        if (!json_equal(json_object_get(json_object_get(own, "model"), "merges"), expected))
            fail_msg("'%s' is learned in another way", cases[i].text);
        json_decref(expected);
        json_decref(own);
        lks_tokenizer_destroy(t);
    }
    lks_tokenizer *t;
    const char *text = "";
    size_t bytes = 0;
    LKT_FAILS(LKS_E_INVALID, "a vocabulary of byte pairs: the text is empty",
              lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = LKS_LEVEL_BPE},
                                  &text, &bytes, 1));
    LKT_FAILS(LKS_E_INVALID, "255 tokens, expected at least 256",
              lks_tokenizer_build(&t, context,
                                  &(lks_vocabulary_opts){.level = LKS_LEVEL_BPE, .words = 255},
                                  &text, &bytes, 1));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pairs_are_learned_as_tokenizers_does),
        TEST(ties_are_decided_by_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
