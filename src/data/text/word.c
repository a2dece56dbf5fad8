/*
 * Words as tokens, as the Penn Treebank's texts of language models have them: what stands between blanks (space, \t, \v,
 * \f, \r), and <eos> for every line feed. <unk> is every word that the vocabulary has not; where no text has it, it
 * is the last token.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "data/text/words.h"

static const char unknown[] = "<unk>", line_end[] = "<eos>";
enum { UNKNOWN = sizeof unknown - 1, LINE_END = sizeof line_end - 1 };

typedef struct word_level {
    lki_vocabulary vocabulary;
    lki_words table; /* over the texts of the vocabulary */
    int32_t end;     /* <eos> */
} word_level;

static bool word_is(const uint8_t *data, size_t bytes)
{
    return lki_vocabulary_is(data, bytes, "word");
}

static void word_close(lks_tokenizer *tokenizer)
{
    word_level *all = tokenizer->own;
    if (all != NULL) lki_words_release(&all->table);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

/* The next word at or behind *at, or a line feed as <eos>: its text, and *at behind it. NULL: no more. */
static const char *next_word(const char **at, const char *end, size_t *bytes)
{
    const char *from = *at;
    while (from < end && is_blank(*from)) from++;
    const char *to = from;
    if (from < end && *from == '\n') {
        *at = from + 1;
        *bytes = LINE_END;
        return line_end;
    }
    while (to < end && *to != '\n' && !is_blank(*to)) to++;
    *at = to;
    *bytes = (size_t)(to - from);
    return from < end ? from : NULL;
}

static lks_status make_own(word_level **out, lks_tokenizer *tokenizer)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&tokenizer->arena, &memory, sizeof **out, "a vocabulary"));
    tokenizer->own = *out = memory;
    (*out)->table.context = tokenizer->context;
    return LKS_OK;
}

/* The table of a vocabulary that is complete. */
static lks_status settle(lks_tokenizer *tokenizer, word_level *all, const char *path)
{
    const lki_vocabulary *vocabulary = &all->vocabulary;
    size_t bytes;
    for (int64_t i = 0; i < vocabulary->size; i++) {
        int64_t number;
        const char *at = lki_vocabulary_at(vocabulary, i, &bytes), *from = at;
        size_t length;
        if (next_word(&from, at + bytes, &length) != at || length != bytes)
            return lki_vocabulary_fail(path, i, "a word with a blank or a line feed in it");
        LKI_TRY(lki_words_add(&all->table, at, bytes, 1, &number));
        if (number != i) return lki_vocabulary_fail(path, i, "a word that stands there twice");
    }
    tokenizer->size = vocabulary->size;
    tokenizer->unknown = (int32_t)lki_words_find(&all->table, unknown, UNKNOWN);
    tokenizer->end = all->end = (int32_t)lki_words_find(&all->table, line_end, LINE_END);
    if (tokenizer->unknown < 0 || all->end < 0)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no %s, which a vocabulary of words needs", path,
                        tokenizer->unknown < 0 ? unknown : line_end);
    return lki_vocabulary_hash(&tokenizer->hash, vocabulary, tokenizer->context);
}

static lks_status word_read(lks_tokenizer *tokenizer, const char *path, const uint8_t *data,
                            size_t bytes)
{
    word_level *all;
    LKI_TRY(make_own(&all, tokenizer));
    LKI_TRY(
        lki_vocabulary_read(&all->vocabulary, &tokenizer->arena, path, data, bytes, "word", true));
    return settle(tokenizer, all, path);
}

/* ---------------------------------------------------------------- making a vocabulary */

static lks_status count_words(lki_words *counts, const lki_passage *text)
{
    const char *at = text->text, *const end = at + text->bytes, *word;
    size_t bytes;
    int64_t number;
    const size_t valid = lki_utf8_valid(text->text, text->bytes);
    if (valid < text->bytes) return lki_utf8_fail(text, valid);
    while ((word = next_word(&at, end, &bytes)) != NULL)
        LKI_TRY(lki_words_add(counts, word, bytes, 1, &number));
    if (text->bytes > 0 && end[-1] != '\n')
        LKI_TRY(lki_words_add(counts, line_end, LINE_END, 1, &number));
    return LKS_OK;
}

/* A word of the counts on its way to its number. */
typedef struct candidate {
    int64_t count, number; /* in the counts */
} candidate;

static int more_frequent(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int appears_earlier(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* The words that are kept, in their order, to the front of `list`; returns how many. */
static int64_t choose(candidate *list, const lki_words *counts, const lks_vocabulary_opts *opts)
{
    const int64_t most = opts->words > 0 && opts->words < counts->size ? opts->words : counts->size;
    int64_t kept = 0, wanted = most;
    for (int64_t i = 0; i < counts->size; i++)
        list[i] = (candidate){.count = counts->entry[i].count, .number = i};
    qsort(list, (size_t)counts->size, sizeof *list, more_frequent);
    const int64_t special[] = {lki_words_find(counts, unknown, UNKNOWN),
                               lki_words_find(counts, line_end, LINE_END)};
    wanted -= 2; /* both are kept, wherever they come */
    for (int64_t i = 0; i < counts->size; i++) {
        const bool always = list[i].number == special[0] || list[i].number == special[1];
        if (always || wanted-- > 0) list[kept++] = list[i];
    }
    if (opts->by_appearance) qsort(list, (size_t)kept, sizeof *list, appears_earlier);
    return kept;
}

static lks_status number_words(lks_tokenizer *tokenizer, const lki_words *counts,
                               const candidate *list, int64_t kept)
{
    word_level *all;
    size_t bytes = 0;
    for (int64_t i = 0; i < kept; i++) bytes += counts->entry[list[i].number].bytes;
    LKI_TRY(make_own(&all, tokenizer));
    LKI_TRY(lki_vocabulary_make(&all->vocabulary, &tokenizer->arena, "word", true, kept, bytes));
    for (int64_t i = 0; i < kept; i++) {
        const lki_word_entry *entry = &counts->entry[list[i].number];
        lki_vocabulary_add(&all->vocabulary, i, entry->text, entry->bytes);
    }
    return settle(tokenizer, all, "the vocabulary");
}

static lks_status build_from(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                             lki_words *counts, const lki_passage *texts, int count)
{
    int64_t number;
    void *list;
    for (int i = 0; i < count; i++) LKI_TRY(count_words(counts, &texts[i]));
    if (counts->size == 0)
        return LKI_FAIL(LKS_E_INVALID, "a vocabulary of words: the text is empty");
    LKI_TRY(lki_words_add(counts, unknown, UNKNOWN, 0, &number));
    const size_t bytes = (size_t)counts->size * sizeof(candidate);
    LKI_TRY(lki_alloc(tokenizer->context, &list, bytes, "a list of words"));
    const lks_status status = number_words(tokenizer, counts, list, choose(list, counts, opts));
    lki_free(tokenizer->context, list, bytes);
    return status;
}

static lks_status word_build(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                             const lki_passage *texts, int count)
{
    lki_words counts = {.context = tokenizer->context};
    if (opts->words != 0 && opts->words < 3)
        return LKI_FAIL(LKS_E_INVALID,
                        "a vocabulary of words: %" PRId64
                        " words, expected at least 3 (one, <unk> and <eos>), or 0 for all",
                        opts->words);
    const lks_status status = build_from(tokenizer, opts, &counts, texts, count);
    lki_words_release(&counts);
    return status;
}

static lks_status word_write(const lks_tokenizer *tokenizer, lki_writer *writer)
{
    const word_level *all = tokenizer->own;
    return lki_vocabulary_write(&all->vocabulary, writer);
}

/* ---------------------------------------------------------------- encoding */

static lks_status word_encode(const lks_tokenizer *tokenizer, const lki_passage *passage,
                              int32_t *ids, int64_t room, int64_t *count)
{
    const word_level *all = tokenizer->own;
    const char *at = passage->text, *const end = at + passage->bytes, *word;
    const size_t valid = lki_utf8_valid(passage->text, passage->bytes);
    size_t bytes;
    int64_t n = 0;
    if (valid < passage->bytes) return lki_utf8_fail(passage, valid);
    for (; (word = next_word(&at, end, &bytes)) != NULL; n++) {
        const int64_t id = word == line_end ? all->end : lki_words_find(&all->table, word, bytes);
        if (n < room) ids[n] = id >= 0 ? (int32_t)id : tokenizer->unknown;
    }
    *count = n;
    return LKS_OK;
}

static const char *word_token(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    const word_level *all = tokenizer->own;
    *bytes = 1;
    if (id == all->end) return "\n";
    const char *word = lki_vocabulary_at(&all->vocabulary, id, bytes);
    ++*bytes;
    return word - 1; /* the space in front */
}

/* In front of what is part of no word. */
static size_t word_cut(const lks_tokenizer *tokenizer, const char *text, size_t bytes, size_t at)
{
    (void)tokenizer;
    while (at < bytes && text[at] != '\n' && !is_blank(text[at])) at++;
    return at;
}

const lki_tokenizer_kind lki_word_tokenizer = {
    .name = "word",
    .file = "vocabulary.txt",
    .is = word_is,
    .read = word_read,
    .close = word_close,
    .build = word_build,
    .write = word_write,
    .encode = word_encode,
    .token = word_token,
    .cut = word_cut,
};
