/* Tokens of a piece. */
#ifndef LKI_DATA_TEXT_BPE_MERGE_H
#define LKI_DATA_TEXT_BPE_MERGE_H

#include "data/text/bpe/bpe.h"

/* Short pieces with their tokens, where the next one with the same place takes it. */
enum { LKI_KEPT_BITS = 15, LKI_KEPT_BYTES = 22, LKI_KEPT_TOKENS = 10 };
typedef struct lki_merged {
    uint8_t bytes, count; /* 0 bytes: nothing */
    uint8_t text[LKI_KEPT_BYTES];
    int32_t token[LKI_KEPT_TOKENS];
} lki_merged;

/* What a thread needs to merge, with what it knows of pieces. */
typedef struct lki_bpe_room {
    struct lki_bpe_room *next;
    void *memory; /* of the arrays below, for a piece of `bytes` bytes */
    size_t bytes;
    int32_t *token; /* [bytes]: of a piece; while it is merged -1 where there is none any more */
    int32_t *before, *behind; /* [bytes]: neighbours */
    uint64_t *heap;           /* [3 * bytes]: rank << 32 | place */
    int64_t waiting;          /* of the heap */
    uint8_t *spaced;          /* [bytes + 1]: for a piece with a space in front */
    lki_merged kept[1 << LKI_KEPT_BITS];
} lki_bpe_room;

/* A room that no other thread has; given back by lki_bpe_leave(). */
lks_status lki_bpe_enter(lki_bpe_room **out, lki_bpe *bpe);
void lki_bpe_leave(lki_bpe *bpe, lki_bpe_room *room);
void lki_bpe_room_free(lki_bpe *bpe, lki_bpe_room *room);

/* Room for pieces of so many bytes. */
lks_status lki_bpe_widen(lki_bpe *bpe, lki_bpe_room *room, size_t bytes);

/* *tokens are those of a piece, until the next call; each of its bytes has a token. */
lks_status lki_bpe_merge(const int32_t **tokens, int64_t *count, lki_bpe *bpe, lki_bpe_room *room,
                         const uint8_t *piece, size_t bytes);

#endif
