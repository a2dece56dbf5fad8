/* Where numbers may lie, and which words there are: written once, for whoever checks, and for people. */
#ifndef LKI_CORE_RANGE_H
#define LKI_CORE_RANGE_H

#include <stdbool.h>
#include <stddef.h>

/* "[0,1)": ends that are absent are infinite; NULL: every number. */
typedef struct lki_range {
    double low, high;
    bool open_low, open_high;
} lki_range;
lki_range lki_range_of(const char *text);
bool lki_range_has(const lki_range *range, double x); /* no NaN is in any */
/* `noun`, and behind it "of at least 1", "from 0 to 1", "above 0 and below 1"; or nothing. */
void lki_range_describe(const char *range, const char *noun, char *text, size_t size);
/* "sgd, adam or adadelta", from words with a blank between them. */
void lki_words_describe(const char *words, char *text, size_t size);
/* The number of a word, from 0; -1: it is none of them. And the word that has a number, as long as
 * *length; NULL: there are not so many. */
int lki_word_find(const char *words, const char *word);
const char *lki_word_at(const char *words, int number, int *length);

#endif
