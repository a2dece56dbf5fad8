/*
 * In a short piece the pair to join next is looked for. In others neighbours that may be joined wait in a heap, by rank and then by place. What was joined in between is seen when their
 * turn comes: their tokens are not those of the rank any more.
 *
 *   token    t  h  e        the heap: (t h) (h e)
 *   joined   th -1 e        (h e) is stale; (th e) joins it
 */
#include "data/text/bpe/merge.h"

#include <string.h>

#include "base/check.h"
#include "numeric/hash.h"

lks_status lki_bpe_enter(lki_bpe_room **out, lki_bpe *bpe)
{
    void *memory;
    pthread_mutex_lock(&bpe->lock);
    *out = bpe->idle;
    if (*out != NULL) bpe->idle = (*out)->next;
    pthread_mutex_unlock(&bpe->lock);
    if (*out != NULL) return LKS_OK;
    LKI_TRY(lki_alloc(bpe->context, &memory, sizeof **out, "pieces of texts"));
    *out = memory;
    return LKS_OK;
}

void lki_bpe_leave(lki_bpe *bpe, lki_bpe_room *room)
{
    pthread_mutex_lock(&bpe->lock);
    room->next = bpe->idle;
    bpe->idle = room;
    pthread_mutex_unlock(&bpe->lock);
}

static size_t memory_for(size_t bytes)
{
    return lki_plus(lki_times(bytes, 3 * sizeof(uint64_t) + 3 * sizeof(int32_t) + 1), 1);
}

void lki_bpe_room_free(lki_bpe *bpe, lki_bpe_room *room)
{
    lki_free(bpe->context, room->memory, memory_for(room->bytes));
    lki_free(bpe->context, room, sizeof *room);
}

lks_status lki_bpe_widen(lki_bpe *bpe, lki_bpe_room *room, size_t bytes)
{
    enum { LEAST = 256 };
    void *memory;
    if (bytes <= room->bytes) return LKS_OK;
    if (bytes > INT32_MAX)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "a text: %zu bytes without a border between two tokens, expected at most "
                        "%d",
                        bytes, INT32_MAX);
    const size_t wanted = bytes < LEAST ? LEAST : bytes + bytes / 2;
    LKI_TRY(lki_alloc(bpe->context, &memory, memory_for(wanted), "a piece of a text"));
    lki_free(bpe->context, room->memory, memory_for(room->bytes));
    room->memory = memory;
    room->bytes = wanted;
    room->heap = memory;
    room->token = (int32_t *)(room->heap + 3 * wanted);
    room->before = room->token + wanted;
    room->behind = room->before + wanted;
    room->spaced = (uint8_t *)(room->behind + wanted);
    return LKS_OK;
}

/* ---------------------------------------------------------------- the heap */

static void push_entry(lki_bpe_room *room, uint64_t entry)
{
    int64_t at = room->waiting++;
    for (; at > 0 && room->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        room->heap[at] = room->heap[(at - 1) / 2];
    room->heap[at] = entry;
}

static uint64_t pop(lki_bpe_room *room)
{
    const uint64_t least = room->heap[0], last = room->heap[--room->waiting];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < room->waiting; at = child) {
        child += child + 1 < room->waiting && room->heap[child + 1] < room->heap[child];
        if (room->heap[child] >= last) break;
        room->heap[at] = room->heap[child];
    }
    room->heap[at] = last;
    return least;
}

/* ---------------------------------------------------------------- merging */

/* Lets the token at a place and the one behind it wait, if they may be joined. */
static inline void consider(const lki_bpe *bpe, lki_bpe_room *room, int32_t at, int32_t end)
{
    const int32_t behind = room->behind[at];
    if (behind == end) return;
    const int32_t rank = lki_pairs_find(&bpe->merges,
                                        (lki_pair){room->token[at], room->token[behind]});
    if (rank >= 0) push_entry(room, (uint64_t)rank << 32 | (uint32_t)at);
}

static void join(const lki_bpe *bpe, lki_bpe_room *room, uint64_t entry, int32_t end)
{
    const int32_t rank = (int32_t)(entry >> 32), at = (int32_t)(uint32_t)entry;
    const lki_pair pair = bpe->merges.pair[rank];
    const int32_t behind = room->behind[at];
    if (room->token[at] != pair.left || behind == end || room->token[behind] != pair.right) return;
    room->token[at] = bpe->made[rank];
    room->token[behind] = -1;
    room->behind[at] = room->behind[behind];
    if (room->behind[at] < end) room->before[room->behind[at]] = at;
    consider(bpe, room, at, end);
    if (room->before[at] >= 0) consider(bpe, room, room->before[at], end);
}

static int64_t merge(const lki_bpe *bpe, lki_bpe_room *room, const uint8_t *piece, int32_t bytes)
{
    int64_t count = 0;
    for (int32_t i = 0; i < bytes; i++) {
        room->token[i] = bpe->byte[piece[i]];
        room->before[i] = i - 1;
        room->behind[i] = i + 1;
    }
    room->waiting = 0;
    for (int32_t i = 0; i < bytes; i++) consider(bpe, room, i, bytes);
    while (room->waiting > 0) join(bpe, room, pop(room), bytes);
    for (int32_t i = 0; i < bytes; i++)
        if (room->token[i] >= 0) room->token[count++] = room->token[i];
    return count;
}

/* UINT32_MAX: the token and the one behind it are not joined. */
static inline uint32_t rank_at(const lki_bpe *bpe, const int32_t *token, int at)
{
    return (uint32_t)lki_pairs_find(&bpe->merges, (lki_pair){token[at], token[at + 1]});
}

/* The same of a short piece: the least rank is looked for each time. */
static int64_t merge_short(const lki_bpe *bpe, int32_t *token, const uint8_t *piece, int bytes)
{
    uint32_t rank[LKI_KEPT_BYTES + 1] = {UINT32_MAX};
    for (int i = 0; i < bytes; i++) token[i] = bpe->byte[piece[i]];
    for (int i = 0; i + 1 < bytes; i++) rank[i] = rank_at(bpe, token, i);
    for (;;) {
        int at = 0;
        for (int i = 1; i + 1 < bytes; i++) at = rank[i] < rank[at] ? i : at;
        if (bytes < 2 || rank[at] == UINT32_MAX) return bytes;
        token[at] = bpe->made[rank[at]];
        bytes--;
        for (int i = at + 1; i < bytes; i++) {
            token[i] = token[i + 1];
            rank[i] = rank[i + 1];
        }
        if (at + 1 < bytes) rank[at] = rank_at(bpe, token, at);
        if (at > 0) rank[at - 1] = rank_at(bpe, token, at - 1);
    }
}

lks_status lki_bpe_merge(const int32_t **tokens, int64_t *count, lki_bpe *bpe, lki_bpe_room *room,
                         const uint8_t *piece, size_t bytes)
{
    lki_merged *kept = NULL;
    if (bytes <= LKI_KEPT_BYTES) {
        kept = &room->kept[lki_hash(piece, bytes) >> (64 - LKI_KEPT_BITS)];
        *tokens = kept->token;
        *count = kept->count;
        if (kept->bytes == bytes && memcmp(kept->text, piece, bytes) == 0) return LKS_OK;
    }
    LKI_TRY(lki_bpe_widen(bpe, room, bytes));
    *tokens = room->token;
    *count = kept != NULL ? merge_short(bpe, room->token, piece, (int)bytes)
                          : merge(bpe, room, piece, (int32_t)bytes);
    if (kept == NULL || *count > LKI_KEPT_TOKENS) return LKS_OK;
    kept->bytes = (uint8_t)bytes;
    kept->count = (uint8_t)*count;
    memcpy(kept->text, piece, bytes);
    memcpy(kept->token, room->token, (size_t)*count * sizeof *kept->token);
    return LKS_OK;
}
