/* Bytes as tokens: every file is a text. */
#include "base/check.h"
#include "data/text/vocabulary.h"

enum { BYTES = 256 };

static const lki_vocabulary vocabulary = {.level = "byte", .size = BYTES};

static bool byte_is(const uint8_t *data, size_t bytes)
{
    return lki_vocabulary_is(data, bytes, vocabulary.level);
}

static lks_status byte_make(lks_tokenizer *tokenizer)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&tokenizer->arena, &memory, BYTES, "a vocabulary"));
    char *text = tokenizer->own = memory;
    for (int i = 0; i < BYTES; i++) text[i] = (char)i;
    tokenizer->size = BYTES;
    return lki_vocabulary_hash(&tokenizer->hash, &vocabulary, tokenizer->context);
}

static lks_status byte_read(lks_tokenizer *tokenizer, const char *path, const uint8_t *data,
                            size_t bytes)
{
    int64_t size;
    size_t end;
    LKI_TRY(lki_vocabulary_head(&size, &end, path, data, bytes, vocabulary.level));
    if (size != BYTES || end != bytes)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': expected 256 tokens and no second line in a vocabulary of bytes",
                        path);
    return byte_make(tokenizer);
}

static lks_status byte_build(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                             const lki_passage *texts, int count)
{
    (void)opts, (void)texts, (void)count;
    return byte_make(tokenizer);
}

static lks_status byte_write(const lks_tokenizer *tokenizer, lki_writer *writer)
{
    (void)tokenizer;
    return lki_vocabulary_write(&vocabulary, writer);
}

static lks_status byte_encode(const lks_tokenizer *tokenizer, const lki_passage *passage,
                              int32_t *ids, int64_t room, int64_t *count)
{
    (void)tokenizer;
    *count = (int64_t)passage->bytes;
    for (int64_t i = 0; i < room && i < *count; i++) ids[i] = (uint8_t)passage->text[i];
    return LKS_OK;
}

static const char *byte_token(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    *bytes = 1;
    return (const char *)tokenizer->own + id;
}

static size_t byte_cut(const lks_tokenizer *tokenizer, const char *text, size_t bytes, size_t at)
{
    (void)tokenizer, (void)text, (void)bytes;
    return at;
}

const lki_tokenizer_kind lki_byte_tokenizer = {
    .name = "byte",
    .file = "vocabulary.txt",
    .is = byte_is,
    .read = byte_read,
    .build = byte_build,
    .write = byte_write,
    .encode = byte_encode,
    .token = byte_token,
    .cut = byte_cut,
};
