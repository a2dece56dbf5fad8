/* Tokens of texts that are published, where they are there: the Penn Treebank and Shakespeare. */
#include "text/texts.h"

/* Its dictionary over training and test, made in Python by the rule of its Corpus. */
static void as_needle_has_it(const char *test, size_t test_bytes)
{
    const char *texts[2] = {NULL, test};
    size_t bytes[2] = {0, test_bytes};
    lks_tokenizer *t;
    char *training = shared_text("ptb/ptb.train.txt", &bytes[0]);
    assert_non_null(training);
    texts[0] = training;
    LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.by_appearance = true}, texts,
                               bytes, 2));
    assert_int_equal(lks_tokenizer_size(t), 10000);
    encodes_to(t, "aer banknote berlitz\n<unk> the unilab", "0 1 2 24 26 32 9999");
    lks_tokenizer_destroy(t);
    free(training);
}

static void the_treebank_and_shakespeare_have_their_tokens(void **state)
{
    (void)state;
    size_t bytes;
    int64_t count;
    char *text = shared_text("ptb/ptb.train.txt", &bytes);
    if (text == NULL) skip();
    lks_tokenizer *t;
    LKT_OK(lks_tokenizer_build(&t, context, NULL, (const char *const *)&text, &bytes, 1));
    assert_int_equal(lks_tokenizer_size(t), 10000);
    LKT_OK(lks_tokenizer_encode(t, text, bytes, NULL, 0, &count));
    assert_int_equal(count, 929589);
    free(text);
    text = shared_text("ptb/ptb.test.txt", &bytes);
    assert_non_null(text);
    LKT_OK(lks_tokenizer_encode(t, text, bytes, NULL, 0, &count));
    assert_int_equal(count, 82430);
    /* As Python's sorted() has them by count and first appearance. */
    encodes_to(t, "the <unk>\n N of", "0 1 2 3 4");
    encodes_to(t, "no it was n't black monday guber-peters isi", "102 14 24 32 753 381 5000 9999");
    lks_tokenizer_destroy(t);
    as_needle_has_it(text, bytes);
    free(text);
    text = shared_text("tinyshakespeare/input.txt", &bytes);
    if (text == NULL) skip();
    LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR},
                               (const char *const *)&text, &bytes, 1));
    assert_int_equal(lks_tokenizer_size(t), 65);
    encodes_to(t, "First Citizen:", "18 47 56 57 58 1 15 47 58 47 64 43 52 10");
    lks_tokenizer_destroy(t);
    free(text);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_treebank_and_shakespeare_have_their_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
