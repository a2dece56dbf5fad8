/* A growing table of words, each with a number in order of first appearance. */
#ifndef LKI_DATA_TEXT_WORDS_H
#define LKI_DATA_TEXT_WORDS_H

#include <string.h>

#include "base/memory.h"
#include "numeric/hash.h"

typedef struct lki_word_entry {
    const char *text; /* borrowed */
    size_t bytes;
    int64_t count;
} lki_word_entry;

typedef struct lki_word_slot {
    uint32_t tag;  /* of the hash */
    int32_t place; /* number + 1; 0: free */
} lki_word_slot;

typedef struct lki_words {
    lks_context *context;
    lki_word_entry *entry; /* [size], room for `room` */
    int64_t size, room;
    lki_word_slot *slot; /* [slots], a power of two, at most half of them taken */
    int64_t slots;
} lki_words;

/* The word's number, or -1. Any threads at once, while none adds. */
static inline int64_t lki_words_find(const lki_words *words, const char *text, size_t bytes)
{
    const uint64_t hash = lki_hash(text, bytes);
    const uint64_t mask = (uint64_t)words->slots - 1;
    for (uint64_t at = hash & mask; words->slots > 0; at = (at + 1) & mask) {
        const lki_word_slot slot = words->slot[at];
        if (slot.place == 0) break;
        if (slot.tag != (uint32_t)(hash >> 32)) continue;
        const lki_word_entry *entry = &words->entry[slot.place - 1];
        if (entry->bytes == bytes && memcmp(entry->text, text, bytes) == 0) return slot.place - 1;
    }
    return -1;
}

/* Its number, a new one where the word is new, with `count` added to its count. */
lks_status lki_words_add(lki_words *words, const char *text, size_t bytes, int64_t count,
                         int64_t *number);
void lki_words_release(lki_words *words); /* zeroed is fine */

#endif
