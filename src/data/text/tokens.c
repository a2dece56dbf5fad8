/* Tokens of a text in a file, or in memory. */
#include "data/text/tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "data/text/text_file.h"
#include "numeric/hash.h"

static const char mark[] = "lockstep tokens\n";
enum { MARK = sizeof mark - 1, VERSION = 1, WORDS = 6, TAIL = 8 * (WORDS + 1) };

/* Words of the tail. */
enum { IN_FORM, IN_COUNT, IN_TEXT, IN_VOCABULARY, IN_TOKENS };

static void put_word(uint8_t *to, uint64_t word)
{
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(word >> 8 * i);
}

static uint64_t word_at(const uint8_t *from)
{
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | from[i];
    return word;
}

static uint64_t form_of(int width)
{
    return (uint64_t)width << 32 | VERSION;
}

void lki_tokens_read(const lki_tokens *tokens, int64_t first, int64_t count, void *out)
{
    const uint8_t *from = tokens->data + (size_t)first * (size_t)tokens->width;
    for (int64_t i = 0; i < count; i++, from += tokens->width) {
        uint32_t id = from[0];
        if (tokens->width > 1) id |= (uint32_t)from[1] << 8;
        if (tokens->width > 2) id |= (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
        memcpy((char *)out + (size_t)i * sizeof id, &id, sizeof id);
    }
}

void lki_tokens_close(lki_tokens *tokens)
{
    lki_file_close(&tokens->file);
    lki_free(tokens->context, tokens->memory, tokens->memory_bytes);
    *tokens = (lki_tokens){.context = tokens->context};
}

/* ---------------------------------------------------------------- a file that is there */

/* Whether it has the tokens of that text and vocabulary, whole and as they were written. */
static bool is_whole(lki_tokens *out, uint64_t text, const lks_tokenizer *tokenizer)
{
    const lki_file *file = &out->file;
    const int width = lki_tokens_width(tokenizer);
    if (file->bytes < MARK + TAIL || memcmp(file->data, mark, MARK) != 0) return false;
    const uint8_t *tail = file->data + file->bytes - TAIL;
    const uint64_t count = word_at(tail + 8 * IN_COUNT);
    const size_t bytes = file->bytes - MARK - TAIL;
    if (word_at(tail + 8 * WORDS) != lki_hash(tail, 8 * WORDS)) return false;
    if (word_at(tail + 8 * IN_FORM) != form_of(width)) return false;
    if (word_at(tail + 8 * IN_TEXT) != text) return false;
    if (word_at(tail + 8 * IN_VOCABULARY) != tokenizer->hash) return false;
    if (bytes % (size_t)width != 0 || bytes / (size_t)width != count) return false;
    out->data = file->data + MARK;
    out->width = width;
    out->count = (int64_t)count;
    out->hash = lki_hash(out->data, bytes);
    return out->hash == word_at(tail + 8 * IN_TOKENS);
}

/* Maps the file, if it is there and right. */
static bool take_tokens(lki_tokens *out, const char *path, uint64_t text,
                        const lks_tokenizer *tokenizer)
{
    if (access(path, R_OK) != 0) return false;
    if (lki_file_open(&out->file, out->context, path) != LKS_OK) return false;
    if (out->file.mapped && is_whole(out, text, tokenizer)) return true;
    lki_log_line(out->context, LKS_LOG_WARN, "'%s' is damaged, and made anew", path);
    lki_tokens_close(out);
    return false;
}

/* ---------------------------------------------------------------- made anew */

typedef struct sink {
    lki_tokens *tokens; /* memory, or */
    lki_writer *writer;
    lki_hash_stream *stream;
    size_t used;
} sink;

static lks_status put_to_file(void *user, const void *tokens, size_t bytes)
{
    sink *to = user;
    lki_hash_stream_add(to->stream, tokens, bytes);
    return lki_writer_write(to->writer, tokens, bytes);
}

static lks_status put_to_memory(void *user, const void *tokens, size_t bytes)
{
    sink *to = user;
    lki_tokens *all = to->tokens;
    if (all->memory_bytes - to->used < bytes) {
        const size_t more = lki_plus(lki_times(all->memory_bytes, 2), bytes);
        void *memory;
        LKI_TRY(lki_alloc(all->context, &memory, more, "the tokens of a text"));
        if (to->used > 0) memcpy(memory, all->memory, to->used);
        lki_free(all->context, all->memory, all->memory_bytes);
        all->memory = memory;
        all->memory_bytes = more;
    }
    if (bytes > 0) memcpy((char *)all->memory + to->used, tokens, bytes);
    to->used += bytes;
    return LKS_OK;
}

static lks_status make_in_memory(lki_tokens *out, const lks_tokenizer *tokenizer,
                                 lki_text_file *text, const lki_tokens_opts *opts)
{
    sink to = {.tokens = out};
    LKI_TRY(lki_text_file_load(text));
    LKI_TRY(lki_tokens_encode(&out->count, tokenizer, &text->passage, opts, put_to_memory, &to));
    out->data = out->memory;
    out->width = lki_tokens_width(tokenizer);
    out->hash = lki_hash(out->data, to.used);
    return LKS_OK;
}

/* All that is in the file. */
static lks_status write_tokens(sink *to, uint64_t hash, const lks_tokenizer *tokenizer,
                               const lki_passage *text, const lki_tokens_opts *opts)
{
    uint8_t tail[TAIL] = {0};
    int64_t count;
    lks_status status = lki_writer_write(to->writer, mark, MARK);
    if (status == LKS_OK)
        status = lki_tokens_encode(&count, tokenizer, text, opts, put_to_file, to);
    const uint64_t tokens = lki_hash_stream_close(to->stream);
    LKI_TRY(status);
    put_word(tail + 8 * IN_FORM, form_of(lki_tokens_width(tokenizer)));
    put_word(tail + 8 * IN_COUNT, (uint64_t)count);
    put_word(tail + 8 * IN_TEXT, hash);
    put_word(tail + 8 * IN_VOCABULARY, tokenizer->hash);
    put_word(tail + 8 * IN_TOKENS, tokens);
    put_word(tail + 8 * WORDS, lki_hash(tail, 8 * WORDS));
    return lki_writer_write(to->writer, tail, TAIL);
}

static lks_status make_file(const char *folder, const char *path, uint64_t hash,
                            const lks_tokenizer *tokenizer, const lki_passage *text,
                            const lki_tokens_opts *opts)
{
    sink to = {0};
    LKI_TRY(lki_folder_make(folder));
    LKI_TRY(lki_writer_open(&to.writer, tokenizer->context, path));
    lki_writer_tidy(to.writer);
    lks_status status = lki_hash_stream_open(&to.stream, tokenizer->context);
    if (status == LKS_OK) status = write_tokens(&to, hash, tokenizer, text, opts);
    if (status == LKS_OK) return lki_writer_commit(to.writer);
    lki_writer_abandon(to.writer);
    return status;
}

static lks_status open_text(lki_tokens *out, const lks_tokenizer *tokenizer, lki_text_file *text,
                            const lki_tokens_opts *opts)
{
    char path[PATH_MAX];
    if (opts->folder == NULL) return make_in_memory(out, tokenizer, text, opts);
    const uint64_t hash = lki_text_file_hash(text);
    const int length = snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".tokens",
                                opts->folder, hash, tokenizer->hash);
    if (length >= (int)sizeof path) return lki_fail_io("open", opts->folder, ENAMETOOLONG);
    if (take_tokens(out, path, hash, tokenizer)) return LKS_OK;
    LKI_TRY(lki_text_file_load(text));
    const lks_status status = make_file(opts->folder, path, hash, tokenizer, &text->passage, opts);
    if (status == LKS_OK && take_tokens(out, path, hash, tokenizer)) return LKS_OK;
    if (status != LKS_OK && status != LKS_E_IO) return status; /* of the text */
    if (status == LKS_E_IO)
        lki_log_line(out->context, LKS_LOG_WARN,
                     "tokens are kept in memory, and made again each time: %s",
                     lks_last_error()->message);
    return make_in_memory(out, tokenizer, text, opts);
}

lks_status lki_tokens_open(lki_tokens *out, const lks_tokenizer *tokenizer, const char *path,
                           const lki_tokens_opts *opts)
{
    lki_text_file text;
    *out = (lki_tokens){.context = tokenizer->context};
    lks_status status = lki_text_file_open(&text, tokenizer->context, path);
    if (status == LKS_OK) status = open_text(out, tokenizer, &text, opts);
    lki_text_file_close(&text);
    return status;
}
