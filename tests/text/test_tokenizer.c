/* Vocabularies of words, characters and bytes: made, written, read, and what is wrong with their files. */
#include "data/text/tokenizer.h"
#include "text/texts.h"

/* The tokens' bytes, one after the other. */
static void decodes_to(const lks_tokenizer *tokenizer, const char *text, const char *expected)
{
    int32_t ids[64];
    int64_t count;
    char found[300] = "";
    size_t at = 0, bytes;
    LKT_OK(lks_tokenizer_encode(tokenizer, text, strlen(text), ids, 64, &count));
    for (int64_t i = 0; i < count; i++, at += bytes) {
        const char *token = lks_tokenizer_token(tokenizer, ids[i], &bytes);
        assert_non_null(token);
        memcpy(found + at, token, bytes);
    }
    assert_string_equal(found, expected);
}

static void writes(const lks_tokenizer *tokenizer, const char *expected)
{
    char text[300] = "";
    const char *path = in("vocabulary");
    LKT_OK(lks_tokenizer_write(tokenizer, path));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
    lks_tokenizer *again;
    LKT_OK(lks_tokenizer_open(&again, context, path));
    assert_int_equal(lks_tokenizer_size(again), lks_tokenizer_size(tokenizer));
    assert_true(lks_tokenizer_hash(again) == lks_tokenizer_hash(tokenizer));
    assert_string_equal(lks_tokenizer_level(again), lks_tokenizer_level(tokenizer));
    assert_int_equal(lks_tokenizer_unknown(again), lks_tokenizer_unknown(tokenizer));
    for (int32_t i = 0; i < lks_tokenizer_size(again); i++) {
        size_t a, b;
        const char *one = lks_tokenizer_token(again, i, &a);
        const char *other = lks_tokenizer_token(tokenizer, i, &b);
        assert_int_equal(a, b);
        assert_memory_equal(one, other, a);
    }
    lks_tokenizer_destroy(again);
}

static void characters_are_numbered_in_their_order(void **state)
{
    (void)state;
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR},
                             "b\n a\\\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\xF4\x8F\xBF\xBF\ta");
    assert_int_equal(lks_tokenizer_size(t), 11);
    assert_int_equal(lks_tokenizer_unknown(t), -1);
    encodes_to(t, "ab \n", "4 5 2 1");
    encodes_to(t, "\xF0\x9F\x98\x80\xC3\xA9\xE2\x82\xAC\xF4\x8F\xBF\xBF", "9 7 8 10");
    encodes_to(t, "", "");
    decodes_to(t, "a\xE2\x82\xAC\n", "a\xE2\x82\xAC\n");
    writes(
        t,
        "lockstep vocabulary 1 char 11\n\\t\n\\n\n\\s\n\\\\\na\nb\n\\x7f\n\xC3\xA9\n\xE2\x82\xAC\n"
        "\xF0\x9F\x98\x80\n\xF4\x8F\xBF\xBF\n");
    int64_t count;
    LKT_FAILS(LKS_E_FORMAT, "the text: the character U+0078 at byte 2 is not in the vocabulary",
              lks_tokenizer_encode(t, "abx", 3, NULL, 0, &count));
    LKT_FAILS(LKS_E_FORMAT, "the text: the character U+00E8 at byte 1 is not in the vocabulary",
              lks_tokenizer_encode(t, "a\xC3\xA8", 3, NULL, 0, &count));
    lks_tokenizer_destroy(t);
}

static void what_is_no_utf8_is_named_by_its_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int at;
    } cases[] = {
        {"\x80", 0},
        {"a\xC3", 1},
        {"ab\xC3z", 2},
        {"\xC0\x80", 0},
        {"\xE0\x80\x80", 0},
        {"\xED\xA0\x80", 0},
        {"\xF0\x80\x80\x80", 0},
        {"\xF4\x90\x80\x80", 0},
        {"\xFFz", 0},
        {"12345678\xFE", 8},
        {"\xE2\x82", 0},
        {"\xF0\x9F\x98", 0},
        {"\xF8\x88\x80\x80\x80", 0},
        {"0123456\xC3\xA9\xC3", 9},
        {"\xE2\x82\xACz\xE2\x82z", 4},
    };
    for (int level = LKS_LEVEL_WORD; level <= LKS_LEVEL_BPE; level++) {
        const lks_vocabulary_opts opts = {.level = (lks_level)level};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char expected[100];
            lks_tokenizer *t;
            const char *text = cases[i].text;
            const size_t bytes = strlen(text);
            snprintf(expected, sizeof expected,
                     "the text: byte %d, which is 0x%02x, is no part of a character in UTF-8",
                     cases[i].at, (uint8_t)text[cases[i].at]);
            if (level >= LKS_LEVEL_BYTE) { /* all bytes have tokens */
                LKT_OK(lks_tokenizer_build(&t, context, &opts, &text, &bytes, 1));
                lks_tokenizer_destroy(t);
                continue;
            }
            LKT_FAILS(LKS_E_FORMAT, expected,
                      lks_tokenizer_build(&t, context, &opts, &text, &bytes, 1));
            assert_null(t);
            int64_t count;
            t = build(&opts, "0123456789abz\xE2\x82\xAC\xC3\xA9");
            LKT_FAILS(LKS_E_FORMAT, expected,
                      lks_tokenizer_encode(t, text, bytes, NULL, 0, &count));
            lks_tokenizer_destroy(t);
        }
    }
}

static void bytes_are_numbered_by_themselves(void **state)
{
    (void)state;
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BYTE}, "");
    assert_int_equal(lks_tokenizer_size(t), 256);
    encodes_to(t, "A\xFF\n", "65 255 10");
    decodes_to(t, "A\xFF\n", "A\xFF\n");
    writes(t, "lockstep vocabulary 1 byte 256\n");
    size_t bytes;
    assert_null(lks_tokenizer_token(t, 256, &bytes));
    assert_null(lks_tokenizer_token(t, -1, &bytes));
    lks_tokenizer_destroy(t);
}

static void words_are_numbered_by_frequency(void **state)
{
    (void)state;
    const char *text = " the cat\tsat \r\nthe  dog sat\n\nthe end";
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_WORD}, text);
    /* <eos> four times, the last at the end; the three times; sat twice; cat, dog, end; <unk> */
    writes(t, "lockstep vocabulary 1 word 7\n<eos>\nthe\nsat\ncat\ndog\nend\n<unk>\n");
    encodes_to(t, "the cow sat\n\nend", "1 6 2 0 0 5");
    encodes_to(t, "<eos> <unk>  ", "0 6");
    decodes_to(t, "the\t cow\nend", " the <unk>\n end");
    assert_int_equal(lks_tokenizer_unknown(t), 6);
    lks_tokenizer_destroy(t);
    t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_WORD, .by_appearance = true}, text);
    writes(t, "lockstep vocabulary 1 word 7\nthe\ncat\nsat\n<eos>\ndog\nend\n<unk>\n");
    lks_tokenizer_destroy(t);
    t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_WORD, .words = 5}, text);
    writes(t, "lockstep vocabulary 1 word 5\n<eos>\nthe\nsat\ncat\n<unk>\n");
    lks_tokenizer_destroy(t);
    t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_WORD, .words = 5, .by_appearance = true},
              text);
    writes(t, "lockstep vocabulary 1 word 5\nthe\ncat\nsat\n<eos>\n<unk>\n");
    lks_tokenizer_destroy(t);
    /* <unk> that a text has is a word as others, and kept however rare it is. */
    t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_WORD, .words = 3}, "b b <unk> a a\n");
    writes(t, "lockstep vocabulary 1 word 3\nb\n<unk>\n<eos>\n");
    lks_tokenizer_destroy(t);
}

static void several_texts_make_one_vocabulary(void **state)
{
    (void)state;
    const char *texts[] = {"b a", "", "c a"};
    const size_t bytes[] = {3, 0, 3};
    lks_tokenizer *t;
    LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.by_appearance = true}, texts,
                               bytes, 3));
    writes(t, "lockstep vocabulary 1 word 5\nb\na\n<eos>\nc\n<unk>\n");
    lks_tokenizer_destroy(t);
    LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, texts,
                               bytes, 3));
    writes(t, "lockstep vocabulary 1 char 4\n\\s\na\nb\nc\n");
    lks_tokenizer_destroy(t);
}

static void no_more_than_room_is_written(void **state)
{
    (void)state;
    for (int level = LKS_LEVEL_WORD; level <= LKS_LEVEL_BPE; level++) {
        lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = (lks_level)level}, "a b c d");
        const int64_t expected = level == LKS_LEVEL_WORD || level == LKS_LEVEL_BPE ? 4 : 7;
        int32_t all[8], ids[8];
        int64_t count;
        LKT_OK(lks_tokenizer_encode(t, "a b c d", 7, all, 8, &count));
        assert_int_equal(count, expected);
        for (int64_t room = 0; room <= expected; room++) {
            for (int i = 0; i < 8; i++) ids[i] = -7;
            LKT_OK(lks_tokenizer_encode(t, "a b c d", 7, ids, room, &count));
            assert_int_equal(count, expected);
            for (int64_t i = 0; i < 8; i++) assert_int_equal(ids[i], i < room ? all[i] : -7);
        }
        lks_tokenizer_destroy(t);
    }
}

static void many_words_are_told_apart(void **state)
{
    (void)state;
    enum { WORDS = 20000 };
    char *text = malloc(WORDS * 8);
    int32_t *ids = malloc(WORDS * sizeof *ids);
    size_t bytes = 0;
    int64_t count;
    assert_non_null(text);
    assert_non_null(ids);
    for (int i = 0; i < WORDS; i++) bytes += (size_t)sprintf(text + bytes, "w%d ", i);
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.by_appearance = true}, text);
    assert_int_equal(lks_tokenizer_size(t), WORDS + 2);
    LKT_OK(lks_tokenizer_encode(t, text, bytes, ids, WORDS, &count));
    assert_int_equal(count, WORDS);
    for (int i = 0; i < WORDS; i++) assert_int_equal(ids[i], i);
    LKT_OK(lks_tokenizer_write(t, in("words")));
    lks_tokenizer_destroy(t);
    LKT_OK(lks_tokenizer_open(&t, context, in("words")));
    LKT_OK(lks_tokenizer_encode(t, text, bytes, ids, WORDS, &count));
    for (int i = 0; i < WORDS; i++) assert_int_equal(ids[i], i);
    lks_tokenizer_destroy(t);
    free(text);
    free(ids);
}

static void texts_without_a_token_have_no_vocabulary(void **state)
{
    (void)state;
    lks_tokenizer *t;
    const char *text = "";
    size_t bytes = 0;
    LKT_FAILS(LKS_E_INVALID, "a vocabulary of words: the text is empty",
              lks_tokenizer_build(&t, context, NULL, &text, &bytes, 1));
    LKT_FAILS(LKS_E_INVALID, "a vocabulary of words: the text is empty",
              lks_tokenizer_build(&t, context, NULL, NULL, NULL, 0));
    LKT_FAILS(LKS_E_INVALID, "a vocabulary of characters: the text is empty",
              lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR},
                                  &text, &bytes, 1));
    for (int64_t words = -1; words <= 2; words += words == -1 ? 2 : 1) {
        LKT_FAILS(LKS_E_INVALID, "expected at least 3",
                  lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.words = words}, &text,
                                      &bytes, 1));
    }
    LKT_FAILS(LKS_E_INVALID, "level is 4",
              lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = (lks_level)4}, &text,
                                  &bytes, 1));
    LKT_FAILS(LKS_E_INVALID, "level is -1",
              lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = (lks_level)-1},
                                  &text, &bytes, 1));
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "is no vocabulary"},
        {"a\nb\n", "is no vocabulary"},
        {"lockstep vocabulary 2 char 1\na\n", "is no vocabulary"},
        {"lockstep vocabulary 1 chars 1\na\n", "is no vocabulary"},
        {"lockstep vocabulary 1 char", "is no vocabulary"},
        {"lockstep vocabulary 1 char ", "line 1: expected \"lockstep vocabulary 1 char\""},
        {"lockstep vocabulary 1 char x\na\n", "line 1: expected"},
        {"lockstep vocabulary 1 char 1", "line 1: expected"},
        {"lockstep vocabulary 1 char 0\n", "line 1: expected"},
        {"lockstep vocabulary 1 char -1\na\n", "line 1: expected"},
        {"lockstep vocabulary 1 char 1 \na\n", "line 1: expected"},
        {"lockstep vocabulary 1 char 2147483648\na\n", "line 1: expected"},
        {"lockstep vocabulary 1 char 99999999999999999999999\na\n", "line 1: expected"},
        {"lockstep vocabulary 1 char 2147483647\na\n",
         "has less than the 2147483647 tokens that its first line says; it is cut off"},
        {"lockstep vocabulary 1 char 2\na\n", "has less than the 2 tokens"},
        {"lockstep vocabulary 1 word 2\n<unk>\n<eos>", "has 1 of the 2 tokens"},
        {"lockstep vocabulary 1 word 2\n<unk>\n<e", "has 1 of the 2 tokens"},
        {"lockstep vocabulary 1 char 1\na\nb\n",
         "line 3: behind the last token that the first line counts"},
        {"lockstep vocabulary 1 char 2\na\na\n", "line 3: a character that stands there twice"},
        {"lockstep vocabulary 1 char 2\n\\s\n \n", "line 3: a character that stands there twice"},
        {"lockstep vocabulary 1 char 2\nab\nc\n", "line 2: more than one character in a token"},
        {"lockstep vocabulary 1 char 2\nab\n\n", "line 3: a token without a character"},
        {"lockstep vocabulary 1 char 2\na\n\n\n", "line 3: a token without a character"},
        {"lockstep vocabulary 1 char 1\n\\q\n",
         "line 2: expected \\n, \\r, \\t, \\s, \\\\ or \\x00"},
        {"lockstep vocabulary 1 char 1\n\\\n", "line 2: expected \\n"},
        {"lockstep vocabulary 1 char 1\n\\x8\n", "line 2: expected \\n"},
        {"lockstep vocabulary 1 char 1\n\\x80\n", "line 2: expected \\n"},
        {"lockstep vocabulary 1 char 1\n\\x7G\n", "line 2: expected \\n"},
        {"lockstep vocabulary 1 char 1\n\xC3\n", "byte 29, which is 0xc3"},
        {"lockstep vocabulary 1 word 2\n<eos>\na\n", "has no <unk>"},
        {"lockstep vocabulary 1 word 2\na\n<unk>\n", "has no <eos>"},
        {"lockstep vocabulary 1 word 3\n<eos>\n<unk>\n<unk>\n",
         "line 4: a word that stands there twice"},
        {"lockstep vocabulary 1 word 3\n<eos>\na b\n<unk>\n", "line 3: a word with a blank"},
        {"lockstep vocabulary 1 word 3\n<eos>\na\\n\n<unk>\n", "line 3: a word with a blank"},
        {"lockstep vocabulary 1 word 3\n<eos>\n\\n\n<unk>\n", "line 3: a word with a blank"},
        {"lockstep vocabulary 1 word 3\n<eos>\n\\sa\n<unk>\n", "line 3: a word with a blank"},
        {"lockstep vocabulary 1 word 3\n<eos>\n\\s\n<unk>\n", "line 3: a word with a blank"},
        {"lockstep vocabulary 1 byte 255\n", "expected 256 tokens"},
        {"lockstep vocabulary 1 byte 256\na\n", "expected 256 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_tokenizer *t = (lks_tokenizer *)&i;
        const char *path = write_text("lies", cases[i].text, strlen(cases[i].text));
        LKT_FAILS(LKS_E_FORMAT, cases[i].expected, lks_tokenizer_open(&t, context, path));
        assert_null(t);
        assert_non_null(strstr(lks_last_error()->message, "lies'"));
    }
    lks_tokenizer *t;
    LKT_FAILS(LKS_E_IO, "nothing", lks_tokenizer_open(&t, context, in("nothing")));
}

static void a_hash_is_of_tokens_and_their_order(void **state)
{
    (void)state;
    lks_tokenizer *a = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "ab");
    lks_tokenizer *b = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "abc");
    lks_tokenizer *c = build(&(lks_vocabulary_opts){0}, "a b a b b");
    lks_tokenizer *d = build(&(lks_vocabulary_opts){.by_appearance = true}, "a b a b b");
    const uint64_t hash[] = {lks_tokenizer_hash(a), lks_tokenizer_hash(b), lks_tokenizer_hash(c),
                             lks_tokenizer_hash(d)};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_true(hash[i] != hash[k]);
    /* That of the file, as the Python package xxhash has it. */
    assert_true(hash[0] == UINT64_C(0x5a68c6be9aedd3b1));
    lks_tokenizer_destroy(a);
    lks_tokenizer_destroy(b);
    lks_tokenizer_destroy(c);
    lks_tokenizer_destroy(d);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    const char *text = "some words of some text\n";
    const size_t bytes = strlen(text);
    for (int level = LKS_LEVEL_WORD; level <= LKS_LEVEL_BPE; level++) {
        int64_t failures = 0;
        for (lkt_heap heap = {.fail_at = 1};; heap = (lkt_heap){.fail_at = heap.fail_at + 1}) {
            lks_context *small;
            lks_tokenizer *t;
            const int64_t at = heap.fail_at;
            heap.fail_at = 0;
            LKT_OK(lks_context_create(&small,
                                      &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}));
            heap.fail_at = heap.allocations + at;
            const lks_status status = lks_tokenizer_build(
                &t, small, &(lks_vocabulary_opts){.level = (lks_level)level}, &text, &bytes, 1);
            const bool done = status == LKS_OK;
            if (!done) assert_int_equal(status, LKS_E_NOMEM);
            failures += !done;
            lks_tokenizer_destroy(t);
            lks_context_destroy(small);
            assert_int_equal(heap.live, 0);
            assert_int_equal(heap.errors, 0);
            heap.fail_at = at;
            if (done) break;
        }
        assert_true(failures >= 3);
    }
}

/* Of any text and vocabulary, every cut gives the same tokens as the whole. */
static void cuts_change_no_token(void **state)
{
    (void)state;
    const char *text = "the \xE2\x82\xAC cat\n\n sat\xC3\xA9 on \r\n\xF0\x9F\x98\x80 the";
    const size_t bytes = strlen(text);
    for (int level = LKS_LEVEL_WORD; level <= LKS_LEVEL_BPE; level++) {
        lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = (lks_level)level}, text);
        int32_t all[64], ids[64];
        int64_t count, first, second;
        int cuts = 0;
        LKT_OK(lks_tokenizer_encode(t, text, bytes, all, 64, &count));
        for (size_t at = 1; at < bytes; at++) {
            const size_t cut = t->kind->cut(t, text, bytes, at);
            assert_in_range(cut, at, bytes);
            LKT_OK(lks_tokenizer_encode(t, text, cut, ids, 64, &first));
            LKT_OK(
                lks_tokenizer_encode(t, text + cut, bytes - cut, ids + first, 64 - first, &second));
            assert_int_equal(first + second, count);
            assert_memory_equal(ids, all, (size_t)count * sizeof *ids);
            cuts += cut == at;
        }
        assert_true(cuts >= 5);
        lks_tokenizer_destroy(t);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(characters_are_numbered_in_their_order),
        TEST(what_is_no_utf8_is_named_by_its_byte),
        TEST(bytes_are_numbered_by_themselves),
        TEST(words_are_numbered_by_frequency),
        TEST(several_texts_make_one_vocabulary),
        TEST(no_more_than_room_is_written),
        TEST(many_words_are_told_apart),
        TEST(texts_without_a_token_have_no_vocabulary),
        TEST(files_that_lie_are_refused),
        TEST(a_hash_is_of_tokens_and_their_order),
        TEST(cuts_change_no_token),
        TEST(no_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
