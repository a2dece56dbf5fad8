/*
 * Vocabulary files: text, a token a line, of which the first has the number 0.
 *
 *     lockstep vocabulary 1 char 65
 *     \n
 *     \s
 *     !
 *     ...
 *
 * The first line has the version, the level and the number of tokens. \n, \r, \t, \s (space), \\ and \x00 to \x1f and
 * \x7f stand for what would be no visible part of a line; all else is UTF-8 as it is. Of bytes there is only the first
 * line. The identity of a vocabulary is the XXH3 of its file as lki_vocabulary_write() has it.
 */
#ifndef LKI_DATA_TEXT_VOCABULARY_H
#define LKI_DATA_TEXT_VOCABULARY_H

#include "data/text/tokenizer.h"

typedef struct lki_vocabulary {
    const char *level;
    int64_t size;
    const char *text; /* tokens one after the other, each with a space in front where `spaced` */
    size_t *at;       /* [size + 1]: where each begins */
    bool spaced;
} lki_vocabulary;

/* Whether a file begins as one of this level. */
bool lki_vocabulary_is(const uint8_t *data, size_t bytes, const char *level);

/* Reads one of a level that has a line for each token; memory is of the arena. Whether tokens are what the level wants,
 * and each is there once, is the level's to see. */
lks_status lki_vocabulary_read(lki_vocabulary *out, lki_arena *arena, const char *path,
                               const uint8_t *data, size_t bytes, const char *level, bool spaced);
/* The size that the first line says, and where the second begins. */
lks_status lki_vocabulary_head(int64_t *size, size_t *end, const char *path, const uint8_t *data,
                               size_t bytes, const char *level);

/* Room for `size` tokens with `bytes` bytes together, spaces not counted, added in order. */
lks_status lki_vocabulary_make(lki_vocabulary *out, lki_arena *arena, const char *level,
                               bool spaced, int64_t size, size_t bytes);
void lki_vocabulary_add(lki_vocabulary *vocabulary, int64_t id, const char *token, size_t bytes);

lks_status lki_vocabulary_write(const lki_vocabulary *vocabulary, lki_writer *writer);
lks_status lki_vocabulary_hash(uint64_t *out, const lki_vocabulary *vocabulary,
                               lks_context *context);

/* A token without the space in front. */
static inline const char *lki_vocabulary_at(const lki_vocabulary *vocabulary, int64_t id,
                                            size_t *bytes)
{
    const size_t first = vocabulary->at[id] + vocabulary->spaced;
    *bytes = vocabulary->at[id + 1] - first;
    return vocabulary->text + first;
}

/* Fails with LKS_E_FORMAT: a token that stands there twice, or is not what a level has. */
lks_status lki_vocabulary_fail(const char *path, int64_t id, const char *why);

#endif
