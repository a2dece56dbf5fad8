#include "core/range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

lki_range lki_range_of(const char *text)
{
    lki_range v = {-HUGE_VAL, HUGE_VAL, true, true};
    if (text == NULL) return v;
    const lki_text_caller had = lki_text_enter();
    char *end;
    v.open_low = text[0] == '(';
    v.low = strtod(text + 1, &end);
    if (end[1] != ')' && end[1] != ']') v.high = strtod(end + 1, &end);
    v.open_high = text[strlen(text) - 1] == ')';
    lki_text_leave(had);
    return v;
}

bool lki_range_has(const lki_range *range, double x)
{
    return (range->open_low ? x > range->low : x >= range->low) &&
           (range->open_high ? x < range->high : x <= range->high);
}

void lki_range_describe(const char *range, const char *noun, char *text, size_t size)
{
    const lki_range v = lki_range_of(range);
    const char *at_least = v.open_low ? "above" : "of at least";
    if (range == NULL)
        lki_text(text, size, "%s", noun);
    else if (v.high < HUGE_VAL && !v.open_low && !v.open_high)
        lki_text(text, size, "%s from %.15g to %.15g", noun, v.low, v.high);
    else if (v.high < HUGE_VAL)
        lki_text(text, size, "%s %s %.15g and %s %.15g", noun, at_least, v.low,
                 v.open_high ? "below" : "at most", v.high);
    else
        lki_text(text, size, "%s %s %.15g", noun, at_least, v.low);
    const size_t length = strlen(text);
    if (length > 0 && text[length - 1] == ',') text[length - 1] = '\0';
}

void lki_words_describe(const char *words, char *text, size_t size)
{
    size_t used = 0;
    for (const char *c = words; *c != '\0' && used + 8 < size; c++) {
        const bool last = strchr(c + 1, ' ') == NULL;
        if (*c != ' ')
            text[used++] = *c;
        else
            used += (size_t)snprintf(text + used, size - used, last ? " or " : ", ");
    }
    text[used] = '\0';
}

const char *lki_word_at(const char *words, int number, int *length)
{
    const char *at = words;
    while (number-- > 0) {
        at = strchr(at, ' ');
        if (at == NULL) return NULL;
        at++;
    }
    *length = (int)strcspn(at, " ");
    return at;
}

int lki_word_find(const char *words, const char *word)
{
    int length;
    for (int i = 0;; i++) {
        const char *at = lki_word_at(words, i, &length);
        if (at == NULL) return -1;
        if (strncmp(at, word, (size_t)length) == 0 && word[length] == '\0') return i;
    }
}
