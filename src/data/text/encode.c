/*
 * A text is encoded in rounds of as many pieces as there are threads. Where it is cut is for the tokenizer to say, and
 * tokens are put in the order of the pieces, so that neither their size nor the number of threads is seen.
 *
 *   text     | piece 0 | piece 1 | piece 2 | piece 3 | ...
 *   round 0    thread 0  thread 1                          then both are put, in order
 *   round 1                        thread 0  thread 1
 */
#include <string.h>

#include "base/check.h"
#include "data/text/tokens.h"
#include "machine/machine.h"
#include "machine/thread.h"

enum { PIECE = 1 << 20, MOST_THREADS = 64 };

typedef struct piece {
    lki_passage passage;
    void *room; /* for as many tokens as the passage can have, and one more */
    size_t room_bytes;
    int64_t count;
    lks_status status;
    lks_error error;
} piece;

typedef struct encoder {
    const lks_tokenizer *tokenizer;
    lki_passage text;
    size_t at; /* of the text: where the next piece begins */
    int width;
    int threads, pieces;
    lki_workers *workers;
    piece *piece; /* [threads] */
} encoder;

int lki_tokens_width(const lks_tokenizer *tokenizer)
{
    return tokenizer->size <= 1 << 8 ? 1 : tokenizer->size <= 1 << 16 ? 2 : 4;
}

/* In place: each token's bytes lie before those of the next. */
static void narrow(void *tokens, int64_t count, int width)
{
    const int32_t *from = tokens;
    uint8_t *to = tokens;
    for (int64_t i = 0; i < count; i++, to += width) {
        int32_t id;
        memcpy(&id, from + i, sizeof id);
        for (int k = 0; k < width; k++) to[k] = (uint8_t)((uint32_t)id >> 8 * k);
    }
}

static void encode_piece(void *user, int worker)
{
    const encoder *e = user;
    piece *p = &e->piece[worker];
    if (worker >= e->pieces) return;
    p->status = e->tokenizer->kind->encode(e->tokenizer, &p->passage, p->room,
                                           (int64_t)p->passage.bytes * e->tokenizer->each,
                                           &p->count);
    if (p->status != LKS_OK) {
        p->error = *lks_last_error();
        return;
    }
    const bool last = p->passage.text + p->passage.bytes == e->text.text + e->text.bytes;
    if (last && e->tokenizer->end >= 0 && p->passage.text[p->passage.bytes - 1] != '\n')
        ((int32_t *)p->room)[p->count++] = e->tokenizer->end;
    narrow(p->room, p->count, e->width);
}

static lks_status next_piece(encoder *e, piece *p, size_t bytes)
{
    const lki_passage *text = &e->text;
    const size_t least = text->bytes - e->at > bytes ? e->at + bytes : text->bytes;
    const size_t end = least < text->bytes
                           ? e->tokenizer->kind->cut(e->tokenizer, text->text, text->bytes, least)
                           : least;
    p->passage = *text;
    p->passage.text += e->at;
    p->passage.bytes = end - e->at;
    p->passage.first = e->at;
    e->at = end;
    const size_t tokens = lki_times(p->passage.bytes, (size_t)e->tokenizer->each);
    const size_t room = lki_times(lki_plus(tokens, 1), sizeof(int32_t));
    if (room <= p->room_bytes) return LKS_OK;
    lki_free(e->tokenizer->context, p->room, p->room_bytes);
    p->room_bytes = 0;
    LKI_TRY(lki_alloc(e->tokenizer->context, &p->room, room, "tokens"));
    p->room_bytes = room;
    return LKS_OK;
}

static lks_status run_rounds(encoder *e, size_t bytes, int64_t *count, lki_put_tokens put,
                             void *user)
{
    while (e->at < e->text.bytes) {
        for (e->pieces = 0; e->pieces < e->threads && e->at < e->text.bytes; e->pieces++)
            LKI_TRY(next_piece(e, &e->piece[e->pieces], bytes));
        if (e->workers != NULL)
            lki_workers_run(e->workers, encode_piece, e);
        else
            encode_piece(e, 0);
        for (int i = 0; i < e->pieces; i++) {
            const piece *p = &e->piece[i];
            if (p->status != LKS_OK) {
                lki_error_restore(&p->error);
                return p->status;
            }
            *count += p->count;
            LKI_TRY(put(user, p->room, (size_t)p->count * (size_t)e->width));
        }
    }
    return LKS_OK;
}

lks_status lki_tokens_encode(int64_t *count, const lks_tokenizer *tokenizer,
                             const lki_passage *text, const lki_tokens_opts *opts,
                             lki_put_tokens put, void *user)
{
    const size_t bytes = opts->chunk_bytes > 0 ? opts->chunk_bytes : PIECE;
    const size_t pieces = text->bytes / bytes + 1;
    int threads = opts->threads > 0 ? opts->threads : lki_allowed_cpus(NULL, 0);
    void *memory;
    *count = 0;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if ((size_t)threads > pieces) threads = (int)pieces;
    encoder e = {.tokenizer = tokenizer,
                 .text = *text,
                 .width = lki_tokens_width(tokenizer),
                 .threads = threads};
    const size_t size = (size_t)threads * sizeof(piece);
    LKI_TRY(lki_alloc(tokenizer->context, &memory, size, "pieces of a text"));
    e.piece = memory;
    lks_status status = LKS_OK;
    if (threads > 1) status = lki_workers_create(&e.workers, tokenizer->context, threads);
    if (status == LKS_OK) status = run_rounds(&e, bytes, count, put, user);
    lki_workers_destroy(e.workers);
    for (int i = 0; i < threads; i++)
        lki_free(tokenizer->context, e.piece[i].room, e.piece[i].room_bytes);
    lki_free(tokenizer->context, memory, size);
    return status;
}
