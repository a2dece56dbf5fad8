/*
 * Byte pairs as tokens, as GPT-2 has them (R. Sennrich et al. 2016; A. Radford et al. 2019): a text is cut in pieces
 * (pieces.h), a piece is its bytes at first, and of the neighbours in it that have been learned to be joined, those that
 * were learned first are, the leftmost of equal ones first, until there are none.
 *
 * bpe.c         the kind of tokenizer
 * vocabulary.c  its memory
 * read.c        from a tokenizer.json of Hugging Face
 * write.c       to one, which is also its identity
 * learn.c       from texts
 * merge.c       tokens of a piece
 */
#ifndef LKI_DATA_TEXT_BPE_H
#define LKI_DATA_TEXT_BPE_H

#include <pthread.h>

#include "data/text/bpe/pairs.h"
#include "data/text/tokenizer.h"

enum { LKI_BPE_BYTES = 256 };

/* A token that is found in a text before it is cut in pieces. */
typedef struct lki_bpe_added {
    int32_t id;
    const char *text;
    size_t bytes;
    bool second;  /* found in what is left between those of the first kind: "normalized" */
    bool special; /* what its file says of it; it changes no token */
    bool known;   /* the vocabulary has it, too */
} lki_bpe_added;

typedef struct lki_bpe {
    lks_context *context;
    char *text; /* of tokens, one behind the other */
    size_t *at; /* [size + 1]: where each begins */
    int64_t size;
    int32_t byte[LKI_BPE_BYTES]; /* tokens; -1: none, and such a text is refused */
    bool whole;                  /* none of them is -1 */
    lki_pairs merges;            /* numbers are ranks */
    int32_t *made;               /* [merges.size]: what a pair becomes */
    lki_bpe_added *added;        /* [adds], in the order of their numbers */
    int adds;
    uint8_t first
        [2][LKI_BPE_BYTES]; /* whether an added token begins so: those of the first, second kind */
    bool prefix;            /* a text begins with a space, also where it does not */
    bool crossing;          /* an added token may have a cut in it (bpe.c) */
    pthread_mutex_t lock;
    struct lki_bpe_room *idle; /* for merging, of threads that are done */
} lki_bpe;

/* An empty one in the place of tokenizer->own. */
lks_status lki_bpe_create(lki_bpe **out, lks_tokenizer *tokenizer);
void lki_bpe_close(lks_tokenizer *tokenizer);
/* Room for `size` tokens of `bytes` bytes together, `merges` and `adds`. */
lks_status lki_bpe_reserve(lks_tokenizer *tokenizer, int64_t size, size_t bytes, int64_t merges,
                           int adds);
/* What follows from all of it, once it is complete. `byte` is filled in already. */
lks_status lki_bpe_settle(lks_tokenizer *tokenizer);

static inline bool lki_bpe_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline const char *lki_bpe_token(const lki_bpe *bpe, int32_t id, size_t *bytes)
{
    *bytes = bpe->at[id + 1] - bpe->at[id];
    return bpe->text + bpe->at[id];
}

lks_status lki_bpe_read(lks_tokenizer *tokenizer, const char *path, const uint8_t *data,
                        size_t bytes);
lks_status lki_bpe_write(const lks_tokenizer *tokenizer, lki_writer *writer);
lks_status lki_bpe_hash(uint64_t *out, const lks_tokenizer *tokenizer);
lks_status lki_bpe_learn(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                         const lki_passage *texts, int count);

/*
 * Files have a character for each byte: itself where Latin-1 shows it (! to ~, U+00A1 to U+00AC, U+00AE to U+00FF), else
 * U+0100 on, in the order of the bytes.
 */
static inline uint32_t lki_bpe_letter(uint8_t byte)
{
    if (byte <= ' ') return 0x100u + byte;
    if (byte < 0x7F || (byte > 0xA0 && byte != 0xAD)) return byte;
    return byte == 0xAD ? 0x143 : 0x121u + byte - 0x7F;
}

/* The byte of a character, or -1. */
static inline int lki_bpe_byte_of(uint32_t letter)
{
    const int byte = letter < 0x100    ? (int)letter
                     : letter <= 0x120 ? (int)letter - 0x100
                     : letter <= 0x142 ? (int)letter - 0x121 + 0x7F
                     : letter == 0x143 ? 0xAD
                                       : -1;
    return byte >= 0 && lki_bpe_letter((uint8_t)byte) == letter ? byte : -1;
}

#endif
