/* Windows over a text: which there are, their targets, parts, identity, and what is refused. */
#include "data/text/windows.h"
#include "data/dataset.h"
#include "numeric/random.h"
#include "text/texts.h"

static lks_tokenizer *digits; /* '0' to '9' are 0 to 9 */

static int set_up_digits(void **state)
{
    const int failed = set_up(state);
    if (failed == 0) digits = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "0123456789");
    return failed;
}

static int tear_down_digits(void **state)
{
    lks_tokenizer_destroy(digits);
    return tear_down(state);
}

static lks_dataset *open_columns(const char *text, int64_t positions, int64_t stride,
                                 int64_t columns)
{
    lks_dataset *data;
    LKT_OK(lks_dataset_open_text(
        &data, context, write_text("digits.txt", text, strlen(text)),
        &(lks_text_opts){
            .tokenizer = digits, .context = positions, .stride = stride, .columns = columns}));
    return data;
}

static lks_dataset *open_text(const char *text, int64_t positions, int64_t stride)
{
    return open_columns(text, positions, stride, 0);
}

/* Samples as "0123>1234 3456>4567 ...", '-' where nothing is wanted. */
static void has(lks_dataset *data, const char *expected)
{
    char found[400] = "";
    const lks_dataset_info info = lks_dataset_get_info(data);
    for (int64_t i = 0; i < info.samples; i++) {
        int32_t x[16], y[16];
        int64_t there = 0;
        LKT_OK(lks_dataset_read(data, i, x, y));
        sprintf(found + strlen(found), "%s", i > 0 ? " " : "");
        for (int64_t k = 0; k < info.shape.dim[0]; k++) sprintf(found + strlen(found), "%d", x[k]);
        sprintf(found + strlen(found), ">");
        for (int64_t k = 0; k < info.shape.dim[0]; k++) {
            there += y[k] != LKS_NO_CLASS;
            sprintf(found + strlen(found), "%c", y[k] == LKS_NO_CLASS ? '-' : '0' + y[k]);
        }
        assert_true(there > 0);
    }
    assert_string_equal(found, expected);
}

static void windows_end_with_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t positions, stride;
        const char *expected;
    } cases[] = {
        {"0123456789", 4, 3, "0123>1234 3456>4567 6780>789-"},
        {"0123456789", 3, 3, "012>123 345>456 678>789"},
        {"0123456789", 4, 0, "0123>1234 4567>5678 8000>9---"},
        {"012345678", 4, 4, "0123>1234 4567>5678"},
        {"0123456789", 9, 1, "012345678>123456789"},
        {"01234", 3, 1, "012>123 123>234"},
        {"01234", 1, 1, "0>1 1>2 2>3 3>4"},
        {"0123456789", 2, 5, "01>12 56>67"},
        {"01234567", 2, 5, "01>12 56>67"},
        {"0123456", 2, 5, "01>12 50>6-"},
        {"012345", 2, 5, "01>12"},
        {"01", 1, 0, "0>1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_dataset *data = open_text(cases[i].text, cases[i].positions, cases[i].stride);
        has(data, cases[i].expected);
        const lks_dataset_info info = lks_dataset_get_info(data);
        assert_int_equal(info.vocabulary, 10);
        assert_int_equal(info.classes, 10);
        assert_int_equal(info.dtype, LKS_I32);
        assert_ptr_equal(lks_dataset_tokenizer(data), digits);
        lks_dataset_destroy(data);
    }
}

/* Every token but the first is a target once, whatever the length. */
/* Sample t * columns + c is window t of column c; parts have columns of their own. */
static void columns_stand_beside_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t positions, columns;
        const char *expected;
    } cases[] = {
        {"0123456789", 2, 3, "01>12 34>45 67>78"},
        {"0123456789", 2, 2, "01>12 56>67 23>34 78>89"},
        {"0123456789", 3, 2, "012>123 567>678 300>4-- 800>9--"},
        {"0123456", 2, 2, "01>12 34>45"},
        {"0123456", 3, 1, "012>123 345>456"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_dataset *data = open_columns(cases[i].text, cases[i].positions, 0, cases[i].columns);
        has(data, cases[i].expected);
        lks_dataset_destroy(data);
    }
    lks_dataset *whole = open_columns("0123456789", 2, 0, 2), *part, *plain;
    LKT_OK(lki_text_part(&part, whole, 4, 6, false));
    has(part, "45>56 78>89");
    lks_dataset_destroy(part);
    LKT_FAILS(LKS_E_INVALID, "has 5 tokens, which are 2 for each of 2 columns, but a window",
              lki_text_part(&part, whole, 5, 5, false));
    uint64_t hash[2];
    lks_dataset_destroy(whole);
    whole = open_columns("012345678", 3, 4, 2); /* as many samples as without columns */
    plain = open_text("012345678", 3, 4);
    LKT_OK(lks_dataset_hash(plain, &hash[0]));
    LKT_OK(lks_dataset_hash(whole, &hash[1]));
    assert_true(hash[0] != hash[1]);
    assert_int_equal(lks_dataset_get_info(plain).samples, lks_dataset_get_info(whole).samples);
    lks_dataset_destroy(plain);
    lks_dataset_destroy(whole);
    LKT_FAILS(LKS_E_INVALID, "opts.columns is -1, expected 1 to 2147483647",
              lks_dataset_open_text(&whole, context, "x",
                                    &(lks_text_opts){.tokenizer = digits, .columns = -1}));
}

static void every_token_is_wanted_once(void **state)
{
    (void)state;
    char text[60];
    for (int bytes = 2; bytes < 60; bytes++) {
        for (int i = 0; i < bytes; i++) text[i] = (char)('0' + i % 10);
        text[bytes] = '\0';
        for (int64_t positions = 1; positions < bytes && positions <= 16; positions++) {
            lks_dataset *data = open_text(text, positions, 0);
            int wanted = 1;
            for (int64_t i = 0; i < lks_dataset_get_info(data).samples; i++) {
                int32_t x[16], y[16];
                LKT_OK(lks_dataset_read(data, i, x, y));
                for (int64_t k = 0; k < positions; k++) {
                    if (y[k] == LKS_NO_CLASS) continue;
                    assert_int_equal(x[k], (wanted - 1) % 10);
                    assert_int_equal(y[k], wanted++ % 10);
                }
            }
            assert_int_equal(wanted, bytes);
            lks_dataset_destroy(data);
        }
    }
}

static void parts_have_their_own_windows(void **state)
{
    (void)state;
    lks_dataset *whole = open_text("0123456789", 3, 2), *part, *part_of_part;
    assert_int_equal(lks_dataset_tokens(whole, 0, 0, NULL), 10);
    LKT_OK(lki_text_part(&part, whole, 5, 5, false));
    has(part, "567>678 780>89-");
    assert_int_equal(lks_dataset_tokens(part, 0, 0, NULL), 5);
    LKT_OK(lki_text_part(&part_of_part, part, 1, 4, false));
    has(part_of_part, "678>789");
    int32_t ids[2];
    ids[1] = -7;
    assert_int_equal(lks_dataset_tokens(part_of_part, 1, 2, ids), 4);
    assert_int_equal(ids[0], 7);
    assert_int_equal(ids[1], 8);
    ids[1] = -7;
    assert_int_equal(lks_dataset_tokens(part_of_part, 3, 2, ids), 4); /* the last one */
    assert_int_equal(ids[0], 9);
    assert_int_equal(ids[1], -7);
    assert_int_equal(lks_dataset_tokens(part_of_part, 4, 2, ids), 4);
    assert_int_equal(lks_dataset_tokens(part_of_part, -1, 2, ids), 4);
    assert_int_equal(ids[0], 9);
    lks_dataset_destroy(part_of_part);
    lks_dataset_destroy(part);
    LKT_FAILS(LKS_E_INVALID, "[tokens 7:10]' has 3 tokens, but a window of context 3 and its last",
              lki_text_part(&part, whole, 7, 3, false));
    lks_dataset_destroy(whole);
}

/* Windows of an epoch begin where the words of its Philox counters say, at all places and no others. */
static void windows_begin_anywhere(void **state)
{
    (void)state;
    static const char text[] = "0123456789012345678901234567890123456789"; /* 40 */
    enum { FIRST = 2, COUNT = 30, CONTEXT = 7, SAMPLES = 5, PLACES = COUNT - CONTEXT, EPOCHS = 60 };
    lks_dataset *whole, *data, *behind;
    int seen[PLACES] = {0};
    LKT_OK(lks_dataset_open_text(
        &whole, context, write_text("digits.txt", text, strlen(text)),
        &(lks_text_opts){.tokenizer = digits, .context = CONTEXT, .anywhere = true}));
    LKT_OK(lki_text_part(&data, whole, FIRST, COUNT, true));
    /* As they are, windows stand one behind the other, and the last ends with the text. */
    has(data, "2345678>3456789 9012345>0123456 6789012>7890123 3456789>4567890 4567890>5678901");
    assert_int_equal(lks_dataset_get_info(data).columns, 0);
    const uint64_t key = lki_random_key(lks_context_seed(context), "windows", "");
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (int64_t i = 0; i < SAMPLES; i++) {
            int32_t x[CONTEXT], y[CONTEXT];
            uint32_t word[4];
            lki_philox(key, (const uint32_t[]){(uint32_t)epoch, (uint32_t)i, 0, 0}, word);
            const int64_t at = lki_random_below(word, PLACES);
            LKT_OK(lki_dataset_fetch(data, epoch, i, x, y));
            for (int64_t k = 0; k < CONTEXT; k++) {
                assert_int_equal(x[k], (FIRST + at + k) % 10);
                assert_int_equal(y[k], (FIRST + at + k + 1) % 10);
            }
            assert_int_equal(lki_dataset_counted(data, i), CONTEXT);
            seen[at]++;
        }
    }
    /* 300 draws of 23 places: each is seen 13 times in the mean; none by a chance of 4e-5. */
    for (int i = 0; i < PLACES; i++) assert_true(seen[i] > 0);
    LKT_OK(lki_text_part(&behind, whole, FIRST, COUNT, false));
    has(behind, "2345678>3456789 9012345>0123456 6789012>7890123 3456789>4567890 0000000>1------");
    uint64_t hash[2];
    LKT_OK(lks_dataset_hash(data, &hash[0]));
    LKT_OK(lks_dataset_hash(behind, &hash[1]));
    assert_true(hash[0] != hash[1]);
    lks_dataset_destroy(behind);
    lks_dataset_destroy(data);
    lks_dataset_destroy(whole);
    LKT_FAILS(LKS_E_INVALID, "opts.anywhere is set, but windows of opts.columns",
              lks_dataset_open_text(
                  &whole, context, "x",
                  &(lks_text_opts){.tokenizer = digits, .columns = 2, .anywhere = true}));
}

static uint64_t hash_of(lks_dataset *data)
{
    uint64_t hash;
    LKT_OK(lks_dataset_hash(data, &hash));
    assert_true(hash != 0);
    return hash;
}

static void what_is_another_data_set_has_another_hash(void **state)
{
    (void)state;
    uint64_t hash[10];
    lks_dataset *data = open_text("0123456789", 3, 2), *part, *same;
    hash[0] = hash_of(data);
    LKT_OK(lki_text_part(&same, data, 0, 10, false));
    assert_true(hash_of(same) == hash[0]);
    lks_dataset_destroy(same);
    LKT_OK(lki_text_part(&part, data, 0, 9, false));
    hash[1] = hash_of(part);
    lks_dataset_destroy(part);
    LKT_OK(lki_text_part(&part, data, 1, 9, false));
    hash[2] = hash_of(part);
    lks_dataset_destroy(part);
    LKT_OK(lks_dataset_slice(&part, data, 0, 2));
    hash[3] = hash_of(part);
    lks_dataset_destroy(part);
    LKT_OK(lks_dataset_slice(&part, data, 1, 2));
    hash[4] = hash_of(part);
    lks_dataset_destroy(part);
    lks_dataset_destroy(data);
    static const struct {
        const char *text;
        int64_t positions, stride;
    } others[] = {{"0123456788", 3, 2},
                  {"0123456789", 3, 3},
                  {"0123456789", 4, 2},
                  {"0123456789", 3, 4}}; /* as many samples as with stride 3 */
    for (int i = 0; i < 4; i++) {
        data = open_text(others[i].text, others[i].positions, others[i].stride);
        hash[5 + i] = hash_of(data);
        lks_dataset_destroy(data);
    }
    lks_tokenizer *kept = digits; /* as many tokens, with other meanings */
    digits = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "012345678a");
    data = open_text("012345678a", 3, 2);
    hash[9] = hash_of(data);
    lks_dataset_destroy(data);
    lks_tokenizer_destroy(digits);
    digits = kept;
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < i; k++) assert_true(hash[i] != hash[k]);
}

static void texts_that_are_too_short_are_refused(void **state)
{
    (void)state;
    lks_dataset *data;
    static const struct {
        const char *text;
        int64_t positions;
        const char *expected;
    } cases[] = {
        {"", 1,
         "has 0 tokens, but a window of context 1 and its last target take 2; give a longer"},
        {"", 0, "has 0 tokens, but a window of context 128"},
        {"0", 1,
         "has 1 token, but a window of context 1 and its last target take 2; give a longer"},
        {"0123", 4,
         "has 4 tokens, but a window of context 4 and its last target take 5; choose a "
         "context of at most 3"},
        {"01", INT32_MAX, "choose a context of at most 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_text("short.txt", cases[i].text, strlen(cases[i].text));
        LKT_FAILS(LKS_E_INVALID, cases[i].expected,
                  lks_dataset_open_text(
                      &data, context, path,
                      &(lks_text_opts){.tokenizer = digits, .context = cases[i].positions}));
        assert_null(data);
    }
    const char *path = write_text("short.txt", "0123", 4);
    LKT_FAILS(LKS_E_INVALID, "opts.context is -1",
              lks_dataset_open_text(&data, context, path,
                                    &(lks_text_opts){.tokenizer = digits, .context = -1}));
    LKT_FAILS(LKS_E_INVALID, "opts.stride is -1",
              lks_dataset_open_text(&data, context, path,
                                    &(lks_text_opts){.tokenizer = digits, .stride = -1}));
    LKT_FAILS(LKS_E_INVALID, "opts.tokenizer is NULL",
              lks_dataset_open_text(&data, context, path, &(lks_text_opts){.context = 1}));
    LKT_FAILS(LKS_E_IO, "nowhere",
              lks_dataset_open_text(&data, context, in("nowhere"),
                                    &(lks_text_opts){.tokenizer = digits, .context = 1}));
    path = write_text("short.txt", "01x3", 4);
    LKT_FAILS(LKS_E_FORMAT, "short.txt': the character U+0078 at byte 2 is not in the vocabulary",
              lks_dataset_open_text(&data, context, path,
                                    &(lks_text_opts){.tokenizer = digits, .context = 1}));
}

static void batches_count_what_is_wanted(void **state)
{
    (void)state;
    lks_dataset *data = open_text("0123456789", 4, 0);
    lks_loader *loader;
    lks_batch batch;
    LKT_OK(lks_loader_create(&loader, context, data,
                             &(lks_loader_opts){.global_batch = 2, .in_order = true}));
    LKT_OK(lks_loader_next(loader, &batch));
    assert_int_equal(batch.count, 2);
    LKT_OK(lks_loader_next(loader, &batch));
    assert_int_equal(batch.count, 1);
    assert_int_equal(((const int32_t *)batch.y)[0], 9);
    assert_int_equal(((const int32_t *)batch.y)[1], LKS_NO_CLASS);
    lks_loader_destroy(loader);
    lks_dataset_destroy(data);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_digits, tear_down_digits)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(windows_end_with_the_text),
        TEST(columns_stand_beside_each_other),
        TEST(every_token_is_wanted_once),
        TEST(windows_begin_anywhere),
        TEST(parts_have_their_own_windows),
        TEST(what_is_another_data_set_has_another_hash),
        TEST(texts_that_are_too_short_are_refused),
        TEST(batches_count_what_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
