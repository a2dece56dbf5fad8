/* Byte pairs: tokens as Hugging Face's tokenizers has them, wherever a text is cut. */
#include "data/text/bpe/bpe.h"
#include "data/text/bpe/classes.h"
#include "data/text/bpe/pieces.h"
#include "data/text/tokens.h"
#include "support/golden.h"
#include "text/texts.h"

enum { ROOM = 1024 };

static const char *golden_path(const char *name)
{
    static char path[4300];
    const char *source = getenv("LKT_SOURCE");
    snprintf(path, sizeof path, "%s/tests/text/golden/%s", source != NULL ? source : ".", name);
    return path;
}

static lks_tokenizer *open_golden(void)
{
    lks_tokenizer *t;
    LKT_OK(lks_tokenizer_open(&t, context, golden_path("tokenizer.json")));
    assert_string_equal(lks_tokenizer_level(t), "bpe");
    return t;
}

/* The golden tokenizer with something else in it. */
static lks_tokenizer *open_changed(json_t *tokenizer)
{
    lks_tokenizer *t;
    assert_int_equal(json_dump_file(tokenizer, in("changed.json"), 0), 0);
    LKT_OK(lks_tokenizer_open(&t, context, in("changed.json")));
    json_decref(tokenizer);
    return t;
}

static void has_tokens(const lks_tokenizer *t, const char *text, size_t bytes, const json_t *ids)
{
    int32_t found[ROOM];
    int64_t count;
    LKT_OK(lks_tokenizer_encode(t, text, bytes, found, ROOM, &count));
    if (count != (int64_t)json_array_size(ids))
        fail_msg("'%s': %d tokens, expected %d", text, (int)count, (int)json_array_size(ids));
    for (int64_t i = 0; i < count; i++)
        if (found[i] != json_integer_value(json_array_get(ids, (size_t)i)))
            fail_msg("'%s': token %d is %d, expected %d", text, (int)i, found[i],
                     (int)json_integer_value(json_array_get(ids, (size_t)i)));
}

/* Its tokens' bytes are the text, but for the space in front. */
static void comes_back(const lks_tokenizer *t, const char *text, size_t bytes, bool prefixed)
{
    int32_t ids[ROOM];
    int64_t count;
    char back[4 * ROOM];
    size_t used = 0, length;
    LKT_OK(lks_tokenizer_encode(t, text, bytes, ids, ROOM, &count));
    for (int64_t i = 0; i < count; i++) {
        const char *token = lks_tokenizer_token(t, ids[i], &length);
        assert_non_null(token);
        memcpy(back + used, token, length);
        used += length;
    }
    const size_t skipped = prefixed && bytes > 0 && used == bytes + 1;
    if (skipped) assert_int_equal(back[0], ' ');
    assert_int_equal(used - skipped, bytes);
    assert_memory_equal(back + skipped, text, bytes);
}

static void has_cases(const lks_tokenizer *t, const json_t *cases, bool prefixed)
{
    size_t i;
    json_t *one;
    assert_true(json_array_size(cases) > 60);
    json_array_foreach(cases, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "text"));
        has_tokens(t, text, strlen(text), json_object_get(one, "ids"));
        const bool several = strchr(text, '<') != NULL || strstr(text, "xy") != NULL;
        if (!prefixed || !several) comes_back(t, text, strlen(text), prefixed);
    }
}

static void tokens_are_those_of_tokenizers(void **state)
{
    (void)state;
    json_t *golden = lkt_json_load("tests/text/golden/byte_pairs.json");
    lks_tokenizer *t = open_golden();
    assert_int_equal(lks_tokenizer_size(t), 424);
    assert_int_equal(lks_tokenizer_unknown(t), -1);
    has_cases(t, json_object_get(golden, "cases"), false);
    size_t i, k;
    json_t *one, *byte;
    json_array_foreach(json_object_get(golden, "bytes"), i, one)
    {
        char text[40];
        json_array_foreach(json_object_get(one, "bytes"), k, byte)
            text[k] = (char)json_integer_value(byte);
        has_tokens(t, text, k, json_object_get(one, "ids"));
        comes_back(t, text, k, false);
    }
    assert_int_equal(i, 12);
    lks_tokenizer_destroy(t);
    json_decref(golden);
}

static void a_space_may_stand_in_front(void **state)
{
    (void)state;
    json_t *golden = lkt_json_load("tests/text/golden/byte_pairs.json");
    json_t *changed = lkt_json_load("tests/text/golden/tokenizer.json");
    json_object_set_new(json_object_get(changed, "pre_tokenizer"), "add_prefix_space", json_true());
    lks_tokenizer *t = open_changed(changed);
    has_cases(t, json_object_get(golden, "prefixed"), true);
    /* Then a text may have more tokens than bytes. */
    int32_t ids[4];
    int64_t count;
    LKT_OK(lks_tokenizer_encode(t, "~", 1, ids, 4, &count));
    assert_int_equal(count, 2);
    lki_tokens tokens;
    const char *path = write_text("one", "~", 1);
    LKT_OK(lki_tokens_open(&tokens, t, path, &(lki_tokens_opts){.threads = 2}));
    assert_int_equal(tokens.count, 2);
    int32_t read[2];
    lki_tokens_read(&tokens, 0, 2, read);
    assert_memory_equal(read, ids, sizeof read);
    lki_tokens_close(&tokens);
    lks_tokenizer_destroy(t);
    json_decref(golden);
}

static void is_same(const lks_tokenizer *t, const lks_tokenizer *other)
{
    assert_true(lks_tokenizer_hash(t) == lks_tokenizer_hash(other));
    assert_int_equal(lks_tokenizer_size(t), lks_tokenizer_size(other));
}

static void both_forms_of_merges_are_one(void **state)
{
    (void)state;
    lks_tokenizer *t = open_golden(), *again;
    json_t *changed = lkt_json_load("tests/text/golden/tokenizer.json");
    json_t *model = json_object_get(changed, "model"), *merges = json_array(), *pair;
    size_t i;
    json_array_append_new(merges, json_string("#version: 0.2"));
    json_array_foreach(json_object_get(model, "merges"), i, pair) json_array_append_new(
        merges, json_sprintf("%s %s", json_string_value(json_array_get(pair, 0)),
                             json_string_value(json_array_get(pair, 1))));
    json_object_set_new(model, "merges", merges);
    json_object_del(model, "type"); /* as in GPT-2's own */
    json_object_set_new(model, "continuing_subword_prefix", json_string(""));
    lks_tokenizer *other = open_changed(changed);
    is_same(t, other);
    LKT_OK(lks_tokenizer_write(t, in("own.json")));
    LKT_OK(lks_tokenizer_open(&again, context, in("own.json")));
    is_same(t, again);
    lks_tokenizer_destroy(again);
    lks_tokenizer_destroy(other);
    lks_tokenizer_destroy(t);
}

/* Joining by looking at every pair each time. */
static int64_t join_slowly(const lki_bpe *bpe, int32_t *token, const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) token[i] = bpe->byte[(uint8_t)text[i]];
    for (;;) {
        int32_t best = INT32_MAX;
        int64_t at = -1;
        for (int64_t i = 0; i + 1 < bytes; i++) {
            const int32_t rank = lki_pairs_find(&bpe->merges, (lki_pair){token[i], token[i + 1]});
            if (rank < 0 || rank >= best) continue;
            best = rank;
            at = i;
        }
        if (at < 0) return bytes;
        token[at] = bpe->made[best];
        bytes--;
        memmove(token + at + 1, token + at + 2, (size_t)(bytes - at - 1) * sizeof *token);
    }
}

static void pieces_of_any_length_are_joined_by_rank(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("pieces", 5);
    char text[700];
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = "abcde "[lkt_random_below(&random, 6)];
    text[sizeof text - 1] = '\0';
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BPE, .words = 500}, text);
    for (int turn = 0; turn < 3000; turn++) {
        int32_t ids[512], expected[512];
        int64_t count;
        const int64_t bytes = 1 + lkt_random_below(&random, turn % 10 == 0 ? 500 : 30);
        const int64_t letters = 1 + lkt_random_below(&random, 5);
        for (int64_t i = 0; i < bytes; i++) text[i] = "abcde"[lkt_random_below(&random, letters)];
        LKT_OK(lks_tokenizer_encode(t, text, (size_t)bytes, ids, 512, &count));
        assert_int_equal(count, join_slowly(t->own, expected, text, bytes));
        assert_memory_equal(ids, expected, (size_t)count * sizeof *ids);
    }
    lks_tokenizer_destroy(t);
}

static void a_long_run_is_one_piece(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BPE}, "aaaa");
    char *text = malloc(LONG);
    int32_t *ids = malloc(LONG * sizeof *ids);
    int64_t count;
    assert_non_null(text);
    assert_non_null(ids);
    memset(text, 'a', LONG);
    LKT_OK(lks_tokenizer_encode(t, text, LONG, ids, LONG, &count));
    assert_int_equal(count, LONG / 4);
    for (int64_t i = 0; i < count; i++) assert_int_equal(ids[i], 257);
    free(ids);
    free(text);
    lks_tokenizer_destroy(t);
}

/* Every cut of a text with every kind of character gives the tokens of the whole, also behind added tokens. */
static void cuts_change_no_token(void **state)
{
    (void)state;
    static const char *const parts[] = {"a",
                                        "the",
                                        " ",
                                        " ",
                                        "\n",
                                        "\t",
                                        "'s",
                                        "'",
                                        "12",
                                        "!",
                                        "\xC2\xA0",
                                        "\xE3\x80\x80",
                                        "\xFF",
                                        "\xE2",
                                        "\xE4\xB8\xAD",
                                        "<|endoftext|>",
                                        "xy",
                                        "\xE2\x80\xA8"};
    enum { PARTS = sizeof parts / sizeof *parts };
    lkt_random random = lkt_random_make("cuts", 1);
    int64_t cuts = 0;
    for (int turn = 0; turn < 40; turn++) {
        json_t *changed = lkt_json_load("tests/text/golden/tokenizer.json");
        if (turn % 2 == 1)
            json_object_set_new(json_object_get(changed, "pre_tokenizer"), "add_prefix_space",
                                json_true());
        lks_tokenizer *t = open_changed(changed);
        char text[600] = "";
        int32_t all[ROOM], ids[ROOM];
        int64_t count, first, second;
        for (int i = 0; i < 60; i++) strcat(text, parts[lkt_random_below(&random, PARTS)]);
        const size_t bytes = strlen(text);
        LKT_OK(lks_tokenizer_encode(t, text, bytes, all, ROOM, &count));
        for (size_t at = 1; at < bytes; at++) {
            const size_t cut = t->kind->cut(t, text, bytes, at);
            assert_in_range(cut, at, bytes);
            LKT_OK(lks_tokenizer_encode(t, text, cut, ids, ROOM, &first));
            LKT_OK(lks_tokenizer_encode(t, text + cut, bytes - cut, ids + first, ROOM - first,
                                        &second));
            assert_int_equal(first + second, count);
            assert_memory_equal(ids, all, (size_t)count * sizeof *ids);
            cuts += cut == at;
        }
        lks_tokenizer_destroy(t);
    }
    assert_true(cuts >= 40);
}

/* Without added tokens a cut is where a piece ends. */
static void cuts_are_borders_of_pieces(void **state)
{
    (void)state;
    static const char *const parts[] = {"a", " ",    "\n",          "\xC2\xA0", "\xE3\x80\x80",
                                        "!", "\x85", "\xE2\x80\xA8"};
    lkt_random random = lkt_random_make("borders", 2);
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BPE}, "a");
    for (int turn = 0; turn < 500; turn++) {
        char text[100] = "";
        bool border[101] = {false};
        for (int i = 0; i < 20; i++) strcat(text, parts[lkt_random_below(&random, 8)]);
        const size_t bytes = strlen(text);
        const uint8_t *at = (const uint8_t *)text, *const end = at + bytes;
        for (size_t from = 0; from < bytes; from += lki_piece(at + from, end)) border[from] = true;
        border[bytes] = true;
        for (size_t i = 1; i < bytes; i++) assert_true(border[t->kind->cut(t, text, bytes, i)]);
    }
    lks_tokenizer_destroy(t);
}

/* What is kept of short pieces is taken for none but them. */
static void kept_pieces_are_told_apart(void **state)
{
    (void)state;
    enum { LETTERS = 26, WORDS = 20000, LONG = 22, TEXT = WORDS * LONG };
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BPE, .words = 256}, "a");
    const lki_bpe *bpe = t->own;
    lkt_random random = lkt_random_make("kept", 3);
    char *text = malloc(TEXT);
    int32_t *ids = malloc(TEXT * sizeof *ids);
    int64_t count;
    size_t bytes = 0;
    assert_non_null(text);
    assert_non_null(ids);
    for (int i = 0; i < LETTERS * LETTERS * LETTERS; i++) {
        text[bytes++] = ' ';
        for (int k = 0, rest = i; k < 3; k++, rest /= LETTERS)
            text[bytes + 2 - (size_t)k] = (char)('a' + rest % LETTERS);
        bytes += 3;
    }
    for (int turn = 0; turn < 2; turn++) {
        LKT_OK(lks_tokenizer_encode(t, text, bytes, ids, TEXT, &count));
        assert_int_equal(count, bytes);
        for (int64_t i = 0; i < count; i++) assert_int_equal(ids[i], bpe->byte[(uint8_t)text[i]]);
        /* Then words of any length. */
        for (bytes = 0; bytes < TEXT - LONG;) {
            const int64_t length = 1 + lkt_random_below(&random, LONG - 1);
            text[bytes++] = ' ';
            for (int64_t k = 0; k < length; k++)
                text[bytes++] = (char)('a' + lkt_random_below(&random, LETTERS));
        }
    }
    for (int turn = 0; turn < 2; turn++) { /* the second time some are kept */
        LKT_OK(lks_tokenizer_encode(t, text, bytes, ids, TEXT, &count));
        for (int64_t i = 0; i < count; i++) assert_int_equal(ids[i], bpe->byte[(uint8_t)text[i]]);
    }
    free(ids);
    free(text);
    lks_tokenizer_destroy(t);
}

/* An added token with a border in it is found wherever a text is cut, as it is not. */
static void tokens_with_spaces_are_not_cut(void **state)
{
    (void)state;
    json_t *changed = lkt_json_load("tests/text/golden/tokenizer.json");
    json_array_append_new(json_object_get(changed, "added_tokens"),
                          json_pack("{s:i, s:s}", "id", 424, "content", "e \tx"));
    lks_tokenizer *t = open_changed(changed);
    encodes_to(t, "e \tx", "424");
    assert_int_equal(t->kind->cut(t, "a the end", 9, 1), 9);
    lki_tokens tokens;
    char text[401] = "";
    for (int i = 0; i < 100; i++) strcat(text, "e \tx");
    const char *path = write_text("ends", text, 400);
    LKT_OK(lki_tokens_open(&tokens, t, path, &(lki_tokens_opts){.threads = 3, .chunk_bytes = 5}));
    assert_int_equal(tokens.count, 100);
    lki_tokens_close(&tokens);
    lks_tokenizer_destroy(t);
    changed = lkt_json_load("tests/text/golden/tokenizer.json");
    json_array_append_new(json_object_get(changed, "added_tokens"),
                          json_pack("{s:i, s:s}", "id", 424, "content", "e x"));
    t = open_changed(changed);
    assert_int_equal(t->kind->cut(t, "a the end", 9, 1), 9);
    lks_tokenizer_destroy(t);
}

static void classes_are_those_of_unicode(void **state)
{
    (void)state;
    int64_t count[4] = {0};
    for (uint32_t code = 0; code < 0x110000; code++) count[lki_class_of_code(code)]++;
    /* As unicodedata2 16.0.0 counts them; surrogates are others. */
    assert_int_equal(count[LKI_LETTER], 141028);
    assert_int_equal(count[LKI_NUMBER], 1911);
    assert_int_equal(count[LKI_SPACE], 25);
    assert_int_equal(lki_class_of_code('a'), LKI_LETTER);
    assert_int_equal(lki_class_of_code('_'), LKI_OTHER);
    assert_int_equal(lki_class_of_code(0x323AF), LKI_LETTER);
    assert_int_equal(lki_class_of_code(0x323B0), LKI_OTHER);
    assert_int_equal(lki_class_of_code(0x3000), LKI_SPACE);
    assert_int_equal(lki_class_of_code(0x2167), LKI_NUMBER);
}

static void letters_stand_for_bytes(void **state)
{
    (void)state;
    int found = 0;
    for (uint32_t letter = 0; letter < 0x300; letter++) {
        const int byte = lki_bpe_byte_of(letter);
        if (byte < 0) continue;
        found++;
        assert_int_equal(lki_bpe_letter((uint8_t)byte), letter);
    }
    assert_int_equal(found, 256);
    assert_int_equal(lki_bpe_letter(' '), 0x120);
    assert_int_equal(lki_bpe_letter('\n'), 0x10A);
    assert_int_equal(lki_bpe_letter(0x7F), 0x121);
    assert_int_equal(lki_bpe_letter(0xA0), 0x142);
    assert_int_equal(lki_bpe_letter(0xAD), 0x143);
    assert_int_equal(lki_bpe_letter(0xFF), 0xFF);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tokens_are_those_of_tokenizers), TEST(a_space_may_stand_in_front),
        TEST(both_forms_of_merges_are_one),   TEST(pieces_of_any_length_are_joined_by_rank),
        TEST(a_long_run_is_one_piece),        TEST(cuts_change_no_token),
        TEST(cuts_are_borders_of_pieces),     TEST(kept_pieces_are_told_apart),
        TEST(tokens_with_spaces_are_not_cut), TEST(classes_are_those_of_unicode),
        TEST(letters_stand_for_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
