/*
 * Learning which pairs to join, as the trainer of Hugging Face's tokenizers does: of all pairs of neighbours in the pieces
 * of the texts, the most frequent is joined everywhere, again and again; of equally frequent ones that whose left token,
 * then right one, has the smaller number. Tokens are numbered as they come, behind those of the bytes, in the order of
 * their characters in the file.
 *
 * Pairs wait in a heap with the pieces in which they came up, by the count that they had then. What has become of that
 * count is looked up when their turn comes, and they wait again where it is another.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "data/text/bpe/bpe.h"
#include "data/text/bpe/pieces.h"
#include "data/text/words.h"

enum { USUAL_TOKENS = 4096 };

/* A growing list. */
typedef struct list {
    void *data;
    int64_t size, room;
    size_t each;
} list;

/* Of a pair, by its number. */
typedef struct counted {
    int64_t count;
    int32_t head,
        last; /* nodes of pieces in which it came up since it waited last, and the last of these; -1: none */
} counted;

typedef struct node {
    int32_t piece, next; /* a node, or -1 */
} node;

typedef struct waiting {
    int64_t count;
    int32_t pair, head;
} waiting;

typedef struct joined {
    int32_t pair, token;
} joined;

typedef struct learning {
    lks_context *context;
    lki_arena arena;  /* tokens' bytes */
    lki_words pieces; /* with their counts */
    int32_t *symbol;  /* of all pieces, one behind the other */
    int64_t symbols;
    int64_t *first; /* [pieces]: of its symbols */
    int32_t *length;
    lki_words tokens; /* by number */
    lki_pairs pairs;
    list counts, nodes, heap, merges,
        fresh;    /* counted, node, waiting, joined; int32_t: pairs that came up */
    int64_t size; /* wanted */
} learning;

static lks_status append_item(learning *l, list *to, const void *item)
{
    if (to->size == to->room) {
        const int64_t room = to->room > 0 ? 2 * to->room : 256;
        void *memory;
        LKI_TRY(lki_alloc(l->context, &memory, lki_times((size_t)room, to->each), "pairs"));
        if (to->size > 0) memcpy(memory, to->data, (size_t)to->size * to->each);
        lki_free(l->context, to->data, (size_t)to->room * to->each);
        to->data = memory;
        to->room = room;
    }
    memcpy((char *)to->data + (size_t)to->size++ * to->each, item, to->each);
    return LKS_OK;
}

static lki_pair pair_of(const learning *l, int32_t number)
{
    return l->pairs.pair[number];
}

/* ---------------------------------------------------------------- the heap: the most frequent first */

static bool goes_first(const learning *l, const waiting *a, const waiting *b)
{
    if (a->count != b->count) return a->count > b->count;
    const lki_pair x = pair_of(l, a->pair), y = pair_of(l, b->pair);
    return x.left != y.left ? x.left < y.left : x.right < y.right;
}

static lks_status queue_pair(learning *l, waiting entry)
{
    LKI_TRY(append_item(l, &l->heap, &entry));
    waiting *heap = l->heap.data;
    int64_t at = l->heap.size - 1;
    for (; at > 0 && goes_first(l, &entry, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
    return LKS_OK;
}

static waiting pop(learning *l)
{
    waiting *heap = l->heap.data;
    const waiting first = heap[0], last = heap[--l->heap.size];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < l->heap.size; at = child) {
        child += child + 1 < l->heap.size && goes_first(l, &heap[child + 1], &heap[child]);
        if (!goes_first(l, &heap[child], &last)) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

/* ---------------------------------------------------------------- counting */

/* Adds to a pair's count; where it came up, its piece is kept. */
static lks_status count_pair(learning *l, lki_pair pair, int64_t change, int32_t piece)
{
    int32_t number;
    const counted none = {.head = -1, .last = -1};
    LKI_TRY(lki_pairs_add(&l->pairs, pair, &number));
    if (number == l->counts.size) LKI_TRY(append_item(l, &l->counts, &none));
    counted *c = (counted *)l->counts.data + number;
    c->count += change;
    if (change < 0) return LKS_OK;
    node *nodes = l->nodes.data;
    if (c->last >= 0 && nodes[c->last].piece == piece) return LKS_OK;
    if (l->nodes.size == INT32_MAX)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "a vocabulary of byte pairs: too many different pieces of text; give a "
                        "shorter text");
    const int32_t added = (int32_t)l->nodes.size;
    LKI_TRY(append_item(l, &l->nodes, &(node){piece, -1}));
    nodes = l->nodes.data;
    if (c->last < 0) {
        c->head = added;
        LKI_TRY(append_item(l, &l->fresh, &number));
    } else {
        nodes[c->last].next = added;
    }
    c->last = added;
    return LKS_OK;
}

/* Lets the pairs that came up wait. */
static lks_status let_wait(learning *l)
{
    const int32_t *fresh = l->fresh.data;
    for (int64_t i = 0; i < l->fresh.size; i++) {
        counted *c = (counted *)l->counts.data + fresh[i];
        const waiting entry = {c->count, fresh[i], c->head};
        c->head = c->last = -1;
        if (entry.count > 0) LKI_TRY(queue_pair(l, entry));
    }
    l->fresh.size = 0;
    return LKS_OK;
}

static lks_status count_pieces(learning *l, const lki_passage *text)
{
    const uint8_t *at = (const uint8_t *)text->text, *const end = at + text->bytes;
    int64_t number;
    while (at < end) {
        const size_t bytes = lki_piece(at, end);
        LKI_TRY(lki_words_add(&l->pieces, (const char *)at, bytes, 1, &number));
        if (l->pieces.entry[number].count == 1) l->symbols += (int64_t)bytes;
        at += bytes;
    }
    return LKS_OK;
}

static lks_status spell_pieces(learning *l, const int32_t byte[LKI_BPE_BYTES])
{
    void *memory[3];
    const size_t pieces = (size_t)l->pieces.size;
    const size_t wanted[] = {(size_t)l->symbols * sizeof *l->symbol, pieces * sizeof *l->first,
                             pieces * sizeof *l->length};
    for (int i = 0; i < 3; i++)
        LKI_TRY(lki_arena_alloc(&l->arena, &memory[i], wanted[i], "pieces of texts"));
    l->symbol = memory[0];
    l->first = memory[1];
    l->length = memory[2];
    int64_t used = 0;
    for (int32_t i = 0; i < l->pieces.size; i++) {
        const lki_word_entry *entry = &l->pieces.entry[i];
        if (entry->bytes > INT32_MAX)
            return LKI_FAIL(LKS_E_UNSUPPORTED,
                            "a vocabulary of byte pairs: a piece of the text has %zu bytes",
                            entry->bytes);
        l->first[i] = used;
        l->length[i] = (int32_t)entry->bytes;
        for (size_t k = 0; k < entry->bytes; k++) l->symbol[used++] = byte[(uint8_t)entry->text[k]];
        const int32_t *symbol = &l->symbol[l->first[i]];
        for (int32_t k = 0; k + 1 < l->length[i]; k++)
            LKI_TRY(count_pair(l, (lki_pair){symbol[k], symbol[k + 1]}, entry->count, i));
    }
    return let_wait(l);
}

/* ---------------------------------------------------------------- joining */

/* Joins a pair in a piece, from left to right, and counts what its neighbours become. */
static lks_status join_in(learning *l, int32_t piece, lki_pair pair, int32_t token)
{
    int32_t *symbol = &l->symbol[l->first[piece]];
    const int64_t count = l->pieces.entry[piece].count;
    const int32_t length = l->length[piece];
    int32_t to = 0;
    for (int32_t from = 0; from < length; from++, to++) {
        symbol[to] = symbol[from];
        if (symbol[from] != pair.left || from + 1 == length || symbol[from + 1] != pair.right)
            continue;
        if (to > 0) {
            const int32_t before = symbol[to - 1];
            LKI_TRY(count_pair(l, (lki_pair){before, pair.left}, -count, piece));
            LKI_TRY(count_pair(l, (lki_pair){before, token}, count, piece));
        }
        if (from + 2 < length) {
            const int32_t behind = symbol[from + 2];
            LKI_TRY(count_pair(l, (lki_pair){pair.right, behind}, -count, piece));
            LKI_TRY(count_pair(l, (lki_pair){token, behind}, count, piece));
        }
        symbol[to] = token;
        from++;
    }
    l->length[piece] = to;
    return LKS_OK;
}

/* The token of two tokens' bytes. */
static lks_status add_token(learning *l, lki_pair pair, int32_t *token)
{
    void *memory;
    int64_t number;
    const lki_word_entry left = l->tokens.entry[pair.left], right = l->tokens.entry[pair.right];
    LKI_TRY(lki_arena_alloc(&l->arena, &memory, left.bytes + right.bytes, "a token"));
    memcpy(memory, left.text, left.bytes);
    memcpy((char *)memory + left.bytes, right.text, right.bytes);
    LKI_TRY(lki_words_add(&l->tokens, memory, left.bytes + right.bytes, 1, &number));
    *token = (int32_t)number;
    return LKS_OK;
}

static lks_status join_all(learning *l)
{
    while (l->tokens.size < l->size && l->heap.size > 0) {
        waiting first = pop(l);
        const int64_t count = ((counted *)l->counts.data)[first.pair].count;
        if (first.count != count) {
            first.count = count;
            LKI_TRY(queue_pair(l, first));
            continue;
        }
        if (count < 1) break;
        const lki_pair pair = pair_of(l, first.pair);
        int32_t token;
        LKI_TRY(add_token(l, pair, &token));
        LKI_TRY(append_item(l, &l->merges, &(joined){first.pair, token}));
        for (int32_t at = first.head; at >= 0; at = ((node *)l->nodes.data)[at].next)
            LKI_TRY(join_in(l, ((node *)l->nodes.data)[at].piece, pair, token));
        LKI_TRY(let_wait(l));
    }
    return LKS_OK;
}

/* ---------------------------------------------------------------- the vocabulary */

/* The bytes as tokens, in the order of the characters that stand for them. */
static lks_status number_bytes(learning *l, int32_t byte[LKI_BPE_BYTES])
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&l->arena, &memory, LKI_BPE_BYTES, "bytes as tokens"));
    char *text = memory;
    for (uint32_t letter = 0; letter < 2 * LKI_BPE_BYTES; letter++) {
        int64_t number;
        const int found = lki_bpe_byte_of(letter);
        if (found < 0) continue;
        text[found] = (char)found;
        LKI_TRY(lki_words_add(&l->tokens, &text[found], 1, 1, &number));
        byte[found] = (int32_t)number;
    }
    return LKS_OK;
}

/* The learned into a tokenizer. */
static lks_status take(lks_tokenizer *tokenizer, learning *l, const int32_t byte[LKI_BPE_BYTES])
{
    lki_bpe *bpe = tokenizer->own;
    const joined *merges = l->merges.data;
    size_t bytes = 0;
    int32_t rank;
    for (int64_t i = 0; i < l->tokens.size; i++) bytes += l->tokens.entry[i].bytes;
    LKI_TRY(lki_bpe_reserve(tokenizer, l->tokens.size, bytes, l->merges.size, 0));
    memcpy(bpe->byte, byte, sizeof bpe->byte);
    for (int64_t i = 0; i < bpe->size; i++) {
        const lki_word_entry *entry = &l->tokens.entry[i];
        memcpy(bpe->text + bpe->at[i], entry->text, entry->bytes);
        bpe->at[i + 1] = bpe->at[i] + entry->bytes;
    }
    for (int64_t i = 0; i < l->merges.size; i++) {
        LKI_TRY(lki_pairs_add(&bpe->merges, pair_of(l, merges[i].pair), &rank));
        bpe->made[rank] = merges[i].token;
    }
    return lki_bpe_settle(tokenizer);
}

static lks_status learn(lks_tokenizer *tokenizer, learning *l, const lki_passage *texts, int count)
{
    lki_bpe *bpe;
    int32_t byte[LKI_BPE_BYTES];
    LKI_TRY(lki_bpe_create(&bpe, tokenizer));
    for (int i = 0; i < count; i++) LKI_TRY(count_pieces(l, &texts[i]));
    if (l->pieces.size == 0)
        return LKI_FAIL(LKS_E_INVALID, "a vocabulary of byte pairs: the text is empty");
    LKI_TRY(number_bytes(l, byte));
    LKI_TRY(spell_pieces(l, byte));
    LKI_TRY(join_all(l));
    return take(tokenizer, l, byte);
}

lks_status lki_bpe_learn(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                         const lki_passage *texts, int count)
{
    lks_context *context = tokenizer->context;
    learning l = {.context = context,
                  .arena.context = context,
                  .pieces.context = context,
                  .tokens.context = context,
                  .pairs.context = context,
                  .counts.each = sizeof(counted),
                  .nodes.each = sizeof(node),
                  .heap.each = sizeof(waiting),
                  .merges.each = sizeof(joined),
                  .fresh.each = sizeof(int32_t),
                  .size = opts->words > 0 ? opts->words : USUAL_TOKENS};
    if (opts->words != 0 && (opts->words < LKI_BPE_BYTES || opts->words > INT32_MAX))
        return LKI_FAIL(LKS_E_INVALID,
                        "a vocabulary of byte pairs: %" PRId64
                        " tokens, expected at least 256 (all bytes), or 0 for %d",
                        opts->words, USUAL_TOKENS);
    const lks_status status = learn(tokenizer, &l, texts, count);
    list *lists[] = {&l.counts, &l.nodes, &l.heap, &l.merges, &l.fresh};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        lki_free(context, lists[i]->data, (size_t)lists[i]->room * lists[i]->each);
    lki_pairs_release(&l.pairs);
    lki_words_release(&l.tokens);
    lki_words_release(&l.pieces);
    lki_arena_release(&l.arena);
    return status;
}
