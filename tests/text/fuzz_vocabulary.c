/*
 * Vocabularies and texts. Input: one byte of options, and a file that is read as a vocabulary, and as a text from which
 * one is made. What is read is written and read again; what is encoded is the same in pieces, and read again.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/text/tokens.h"
#include "fuzz/fuzz.h"

static void check_tokens(const lks_tokenizer *tokenizer)
{
    const int64_t size = lks_tokenizer_size(tokenizer);
    FUZZ_CHECK(size > 0);
    for (int64_t i = 0; i < size; i++) {
        size_t bytes;
        const char *token = lks_tokenizer_token(tokenizer, (int32_t)i, &bytes);
        FUZZ_CHECK(token != NULL && bytes > 0);
        int32_t id;
        int64_t count;
        if (strcmp(lks_tokenizer_level(tokenizer), "bpe") == 0)
            continue; /* it need not be a text's */
        FUZZ_CHECK(lks_tokenizer_encode(tokenizer, token, bytes, &id, 1, &count) == LKS_OK);
        FUZZ_CHECK(count == 1 && id == i);
    }
}

/* A text's tokens are its bytes. */
static void check_back(const lks_tokenizer *tokenizer, const char *text, size_t bytes)
{
    int32_t *ids = malloc((bytes + 1) * sizeof *ids);
    int64_t count;
    size_t used = 0, length;
    FUZZ_CHECK(ids != NULL);
    FUZZ_CHECK(lks_tokenizer_encode(tokenizer, text, bytes, ids, (int64_t)bytes, &count) == LKS_OK);
    FUZZ_CHECK(count <= (int64_t)bytes);
    for (int64_t i = 0; i < count; i++, used += length) {
        const char *token = lks_tokenizer_token(tokenizer, ids[i], &length);
        FUZZ_CHECK(token != NULL && length <= bytes - used);
        FUZZ_CHECK(memcmp(token, text + used, length) == 0);
    }
    FUZZ_CHECK(used == bytes);
    free(ids);
}

static char scratch_path[300];

static void remove_scratch(void)
{
    unlink(scratch_path);
}

/* A file that a writer can replace, unlike those in memory. */
static const char *scratch(void)
{
    const char *folder = getenv("TMPDIR");
    if (scratch_path[0] != '\0') return scratch_path;
    snprintf(scratch_path, sizeof scratch_path, "%.200s/lockstep-fuzz-%ld",
             folder != NULL ? folder : "/tmp", (long)getpid());
    atexit(remove_scratch);
    return scratch_path;
}

/* Written and read again it is the same. */
static void check_file(const lks_tokenizer *tokenizer)
{
    lks_tokenizer *again;
    const char *path = scratch();
    FUZZ_CHECK(lks_tokenizer_write(tokenizer, path) == LKS_OK);
    FUZZ_CHECK(lks_tokenizer_open(&again, NULL, path) == LKS_OK);
    FUZZ_CHECK(lks_tokenizer_hash(again) == lks_tokenizer_hash(tokenizer));
    FUZZ_CHECK(lks_tokenizer_size(again) == lks_tokenizer_size(tokenizer));
    lks_tokenizer_destroy(again);
}

static void check_text(const lks_tokenizer *tokenizer, const char *path, int options)
{
    lki_tokens whole, cut;
    lks_error error = {0};
    const lki_tokens_opts one = {.threads = 1},
                          two = {.threads = 2, .chunk_bytes = (size_t)(1 + options / 8)};
    const lks_status status = lki_tokens_open(&whole, tokenizer, path, &one);
    if (status != LKS_OK) {
        fuzz_check_failure(status);
        error = *lks_last_error();
    }
    FUZZ_CHECK(lki_tokens_open(&cut, tokenizer, path, &two) == status);
    if (status == LKS_OK) {
        FUZZ_CHECK(whole.count == cut.count && whole.hash == cut.hash);
        for (int64_t i = 0; i < whole.count; i++) {
            int32_t id, other;
            lki_tokens_read(&whole, i, 1, &id);
            lki_tokens_read(&cut, i, 1, &other);
            FUZZ_CHECK(id == other && id >= 0 && id < lks_tokenizer_size(tokenizer));
        }
    } else {
        FUZZ_CHECK(strcmp(error.message, lks_last_error()->message) == 0);
    }
    lki_tokens_close(&cut);
    lki_tokens_close(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lks_tokenizer *tokenizer;
    if (bytes == 0) return 0;
    const char *text = (const char *)data + 1;
    const size_t length = bytes - 1;
    char path[300];
    snprintf(path, sizeof path, "%s", fuzz_file(0, text, length));
    lks_status status = lks_tokenizer_open(&tokenizer, NULL, path);
    if (status == LKS_OK) {
        check_tokens(tokenizer);
        if (length % 4 == 0) check_file(tokenizer); /* which waits for the disk */
        check_text(tokenizer, path, data[0]);
    } else {
        fuzz_check_failure(status);
        FUZZ_CHECK(tokenizer == NULL);
    }
    lks_tokenizer_destroy(tokenizer);
    const lks_level level = (lks_level)(data[0] % 4);
    const int least = level == LKS_LEVEL_BPE ? 256 : 3;
    const lks_vocabulary_opts opts = {.level = level,
                                      .words = data[0] / 32 == 0 ? 0 : least + data[0] / 32,
                                      .by_appearance = data[0] / 4 % 2 == 1};
    status = lks_tokenizer_build(&tokenizer, NULL, &opts, &text, &length, 1);
    if (status == LKS_OK) {
        if (level == LKS_LEVEL_BPE) check_back(tokenizer, text, length);
        check_tokens(tokenizer);
        if (length % 4 == 0) check_file(tokenizer); /* which waits for the disk */
        check_text(tokenizer, path, data[0]);
    } else {
        fuzz_check_failure(status);
    }
    lks_tokenizer_destroy(tokenizer);
    return 0;
}
