/*
 * The tokens of a text: made once, by several threads with the same bytes for any number of them, and kept in a file
 * that is mapped, or in memory where there is no folder for it.
 *
 *   16 bytes    "lockstep tokens\n"
 *   tokens      of 1, 2 or 4 bytes each, as few as the vocabulary allows, little-endian
 *   56 bytes    version and width (two u32), count, hash of the text, of the vocabulary, of the tokens, 0, and the hash
 *               of the 48 bytes before it (u64)
 *
 * The file is called by the hashes of text and vocabulary, and appears whole or not at all. One that is not what it
 * claims to be is made anew.
 */
#ifndef LKI_DATA_TEXT_TOKENS_H
#define LKI_DATA_TEXT_TOKENS_H

#include "data/text/tokenizer.h"

typedef struct lki_tokens {
    lks_context *context;
    lki_file file;       /* that is mapped, or zeroed */
    void *memory;        /* where there is none */
    size_t memory_bytes; /* allocated */
    const uint8_t *data; /* [count][width] */
    int width;
    int64_t count;
    uint64_t hash; /* of the tokens */
} lki_tokens;

typedef struct lki_tokens_opts {
    const char *folder; /* for the file, made where it is missing; NULL: memory */
    int threads;        /* 0: as many as this process has cores; never changes a bit, or an error */
    size_t chunk_bytes; /* what a thread takes at a time; 0: the usual; likewise */
} lki_tokens_opts;

/* Those of the text in the file or folder `path` (text_file.h). Closed by lki_tokens_close(), also after a failure. */
lks_status lki_tokens_open(lki_tokens *out, const lks_tokenizer *tokenizer, const char *path,
                           const lki_tokens_opts *opts);
void lki_tokens_close(lki_tokens *tokens); /* zeroed is fine */

/* Writes tokens [first, first + count) to `out`, which need not be aligned. */
void lki_tokens_read(const lki_tokens *tokens, int64_t first, int64_t count, void *out);

/* encode.c: tokens of a text, piece by piece, and what becomes of each: `put` is called with the tokens of one piece after
 * the other, `bytes` of them. */
typedef lks_status (*lki_put_tokens)(void *user, const void *tokens, size_t bytes);
lks_status lki_tokens_encode(int64_t *count, const lks_tokenizer *tokenizer,
                             const lki_passage *text, const lki_tokens_opts *opts,
                             lki_put_tokens put, void *user);
int lki_tokens_width(const lks_tokenizer *tokenizer);

#endif
