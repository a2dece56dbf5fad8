/* Tokenizers of any kind: opened, made, asked, written. */
#include "data/text/tokenizer.h"

#include "base/check.h"

#define TOKENIZER_ENTRY(id) &lki_##id##_tokenizer,
static const lki_tokenizer_kind *const kinds[] = {LKI_TOKENIZER_LIST(TOKENIZER_ENTRY)};
enum { KINDS = sizeof kinds / sizeof *kinds };

#define LEVEL_ENTRY(KIND, name) [LKS_LEVEL_##KIND] = &lki_##name##_tokenizer,
static const lki_tokenizer_kind *const levels[] = {LKS_LEVELS(LEVEL_ENTRY)};
enum { LEVELS = sizeof levels / sizeof *levels };

static lks_status make(lks_tokenizer **out, lks_context *context, const lki_tokenizer_kind *kind)
{
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof **out, "a tokenizer"));
    *out = memory;
    **out = (lks_tokenizer){.kind = kind,
                            .context = context,
                            .arena.context = context,
                            .unknown = -1,
                            .each = 1,
                            .end = -1};
    return LKS_OK;
}

/* Passes a failure on, and leaves no tokenizer behind. */
static lks_status finish(lks_tokenizer **out, lks_status status)
{
    if (status != LKS_OK) {
        lks_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}

lks_status lks_tokenizer_open(lks_tokenizer **out, lks_context *context, const char *path)
{
    lki_file file;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (path == NULL) return LKI_FAIL_NULL(path);
    LKI_TRY(lki_file_open(&file, context, path));
    int k = 0;
    while (k < KINDS && !kinds[k]->is(file.data, file.bytes)) k++;
    lks_status status;
    if (k == KINDS)
        status = LKI_FAIL(LKS_E_FORMAT,
                          "'%s' is no vocabulary: expected a file that begins with \"lockstep "
                          "vocabulary\", as a training on text writes it, or a "
                          "tokenizer.json",
                          path);
    else
        status = make(out, context, kinds[k]);
    if (status == LKS_OK) status = finish(out, kinds[k]->read(*out, path, file.data, file.bytes));
    lki_file_close(&file);
    return status;
}

lks_status lki_tokenizer_build(lks_tokenizer **out, lks_context *context,
                               const lks_vocabulary_opts *opts, const lki_passage *texts, int count)
{
    *out = NULL;
    if ((int)opts->level < 0 || (int)opts->level >= LEVELS)
        return LKI_FAIL(LKS_E_INVALID,
                        "a vocabulary: level is %d, expected LKS_LEVEL_WORD, LKS_LEVEL_CHAR, "
                        "LKS_LEVEL_BYTE or LKS_LEVEL_BPE",
                        (int)opts->level);
    LKI_TRY(make(out, context, levels[opts->level]));
    return finish(out, levels[opts->level]->build(*out, opts, texts, count));
}

lks_status lks_tokenizer_build(lks_tokenizer **out, lks_context *context,
                               const lks_vocabulary_opts *opts, const char *const *texts,
                               const size_t *bytes, int count)
{
    static const lks_vocabulary_opts usual;
    void *memory;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (count < 0) return LKI_FAIL(LKS_E_INVALID, "a vocabulary: %d texts", count);
    if (count > 0 && texts == NULL) return LKI_FAIL_NULL(texts);
    if (count > 0 && bytes == NULL) return LKI_FAIL_NULL(bytes);
    const size_t size = (size_t)count * sizeof(lki_passage);
    LKI_TRY(lki_alloc(context, &memory, size, "a list of texts"));
    lki_passage *passage = memory;
    lks_status status = LKS_OK;
    for (int i = 0; i < count && status == LKS_OK; i++) {
        passage[i] = (lki_passage){.text = texts[i], .bytes = bytes[i]};
        if (texts[i] == NULL) status = LKI_FAIL(LKS_E_INVALID, "a vocabulary: text %d is NULL", i);
    }
    if (status == LKS_OK)
        status = lki_tokenizer_build(out, context, opts != NULL ? opts : &usual, passage, count);
    lki_free(context, memory, size);
    return status;
}

void lks_tokenizer_destroy(lks_tokenizer *tokenizer)
{
    if (tokenizer == NULL) return;
    if (tokenizer->kind->close != NULL) tokenizer->kind->close(tokenizer);
    lki_arena_release(&tokenizer->arena);
    lki_free(tokenizer->context, tokenizer, sizeof *tokenizer);
}

int64_t lks_tokenizer_size(const lks_tokenizer *tokenizer)
{
    return tokenizer != NULL ? tokenizer->size : 0;
}

uint64_t lks_tokenizer_hash(const lks_tokenizer *tokenizer)
{
    return tokenizer != NULL ? tokenizer->hash : 0;
}

const char *lks_tokenizer_level(const lks_tokenizer *tokenizer)
{
    return tokenizer != NULL ? tokenizer->kind->name : "";
}

int32_t lks_tokenizer_unknown(const lks_tokenizer *tokenizer)
{
    return tokenizer != NULL ? tokenizer->unknown : -1;
}

lks_status lks_tokenizer_encode(const lks_tokenizer *tokenizer, const char *text, size_t bytes,
                                int32_t *ids, int64_t room, int64_t *count)
{
    if (count == NULL) return LKI_FAIL_NULL(count);
    *count = 0;
    if (tokenizer == NULL) return LKI_FAIL_NULL(tokenizer);
    if (text == NULL && bytes > 0) return LKI_FAIL_NULL(text);
    if (ids == NULL && room > 0) return LKI_FAIL_NULL(ids);
    const lki_passage passage = {.text = text, .bytes = bytes};
    return tokenizer->kind->encode(tokenizer, &passage, ids, room, count);
}

const char *lks_tokenizer_token(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    if (bytes != NULL) *bytes = 0;
    if (tokenizer == NULL || bytes == NULL || id < 0 || id >= tokenizer->size) return NULL;
    return tokenizer->kind->token(tokenizer, id, bytes);
}

lks_status lks_tokenizer_write(const lks_tokenizer *tokenizer, const char *path)
{
    lki_writer *writer;
    if (tokenizer == NULL) return LKI_FAIL_NULL(tokenizer);
    if (path == NULL) return LKI_FAIL_NULL(path);
    LKI_TRY(lki_writer_open(&writer, tokenizer->context, path));
    const lks_status status = tokenizer->kind->write(tokenizer, writer);
    if (status == LKS_OK) return lki_writer_commit(writer);
    lki_writer_abandon(writer);
    return status;
}
