/*
 * Texts of a table's column as samples, each with its row's target:
 *
 *   [class | token token ... token | padding ... padding]     `context` tokens, LKS_I32
 *
 *   0         padding, which attention and means leave out where they are masked
 *   1 .. n    the n tokens of the vocabulary, each its number and 1
 *   n + 1     the class, so that a text without tokens has one
 *
 * What a text has more tokens of is cut at its end. A text is what people wrote: doubled quotes inside of quotes are single.
 */
#ifndef LKI_DATA_TABLE_SENTENCES_H
#define LKI_DATA_TABLE_SENTENCES_H

#include <lockstep/text.h>

#include "data/table/encode.h"

enum { LKI_SENTENCES_PADDING = 0, LKI_SENTENCES_FIRST = 1, LKI_SENTENCES_OTHERS = 2 };

typedef struct lki_sentences {
    const lki_table *table; /* borrowed, as long as this is asked; */
    lki_arena arena;
    int64_t rows;
    const char **text; /* [rows], each with a zero byte behind it; empty where it is missing */
    size_t *bytes;     /* [rows] */
} lki_sentences;

/* Those of the table's column that is the encoding's input. Released by lki_sentences_release(), also after a failure. */
lks_status lki_sentences_read(lki_sentences *out, const lki_encoding *encoding,
                              const lki_table *table);
void lki_sentences_release(lki_sentences *sentences); /* zeroed is fine */

/* A vocabulary of the rows of which `used` has a 1 (NULL: all), and of all of `more` (NULL: none). */
lks_status lki_sentences_build(lks_tokenizer **out, const lki_sentences *sentences,
                               const uint8_t *used, const lki_sentences *more,
                               const lks_vocabulary_opts *opts);

/* x[rows][context]; LKS_E_FORMAT names row and byte of what is no text, or not of the vocabulary. */
lks_status lki_sentences_encode(const lki_sentences *sentences, const lks_tokenizer *tokenizer,
                                int64_t context, int32_t *x);

#endif
