/* A growing table of words. */
#include "data/text/words.h"

#include "base/check.h"

enum { FIRST_ROOM = 512 };

/* Twice the room, with everything in its new place. */
static lks_status grow(lki_words *words)
{
    const int64_t room = words->room > 0 ? 2 * words->room : FIRST_ROOM, slots = 2 * room;
    lki_words more = {.context = words->context, .size = words->size, .room = room, .slots = slots};
    void *memory;
    LKI_TRY(lki_alloc(words->context, &memory, (size_t)room * sizeof *more.entry, "words"));
    more.entry = memory;
    const lks_status status = lki_alloc(words->context, &memory, (size_t)slots * sizeof *more.slot,
                                        "words");
    if (status != LKS_OK) {
        lki_free(words->context, more.entry, (size_t)room * sizeof *more.entry);
        return status;
    }
    more.slot = memory;
    for (int64_t i = 0; i < words->size; i++) {
        more.entry[i] = words->entry[i];
        const uint64_t hash = lki_hash(more.entry[i].text, more.entry[i].bytes);
        uint64_t at = hash & ((uint64_t)slots - 1);
        while (more.slot[at].place != 0) at = (at + 1) & ((uint64_t)slots - 1);
        more.slot[at] = (lki_word_slot){(uint32_t)(hash >> 32), (int32_t)(i + 1)};
    }
    lki_words_release(words);
    *words = more;
    return LKS_OK;
}

lks_status lki_words_add(lki_words *words, const char *text, size_t bytes, int64_t count,
                         int64_t *number)
{
    int64_t found = lki_words_find(words, text, bytes);
    if (found < 0) {
        if (words->size == INT32_MAX)
            return LKI_FAIL(LKS_E_UNSUPPORTED, "a vocabulary: more than %d different words",
                            INT32_MAX);
        if (words->size == words->room) LKI_TRY(grow(words));
        const uint64_t hash = lki_hash(text, bytes), mask = (uint64_t)words->slots - 1;
        uint64_t at = hash & mask;
        while (words->slot[at].place != 0) at = (at + 1) & mask;
        found = words->size++;
        words->slot[at] = (lki_word_slot){(uint32_t)(hash >> 32), (int32_t)(found + 1)};
        words->entry[found] = (lki_word_entry){.text = text, .bytes = bytes};
    }
    words->entry[found].count += count;
    *number = found;
    return LKS_OK;
}

void lki_words_release(lki_words *words)
{
    lki_free(words->context, words->entry, (size_t)words->room * sizeof *words->entry);
    lki_free(words->context, words->slot, (size_t)words->slots * sizeof *words->slot);
    *words = (lki_words){.context = words->context};
}
