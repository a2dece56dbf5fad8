/* Tokens of a text: the same for any number of threads, kept in a file, which is made anew where it lies. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/text/tokens.h"
#include "text/texts.h"

enum { BYTES = 5000 };
static const char alphabet[] = "ab c\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";

/* Words, lines and characters of one to four bytes, without a line feed at its end. */
static size_t make_text(char *out, uint64_t seed)
{
    static const struct {
        int at, bytes;
    } piece[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 2}, {7, 3}, {10, 4}};
    lkt_random random = lkt_random_make("tokens", seed);
    size_t bytes = 0;
    while (bytes < BYTES) {
        const int64_t k = lkt_random_below(&random, 8);
        memcpy(out + bytes, alphabet + piece[k].at, (size_t)piece[k].bytes);
        bytes += (size_t)piece[k].bytes;
    }
    out[bytes++] = 'a';
    return bytes;
}

static int32_t *read_all(const lki_tokens *tokens)
{
    int32_t *ids = malloc((size_t)tokens->count * sizeof *ids);
    assert_non_null(ids);
    lki_tokens_read(tokens, 0, tokens->count, ids);
    return ids;
}

static void threads_and_pieces_change_nothing(void **state)
{
    (void)state;
    char text[BYTES + 8];
    const size_t bytes = make_text(text, 1);
    const char *path = write_text("text", text, bytes), *texts = text;
    for (int level = LKS_LEVEL_WORD; level <= LKS_LEVEL_BPE; level++) {
        lks_tokenizer *t;
        int32_t expected[BYTES + 8];
        int64_t count;
        LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = (lks_level)level},
                                   &texts, &bytes, 1));
        LKT_OK(lks_tokenizer_encode(t, text, bytes, expected, BYTES + 8, &count));
        if (level == LKS_LEVEL_WORD) /* the last line ends with the text */
            LKT_OK(lks_tokenizer_encode(t, "\n", 1, expected + count++, 1, &(int64_t){0}));
        for (int threads = 1; threads <= 5; threads++) {
            for (size_t chunk = 0; chunk <= 1000; chunk = chunk * 3 + 1) {
                lki_tokens tokens;
                const lki_tokens_opts opts = {.threads = threads, .chunk_bytes = chunk};
                LKT_OK(lki_tokens_open(&tokens, t, path, &opts));
                assert_int_equal(tokens.count, count);
                assert_int_equal(tokens.width, 1 + (tokens.width > 1));
                int32_t *ids = read_all(&tokens);
                assert_memory_equal(ids, expected, (size_t)count * sizeof *ids);
                free(ids);
                lki_tokens_close(&tokens);
            }
        }
        lks_tokenizer_destroy(t);
    }
}

static void the_first_wrong_byte_is_named_for_any_threads(void **state)
{
    (void)state;
    char text[BYTES + 8];
    const size_t bytes = make_text(text, 2);
    const char *texts = text;
    lks_tokenizer *t;
    LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, &texts,
                               &bytes, 1));
    for (size_t i = 3500; i < bytes; i += 300) text[i] = '\xFF';
    const char *path = write_text("text", text, bytes);
    for (int threads = 1; threads <= 4; threads++) {
        for (size_t chunk = 1; chunk <= 4096; chunk *= 4) {
            lki_tokens tokens;
            const lki_tokens_opts opts = {.threads = threads, .chunk_bytes = chunk};
            const lks_status status = lki_tokens_open(&tokens, t, path, &opts);
            LKT_FAILS(LKS_E_FORMAT, "text': byte 3", status);
            assert_non_null(strstr(lks_last_error()->message, "is no part of a character"));
            static char first[600];
            if (threads == 1 && chunk == 1)
                snprintf(first, sizeof first, "%s", lks_last_error()->message);
            assert_string_equal(lks_last_error()->message, first);
            lki_tokens_close(&tokens);
        }
    }
    lks_tokenizer_destroy(t);
}

/* The name of the only file in a folder; "": there is none. */
static const char *only_file(const char *path)
{
    static char name[300];
    int files = 0;
    name[0] = '\0';
    DIR *open = opendir(path);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s", entry->d_name);
        files++;
    }
    closedir(open);
    assert_true(files <= 1);
    return name;
}

static lks_context *listening;
static int warnings;

static void hear(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (level == LKS_LOG_WARN && strstr(line, "made") != NULL) warnings++;
}

/* Opens, and has the tokens that they are to be; whether they are mapped. */
static bool opens(const lks_tokenizer *t, const char *path, const char *cache, const char *expected)
{
    lki_tokens tokens;
    int64_t count;
    int32_t ids[64];
    LKT_OK(lki_tokens_open(&tokens, t, path, &(lki_tokens_opts){.folder = cache, .threads = 1}));
    LKT_OK(lks_tokenizer_encode(t, expected, strlen(expected), ids, 64, &count));
    assert_int_equal(tokens.count, count);
    int32_t *found = read_all(&tokens);
    assert_memory_equal(found, ids, (size_t)count * sizeof *ids);
    free(found);
    const bool mapped = tokens.file.mapped;
    lki_tokens_close(&tokens);
    return mapped;
}

static void a_file_is_kept_and_made_anew_where_it_lies(void **state)
{
    (void)state;
    char cache[4300], file[4700], whole[300], damaged[300];
    const char *text = "a text of some words\n";
    LKT_OK(lks_context_create(&listening, &(lks_context_opts){.log = hear}));
    snprintf(cache, sizeof cache, "%s/cache", folder);
    const char *path = write_text("text", text, strlen(text));
    const size_t size = strlen(text);
    lks_tokenizer *t;
    LKT_OK(lks_tokenizer_build(&t, listening, &(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR},
                               &text, &size, 1));
    warnings = 0;
    assert_true(opens(t, path, cache, text));
    snprintf(file, sizeof file, "%s/%s", cache, only_file(cache));
    assert_non_null(strstr(file, ".tokens"));
    FILE *open = fopen(file, "rb");
    const size_t bytes = fread(whole, 1, sizeof whole, open);
    fclose(open);
    assert_int_equal(bytes, 16 + strlen(text) + 56);
    struct stat before, after;
    assert_int_equal(stat(file, &before), 0);
    assert_true(opens(t, path, cache, text));
    assert_int_equal(stat(file, &after), 0);
    assert_true(before.st_ino == after.st_ino); /* it is not written again */
    assert_int_equal(warnings, 0);
    for (size_t i = 0; i < bytes; i++) { /* any byte, and any length */
        memcpy(damaged, whole, bytes);
        damaged[i] ^= 1;
        LKT_OK(lks_file_write(file, damaged, bytes));
        assert_true(opens(t, path, cache, text));
        LKT_OK(lks_file_write(file, whole, i));
        assert_true(opens(t, path, cache, text));
    }
    assert_true(warnings >= (int)bytes);
    lks_tokenizer_destroy(t);
    lks_context_destroy(listening);
}

static void another_text_or_vocabulary_has_another_file(void **state)
{
    (void)state;
    char cache[4300], first[4700];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "abc");
    lks_tokenizer *other = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "abcd");
    assert_true(opens(t, write_text("text", "abcab", 5), cache, "abcab"));
    snprintf(first, sizeof first, "%s/%s", cache, only_file(cache));
    assert_int_equal(unlink(first), 0);
    assert_true(opens(t, write_text("text", "abcac", 5), cache, "abcac"));
    assert_null(strstr(first, only_file(cache)));
    char second[4700];
    snprintf(second, sizeof second, "%s/%s", cache, only_file(cache));
    assert_int_equal(unlink(second), 0);
    assert_true(opens(other, write_text("text", "abcab", 5), cache, "abcab"));
    assert_null(strstr(first, only_file(cache)));
    lks_tokenizer_destroy(t);
    lks_tokenizer_destroy(other);
}

static void remove_files(const char *path)
{
    char file[4700];
    DIR *open = opendir(path);
    if (open == NULL) return;
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.') assert_int_equal(unlink(file), 0);
    }
    closedir(open);
}

/* A file under another one's name is of another text or vocabulary. */
static void a_name_alone_is_not_believed(void **state)
{
    (void)state;
    char cache[2][4300], name[300], file[4700], bytes[300];
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "abc");
    lks_tokenizer *other = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, "abd");
    for (int i = 0; i < 2; i++) snprintf(cache[i], sizeof cache[i], "%s/cache%d", folder, i);
    for (int of_text = 0; of_text < 2; of_text++) {
        const char *path = write_text("text", "abab", 4);
        remove_files(cache[0]);
        remove_files(cache[1]);
        assert_true(opens(t, path, cache[0], "abab"));
        snprintf(name, sizeof name, "%s", only_file(cache[0]));
        const char *second = of_text ? "baba" : "abab";
        path = write_text("other", second, 4);
        assert_true(opens(of_text ? t : other, path, cache[1], second));
        snprintf(file, sizeof file, "%s/%s", cache[1], only_file(cache[1]));
        FILE *open = fopen(file, "rb");
        const size_t size = fread(bytes, 1, sizeof bytes, open);
        fclose(open);
        snprintf(file, sizeof file, "%s/%s", cache[0], name);
        LKT_OK(lks_file_write(file, bytes, size));
        assert_true(opens(t, write_text("text", "abab", 4), cache[0], "abab"));
        open = fopen(file, "rb");
        char again[300];
        assert_int_equal(fread(again, 1, sizeof again, open), size);
        fclose(open);
        assert_true(memcmp(again, bytes, size) != 0); /* it was made anew */
    }
    lks_tokenizer_destroy(t);
    lks_tokenizer_destroy(other);
}

static void without_a_folder_tokens_are_in_memory(void **state)
{
    (void)state;
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BYTE}, "");
    const char *path = write_text("text", "abcab", 5);
    char file[4300];
    assert_false(opens(t, path, NULL, "abcab"));
    snprintf(file, sizeof file, "%s/below", path); /* a file is no folder */
    assert_false(opens(t, path, file, "abcab"));
    lks_tokenizer_destroy(t);
}

static void tokens_are_as_wide_as_the_vocabulary(void **state)
{
    (void)state;
    static const struct {
        int words, width;
    } cases[] = {{254, 1}, {255, 2}, {65534, 2}, {65535, 4}, {66000, 4}};
    char *text = malloc(66000 * 8), cache[4300];
    assert_non_null(text);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t bytes = 0;
        for (int i = 0; i < cases[c].words; i++)
            bytes += (size_t)sprintf(text + bytes, "w%d ", cases[c].words - i);
        lks_tokenizer *t = build(&(lks_vocabulary_opts){.by_appearance = true}, text);
        const char *path = write_text("words", text, bytes);
        assert_int_equal(lks_tokenizer_size(t), cases[c].words + 2);
        for (int kept = 0; kept < 2; kept++) {
            lki_tokens tokens;
            LKT_OK(lki_tokens_open(&tokens, t, path,
                                   &(lki_tokens_opts){.folder = kept ? cache : NULL}));
            assert_int_equal(tokens.width, cases[c].width);
            assert_int_equal(tokens.count, cases[c].words + 1);
            int32_t *ids = read_all(&tokens);
            for (int i = 0; i <= cases[c].words; i++) assert_int_equal(ids[i], i);
            free(ids);
            lki_tokens_close(&tokens);
        }
        lks_tokenizer_destroy(t);
    }
    free(text);
}

/* Cut anywhere; threads and pieces change neither tokens nor what is said of a wrong byte. */
static void files_of_a_folder_are_one_text(void **state)
{
    (void)state;
    char text[BYTES + 8], whole[4300];
    const size_t bytes = make_text(text, 6);
    snprintf(whole, sizeof whole, "%s", write_text("text", text, bytes));
    lkt_random random = lkt_random_make("files", 2);
    assert_int_equal(mkdir(in("many"), 0777), 0);
    size_t at = 0;
    for (int i = 0; i < 6; i++) {
        char name[20];
        const size_t some = i == 5   ? bytes - at
                            : i == 3 ? 0
                                     : (size_t)lkt_random_below(&random, BYTES / 5);
        snprintf(name, sizeof name, "many/%d.txt", i);
        write_text(name, text + at, some);
        at += some;
    }
    for (int level = LKS_LEVEL_WORD; level <= LKS_LEVEL_BYTE; level++) {
        lks_tokenizer *t;
        lki_tokens expected;
        const char *texts = text;
        LKT_OK(lks_tokenizer_build(&t, context, &(lks_vocabulary_opts){.level = (lks_level)level},
                                   &texts, &bytes, 1));
        LKT_OK(lki_tokens_open(&expected, t, whole, &(lki_tokens_opts){.threads = 1}));
        for (int threads = 1; threads <= 3; threads++) {
            lki_tokens tokens;
            const lki_tokens_opts opts = {.threads = threads, .chunk_bytes = 100};
            LKT_OK(lki_tokens_open(&tokens, t, in("many"), &opts));
            assert_int_equal(tokens.count, expected.count);
            assert_true(tokens.hash == expected.hash);
            lki_tokens_close(&tokens);
        }
        lki_tokens_close(&expected);
        lks_tokenizer_destroy(t);
    }
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_CHAR}, alphabet);
    char last[401];
    memset(last, 'a', sizeof last);
    last[300] = '\xFF';
    assert_int_equal(mkdir(in("wrong"), 0777), 0);
    write_text("wrong/1.txt", "ab\xC3", 3);
    write_text("wrong/2.txt", "\xA9 c", 3);
    write_text("wrong/3.txt", last, sizeof last);
    for (int threads = 1; threads <= 3; threads++) {
        lki_tokens tokens;
        const lki_tokens_opts opts = {.threads = threads, .chunk_bytes = 64};
        assert_int_equal(lki_tokens_open(&tokens, t, in("wrong"), &opts), LKS_E_FORMAT);
        assert_non_null(
            strstr(lks_last_error()->message, "/wrong/3.txt': byte 300, which is 0xff"));
        lki_tokens_close(&tokens);
    }
    lks_tokenizer_destroy(t);
}

static void a_folder_has_to_have_a_text(void **state)
{
    (void)state;
    lks_tokenizer *t = build(&(lks_vocabulary_opts){.level = LKS_LEVEL_BYTE}, "");
    lki_tokens tokens;
    assert_int_equal(mkdir(in("none"), 0777), 0);
    write_text("none/notes.md", "abc", 3);
    assert_int_equal(lki_tokens_open(&tokens, t, in("none"), &(lki_tokens_opts){0}), LKS_E_IO);
    assert_non_null(strstr(lks_last_error()->message,
                           "/none' is a folder without a text, expected files that end in .txt, "
                           ".txt.gz or .tokens"));
    lki_tokens_close(&tokens);
    lks_tokenizer_destroy(t);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_and_pieces_change_nothing),
        TEST(the_first_wrong_byte_is_named_for_any_threads),
        TEST(a_file_is_kept_and_made_anew_where_it_lies),
        TEST(another_text_or_vocabulary_has_another_file),
        TEST(a_name_alone_is_not_believed),
        TEST(without_a_folder_tokens_are_in_memory),
        TEST(tokens_are_as_wide_as_the_vocabulary),
        TEST(files_of_a_folder_are_one_text),
        TEST(a_folder_has_to_have_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
