/* Tokens of texts that are published, where they are there: the Penn Treebank and Shakespeare. */
#include <inttypes.h>

#include "data/text/bpe/bpe.h"
#include "support/golden.h"
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

/* FNV-1a of little-endian 32 bits each, as tools/goldens/byte_pairs.py has it. */
static uint64_t digest(uint64_t value, uint32_t number)
{
    for (int i = 0; i < 4; i++, number >>= 8)
        value = (value ^ (number & 0xFF)) * UINT64_C(0x100000001b3);
    return value;
}

static void has_digest(uint64_t found, const json_t *object, const char *key)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, found);
    assert_string_equal(text, json_string_value(json_object_get(object, key)));
}

static void has_tokens_of(const lks_tokenizer *t, const json_t *one)
{
    size_t bytes;
    char *text = shared_text(json_string_value(json_object_get(one, "name")), &bytes);
    assert_non_null(text);
    int64_t count;
    uint64_t found = UINT64_C(0xcbf29ce484222325);
    int32_t *ids = malloc(bytes * sizeof *ids);
    assert_non_null(ids);
    LKT_OK(lks_tokenizer_encode(t, text, bytes, ids, (int64_t)bytes, &count));
    assert_int_equal(count, lkt_json_integer(one, "tokens"));
    for (int64_t i = 0; i < count; i++) found = digest(found, (uint32_t)ids[i]);
    has_digest(found, one, "digest");
    free(ids);
    free(text);
}

/* Pairs learned from Shakespeare, and the tokens of all texts with them. */
static void byte_pairs_are_those_of_tokenizers(void **state)
{
    (void)state;
    size_t bytes, i;
    char *text = shared_text("tinyshakespeare/input.txt", &bytes);
    if (text == NULL) skip();
    json_t *golden = lkt_json_load("tests/text/golden/byte_pairs.json"), *one;
    const json_t *published = json_object_get(golden, "published");
    const lks_vocabulary_opts opts = {.level = LKS_LEVEL_BPE,
                                      .words = lkt_json_integer(published, "size")};
    lks_tokenizer *t;
    LKT_OK(lks_tokenizer_build(&t, context, &opts, (const char *const *)&text, &bytes, 1));
    const lki_pairs *merges = &((const lki_bpe *)t->own)->merges;
    uint64_t found = UINT64_C(0xcbf29ce484222325);
    for (int32_t k = 0; k < merges->size; k++)
        found = digest(digest(found, (uint32_t)merges->pair[k].left),
                       (uint32_t)merges->pair[k].right);
    has_digest(found, published, "pairs");
    json_array_foreach(json_object_get(published, "texts"), i, one) has_tokens_of(t, one);
    lks_tokenizer_destroy(t);
    json_decref(golden);
    free(text);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_treebank_and_shakespeare_have_their_tokens),
        TEST(byte_pairs_are_those_of_tokenizers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
