/* Tokens of texts, and the kind of tokenizer. */
#include "data/text/bpe/bpe.h"

#include <string.h>

#include "base/check.h"
#include "data/text/bpe/merge.h"
#include "data/text/bpe/pieces.h"
#include "data/text/utf8.h"

typedef struct encoding {
    lki_bpe *bpe;
    lki_bpe_room *room;
    const lki_passage *passage;
    int32_t *ids;
    int64_t fits, count;
} encoding;

static inline void put_token(encoding *e, int32_t id)
{
    if (e->count < e->fits) e->ids[e->count] = id;
    e->count++;
}

static lks_status put_piece(encoding *e, const uint8_t *piece, size_t bytes)
{
    const int32_t *tokens;
    int64_t count;
    LKI_TRY(lki_bpe_merge(&tokens, &count, e->bpe, e->room, piece, bytes));
    for (int64_t i = 0; i < count; i++) put_token(e, tokens[i]);
    return LKS_OK;
}

/* Fails where a byte has no token. */
static lks_status check_bytes(const encoding *e, const uint8_t *at, const uint8_t *end)
{
    char name[LKI_PASSAGE_NAME];
    size_t byte;
    while (at < end && e->bpe->byte[*at] >= 0) at++;
    if (at == end) return LKS_OK;
    lki_passage_place(e->passage, (size_t)(at - (const uint8_t *)e->passage->text), &byte, name);
    return LKI_FAIL(LKS_E_FORMAT,
                    "%s: byte %zu, which is 0x%02x, has no token in the vocabulary; make one that "
                    "has all bytes (initial_alphabet of its trainer)",
                    name, byte, *at);
}

/* What stands between added tokens. */
static lks_status put_plain(encoding *e, const uint8_t *at, const uint8_t *end)
{
    if (!e->bpe->whole) LKI_TRY(check_bytes(e, at, end));
    if (e->bpe->prefix && *at != ' ') {
        const size_t bytes = lki_piece_behind_space(at, end);
        LKI_TRY(lki_bpe_widen(e->bpe, e->room, bytes + 1));
        e->room->spaced[0] = ' ';
        memcpy(e->room->spaced + 1, at, bytes);
        LKI_TRY(put_piece(e, e->room->spaced, bytes + 1));
        at += bytes;
    }
    while (at < end) {
        const size_t bytes = lki_piece(at, end);
        LKI_TRY(put_piece(e, at, bytes));
        at += bytes;
    }
    return LKS_OK;
}

/* The longest added token of a kind at this place; NULL: none. */
static const lki_bpe_added *added_at(const lki_bpe *bpe, bool second, const uint8_t *at,
                                     const uint8_t *end)
{
    const lki_bpe_added *found = NULL;
    if (bpe->first[second][*at] == 0) return NULL;
    for (int i = 0; i < bpe->adds; i++) {
        const lki_bpe_added *one = &bpe->added[i];
        if (one->second != second || one->bytes > (size_t)(end - at)) continue;
        if (found != NULL && one->bytes <= found->bytes) continue;
        if (memcmp(one->text, at, one->bytes) == 0) found = one;
    }
    return found;
}

/* Added tokens of a kind from left to right, and what stands between them. */
static lks_status put_between(encoding *e, int kind, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *from = at;
    if (kind == 2) return put_plain(e, at, end);
    while (e->bpe->adds > 0 && at < end) {
        const lki_bpe_added *added = added_at(e->bpe, kind == 1, at, end);
        if (added == NULL) {
            at++;
            continue;
        }
        if (from < at) LKI_TRY(put_between(e, kind + 1, from, at));
        put_token(e, added->id);
        from = at += added->bytes;
    }
    return from < end ? put_between(e, kind + 1, from, end) : LKS_OK;
}

static lks_status bpe_encode(const lks_tokenizer *tokenizer, const lki_passage *passage,
                             int32_t *ids, int64_t room, int64_t *count)
{
    lki_bpe *bpe = tokenizer->own;
    encoding e = {.bpe = bpe, .passage = passage, .ids = ids, .fits = room};
    const uint8_t *text = (const uint8_t *)passage->text;
    LKI_TRY(lki_bpe_enter(&e.room, bpe));
    const lks_status status = passage->bytes > 0 ? put_between(&e, 0, text, text + passage->bytes)
                                                 : LKS_OK;
    lki_bpe_leave(bpe, e.room);
    *count = e.count;
    return status;
}

static const char *bpe_token(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    return lki_bpe_token(tokenizer->own, id, bytes);
}

/*
 * In front of white space behind what is none: there a piece ends, and the next one does not look back. A text with an
 * added token that may have such a place in it is not cut. With `prefix` what begins behind a cut begins with a space
 * of its own.
 */
static size_t bpe_cut(const lks_tokenizer *tokenizer, const char *text, size_t bytes, size_t at)
{
    const lki_bpe *bpe = tokenizer->own;
    if (bpe->crossing) return bytes;
    for (; at < bytes; at++) {
        const bool blank = bpe->prefix ? text[at] == ' ' : lki_bpe_blank(text[at]);
        if (blank && !lki_piece_space_before((const uint8_t *)text, at)) break;
    }
    return at;
}

/* Of all kinds the only one in JSON. */
static bool bpe_is(const uint8_t *data, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && data[at] != 0 && strchr(" \t\r\n", data[at]) != NULL) at++;
    return at < bytes && data[at] == '{';
}

const lki_tokenizer_kind lki_bpe_tokenizer = {
    .name = "bpe",
    .file = "tokenizer.json",
    .is = bpe_is,
    .read = lki_bpe_read,
    .close = lki_bpe_close,
    .build = lki_bpe_learn,
    .write = lki_bpe_write,
    .encode = bpe_encode,
    .token = bpe_token,
    .cut = bpe_cut,
};
