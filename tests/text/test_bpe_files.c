/* tokenizer.json that lies, or is of another kind; memory that is not there. */
#include <errno.h>
#include <stdlib.h>

#include <jansson.h>

#include "text/texts.h"

#define PRE   "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
#define MODEL "\"model\": {\"type\": \"BPE\", "
#define OF(vocabulary, merges)                                                                     \
    "{" PRE MODEL "\"vocab\": {" vocabulary "}, \"merges\": [" merges "]}}"
#define ADDED(tokens)                                                                              \
    "{" PRE "\"added_tokens\": [" tokens "], " MODEL                                               \
    "\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}"
#define WITH(more) "{" PRE MODEL more "\"vocab\": {\"a\": 0}, \"merges\": []}}"

#define TEMPLATE(single)                                                                           \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [" single "]}, "
#define WHOLE "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"

static const struct {
    const char *text, *expected;
} lies[] = {
    {"{", "line 1 is no JSON"},
    {" \n{\"a\": ]", "line 2 is no JSON"},
    {"{\"a\": 1, \"a\": 2}", "line 1 is no JSON (duplicate object key"},
    {"{\"a\": \"\xFF\"}", "line 1 is no JSON (unable to decode byte 0xff"},
    {"{\"a\": \"\\u0000\"}", "line 1 is no JSON"},
    {"{} {}", "is no JSON"},
    {"{}", "it has no model"},
    {"{\"model\": []}", "it has no model"},
    {"{\"model\": {\"type\": \"Unigram\"}}", "model.type is Unigram, expected BPE"},
    {"{\"model\": {\"type\": \"Word\\nPiece\"}}", "model.type is Word?Piece, expected BPE"},
    {"{\"model\": {\"type\": 7}}", "model.type is no text, expected BPE"},
    {"{\"model\": {\"type\": \"BPE\"}}", "pre_tokenizer is of no type, expected ByteLevel"},
    {"{\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"model\": {}}",
     "pre_tokenizer is Whitespace, expected ByteLevel as GPT-2 has it"},
    {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": false}, \"model\": {}}",
     "pre_tokenizer.use_regex is false"},
    {"{" PRE "\"model\": {}}", "it has no model.vocab"},
    {"{" PRE "\"model\": {\"vocab\": []}}", "it has no model.vocab"},
    {"{" PRE "\"model\": {\"vocab\": {}}}", "it has no model.merges"},
    {"{" PRE "\"model\": {\"vocab\": {}, \"merges\": {}}}", "it has no model.merges"},
    {"{" PRE "\"model\": {\"vocab\": {}, \"merges\": []}}", "it has no token"},
    {"{" PRE "\"normalizer\": {\"type\": \"NFC\"}, \"model\": {}}",
     "normalizer is set, which gives other tokens; expected null"},
    {"{" PRE "\"post_processor\": {\"type\": \"TemplateProcessing\"}, \"model\": {}}",
     "post_processor is TemplateProcessing"},
    {"{" PRE TEMPLATE("{\"SpecialToken\": {\"id\": \"a\"}}, " WHOLE) "\"model\": {}}",
     "post_processor is TemplateProcessing"},
    {"{" PRE TEMPLATE("{\"SpecialToken\": {\"id\": \"A\"}}") "\"model\": {}}",
     "post_processor is TemplateProcessing"},
    {"{" PRE "\"decoder\": {\"type\": \"WordPiece\"}, \"model\": {}}", "decoder is WordPiece"},
    {"{" PRE "\"added_tokens\": {}, \"model\": {\"vocab\": {}, \"merges\": []}}",
     "added_tokens is no list"},
    {WITH("\"dropout\": 0.1, "), "model.dropout is set"},
    {WITH("\"end_of_word_suffix\": \"</w>\", "), "model.end_of_word_suffix is set"},
    {WITH("\"continuing_subword_prefix\": \"##\", "), "model.continuing_subword_prefix is set"},
    {WITH("\"byte_fallback\": true, "), "model.byte_fallback is set"},
    {WITH("\"ignore_merges\": true, "), "model.ignore_merges is set"},
    {WITH("\"unk_token\": \"u\", "), "model.unk_token 'u' is not in the vocabulary"},
    {WITH("\"unk_token\": 5, "), "model.unk_token '' is not in the vocabulary"},
    {WITH("\"unk_token\": \"a\", \"fuse_unk\": true, "), "model.fuse_unk is set"},
    {OF("\"a\": 1", ""), "token 'a' has no number from 0 to 0, one for each token"},
    {OF("\"a\": -1", ""), "token 'a' has no number from 0 to 0"},
    {OF("\"a\": 0.0", ""), "token 'a' has no number from 0 to 0"},
    {OF("\"a\": \"0\"", ""), "token 'a' has no number from 0 to 0"},
    {OF("\"a\": 99999999999999999999", ""), "is no JSON (too big integer"},
    {OF("\"a\": 0, \"b\": 2147483648", ""), "token 'b' has no number from 0 to 1"},
    {OF("\"a\": 0, \"b\": 0", ""), "tokens 'a' and 'b' both have the number 0"},
    {OF("\"\": 0", ""), "a token without a character"},
    {OF("\"a b\": 0", ""), "token 'a b' has a character that stands for no byte"},
    {OF("\"\\u0144\": 0", ""), "has a character that stands for no byte"},
    {OF("\"\xE4\xB8\xAD\": 0", ""), "token '\xE4\xB8\xAD' has a character that stands"},
    {OF("\"a\": 0, \"b\": 1", "\"a b\""), "model.merges[0] makes 'ab', which is not"},
    {OF("\"a\": 0, \"ab\": 1", "\"a b\""), "model.merges[0] joins 'b', which is not"},
    {OF("\"a\": 0, \"ab\": 1", "\"c\u00e9 b\""), "model.merges[0] joins 'c\xC3\xA9', which is not"},
    {OF("\"b\": 0, \"ab\": 1", "[\"a\", \"b\"]"), "model.merges[0] joins 'a', which is not"},
    {OF("\"a\": 0, \"aa\": 1", "\"a a\", \"a\""), "model.merges[1] is neither \"a b\" nor"},
    {OF("\"a\": 0, \"aa\": 1", "\"a a\", \"a a\""), "model.merges[1] stands there twice"},
    {OF("\"a\": 0, \"b\": 1, \"aa\": 2, \"ab\": 3", "\"a a\", \"a b\", [\"a\", \"a\"]"),
     "model.merges[2] stands there twice"},
    {OF("\"a\": 0", "[\"a\"]"), "model.merges[0] is neither"},
    {OF("\"a\": 0", "[\"a\", \"a\", \"a\"]"), "model.merges[0] is neither"},
    {OF("\"a\": 0", "[\"a\", 1]"), "model.merges[0] is neither"},
    {OF("\"a\": 0", "7"), "model.merges[0] is neither"},
    {OF("\"a\": 0", "\" a\""), "model.merges[0] joins"},
    {OF("\"a\": 0", "\"a #\", \"#version\""), "model.merges[0] joins '#'"},
    {OF("\"a\": 0, \"aa\": 1", "\"a a\", \"#version b\""),
     "model.merges[1] joins '#version', which"},
    {ADDED("{}"), "added_tokens[0].content is missing or empty"},
    {ADDED("7"), "added_tokens[0].content is missing or empty"},
    {ADDED("{\"content\": \"\"}"), "added_tokens[0].content is missing or empty"},
    {ADDED("{\"content\": \"c\"}"), "token 'c' has no number from 0 to 2"},
    {ADDED("{\"content\": \"c\", \"id\": 1}"), "tokens 'b' and 'c' both have the number 1"},
    {ADDED("{\"content\": \"c\", \"id\": 3}"), "token 'c' has no number from 0 to 2"},
    {ADDED("{\"content\": \"b\", \"id\": 0}"), "added token 'b' has another number"},
    {ADDED("{\"content\": \"b\"}"), "added token 'b' has another number"},
    {ADDED("{\"content\": \"c\", \"id\": 2}, {\"content\": \"c\", \"id\": 3}"),
     "added token 'c' stands there twice"},
    {ADDED("{\"content\": \"b\", \"id\": 1}, {\"content\": \"b\", \"id\": 1}"),
     "added token 'b' stands there twice"},
    {ADDED("{\"content\": \"c\", \"id\": 2, \"lstrip\": true}"), "added_tokens[0].lstrip is set"},
    {ADDED("{\"content\": \"c\", \"id\": 2, \"rstrip\": true}"), "added_tokens[0].rstrip is set"},
    {ADDED("{\"content\": \"c\", \"id\": 2, \"single_word\": true}"),
     "added_tokens[0].single_word is set"},
};

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        lks_tokenizer *t = (lks_tokenizer *)&i;
        const char *path = write_text("lies", lies[i].text, strlen(lies[i].text));
        LKT_FAILS(LKS_E_FORMAT, lies[i].expected, lks_tokenizer_open(&t, context, path));
        assert_null(t);
        assert_non_null(strstr(lks_last_error()->message, "lies'"));
    }
}

static lks_tokenizer *open_text(const char *text)
{
    lks_tokenizer *t;
    const char *path = write_text("tokenizer.json", text, strlen(text));
    LKT_OK(lks_tokenizer_open(&t, context, path));
    return t;
}

static void a_byte_without_a_token_is_named(void **state)
{
    (void)state;
    lks_tokenizer *t = open_text(OF("\"b\": 0, \"a\": 2, \"ba\": 1", "\"b a\""));
    int64_t count;
    encodes_to(t, "baab", "1 2 0");
    LKT_FAILS(LKS_E_FORMAT,
              "the text: byte 3, which is 0x63, has no token in the vocabulary; make one that has "
              "all bytes",
              lks_tokenizer_encode(t, "aabcc", 5, NULL, 0, &count));
    lks_tokenizer_destroy(t);
    /* An unknown token takes its place, as often as there are such bytes. */
    t = open_text("{" PRE MODEL "\"unk_token\": \"<u>\", \"vocab\": {\"<u>\": 0, \"a\": 1}, "
                  "\"merges\": []}}");
    assert_int_equal(lks_tokenizer_unknown(t), 0);
    encodes_to(t, "axx a", "1 0 0 0 1");
    lks_tokenizer *again;
    LKT_OK(lks_tokenizer_write(t, in("again.json")));
    LKT_OK(lks_tokenizer_open(&again, context, in("again.json")));
    assert_true(lks_tokenizer_hash(again) == lks_tokenizer_hash(t));
    assert_int_equal(lks_tokenizer_unknown(again), 0);
    lks_tokenizer_destroy(again);
    lks_tokenizer_destroy(t);
}

static void a_template_that_adds_nothing_is_read(void **state)
{
    (void)state;
    lks_tokenizer *t = open_text("{" PRE TEMPLATE(WHOLE) MODEL
                                 "\"vocab\": {\"a\": 0, \"aa\": 1}, \"merges\": [\"a a\"]}}");
    encodes_to(t, "aaa", "1 0");
    lks_tokenizer_destroy(t);
}

/* What is special is found first, unless its file says otherwise; names are written as they are. */
static void added_tokens_are_found_in_two_turns(void **state)
{
    (void)state;
    lks_tokenizer *t = open_text(ADDED(
        "{\"content\": \"aba\", \"id\": 4}, {\"content\": \"ba\", \"id\": 2, \"special\": true}, "
        "{\"content\": \"\\\"\\\\\\n\xC3\xA9\", \"id\": 3, \"special\": true, \"normalized\": "
        "true}"));
    encodes_to(t, "aba", "0 2");
    encodes_to(t, "aab", "0 0 1");
    encodes_to(t,
               "a\"\\\n\xC3\xA9"
               "b",
               "0 3 1");
    lks_tokenizer *again;
    LKT_OK(lks_tokenizer_write(t, in("again.json")));
    LKT_OK(lks_tokenizer_open(&again, context, in("again.json")));
    assert_true(lks_tokenizer_hash(again) == lks_tokenizer_hash(t));
    encodes_to(again, "aba\"\\\n\xC3\xA9", "0 2 3");
    json_t *own = json_load_file(in("again.json"), 0, NULL);
    assert_int_equal(json_object_size(json_object_get(json_object_get(own, "model"), "vocab")), 2);
    json_decref(own);
    size_t bytes;
    assert_memory_equal(lks_tokenizer_token(again, 3, &bytes), "\"\\\n\xC3\xA9", 5);
    assert_int_equal(bytes, 5);
    lks_tokenizer_destroy(again);
    lks_tokenizer_destroy(t);
}

static void the_longest_added_token_is_taken(void **state)
{
    (void)state;
    lks_tokenizer *t = open_text(
        ADDED("{\"content\": \"ab\", \"id\": 2}, {\"content\": \"abb\", \"id\": 3}, "
              "{\"content\": \"abbb\", \"id\": 5}, {\"content\": \"bb\", \"id\": 4}"));
    encodes_to(t, "abb", "3");
    encodes_to(t, "ababbb", "2 5");
    encodes_to(t, "aabbb", "0 5");
    encodes_to(t, "babbbbab", "1 5 1 2");
    lks_tokenizer_destroy(t);
    /* One that the vocabulary has, too, need not be made of letters for bytes. */
    t = open_text("{" PRE "\"added_tokens\": [{\"content\": \"a \xE4\xB8\xAD\", \"id\": 1}], " MODEL
                  "\"vocab\": {\"a\": 0, \"a \xE4\xB8\xAD\": 1}, \"merges\": []}}");
    encodes_to(t, "aa \xE4\xB8\xAD", "0 1");
    lks_tokenizer_destroy(t);
}

static void a_hash_is_of_all_that_gives_tokens(void **state)
{
    (void)state;
    static const char *const texts[] = {
        OF("\"a\": 0, \"b\": 1", ""),
        OF("\"b\": 0, \"a\": 1", ""),
        OF("\"a\": 0, \"b\": 1, \"ab\": 2", ""),
        OF("\"a\": 0, \"b\": 1, \"ab\": 2", "\"a b\""),
        ADDED("{\"content\": \"a\", \"id\": 0}"),
        ADDED("{\"content\": \"a\", \"id\": 0, \"special\": true}"),
        ADDED("{\"content\": \"ab\", \"id\": 2}"),
        "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}, " MODEL
        "\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}",
        "{" PRE MODEL "\"unk_token\": \"b\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}",
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    uint64_t hash[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        lks_tokenizer *t = open_text(texts[i]);
        hash[i] = lks_tokenizer_hash(t);
        for (int k = 0; k < i; k++) assert_true(hash[i] != hash[k]);
        lks_tokenizer_destroy(t);
    }
}

/* Opens the golden tokenizer and encodes with it. */
static lks_status open_and_encode(lks_context *small)
{
    char path[4300];
    lks_tokenizer *t;
    int32_t ids[64];
    int64_t count;
    const char *source = getenv("LKT_SOURCE");
    snprintf(path, sizeof path, "%s/tests/text/golden/tokenizer.json",
             source != NULL ? source : ".");
    lks_status status = lks_tokenizer_open(&t, small, path);
    if (status == LKS_OK) {
        status = lks_tokenizer_encode(t, "the others", 10, ids, 64, &count);
        if (status == LKS_OK) assert_in_range(count, 2, 10);
    } else {
        assert_null(t);
    }
    lks_tokenizer_destroy(t);
    return status;
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    int64_t failures = 0;
    for (lkt_heap heap = {.fail_at = 1};; heap = (lkt_heap){.fail_at = heap.fail_at + 1}) {
        lks_context *small;
        const int64_t at = heap.fail_at;
        heap.fail_at = 0;
        LKT_OK(lks_context_create(&small,
                                  &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}));
        heap.fail_at = heap.allocations + at;
        const lks_status status = open_and_encode(small);
        if (status != LKS_OK) assert_int_equal(status, LKS_E_NOMEM);
        failures += status != LKS_OK;
        lks_context_destroy(small);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
        heap.fail_at = at;
        if (status == LKS_OK) break;
    }
    assert_true(failures >= 8);
}

static int64_t json_allocations, json_fails_at;

static void *json_malloc(size_t bytes)
{
    if (++json_allocations != json_fails_at) return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

/* Of the JSON reader, which may lose letters of a token then. */
static void no_memory_for_json_is_reported(void **state)
{
    (void)state;
    json_malloc_t allocate;
    json_free_t release;
    lks_status status = LKS_E_NOMEM;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(json_malloc, free);
    for (int64_t n = 1; status == LKS_E_NOMEM; n++) {
        json_allocations = 0;
        json_fails_at = n;
        status = open_and_encode(context);
    }
    json_set_alloc_funcs(allocate, release);
    assert_int_equal(status, LKS_OK);
    assert_int_equal(json_allocations, json_fails_at - 1); /* none failed */
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_that_lie_are_refused),
        TEST(a_byte_without_a_token_is_named),
        TEST(a_template_that_adds_nothing_is_read),
        TEST(added_tokens_are_found_in_two_turns),
        TEST(the_longest_added_token_is_taken),
        TEST(a_hash_is_of_all_that_gives_tokens),
        TEST(no_memory_is_reported),
        TEST(no_memory_for_json_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
