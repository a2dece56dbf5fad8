#include "data/table/sentences.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "data/table/record.h"
#include "data/text/utf8.h"

void lki_sentences_release(lki_sentences *sentences)
{
    lki_arena_release(&sentences->arena);
    *sentences = (lki_sentences){.arena.context = sentences->arena.context};
}

lks_status lki_sentences_read(lki_sentences *out, const lki_encoding *encoding,
                              const lki_table *table)
{
    void *text, *bytes, *copy;
    int column;
    const size_t rows = (size_t)table->rows;
    size_t all = 0, length;
    *out = (lki_sentences){.table = table, .arena.context = table->context, .rows = table->rows};
    LKI_TRY(lki_feature_find(&column, table, &encoding->input[0]));
    const lki_cell *cell = table->cell + column;
    for (size_t r = 0; r < rows; r++) {
        (void)lki_table_text(table, cell[r * (size_t)table->columns], &length);
        all += length + 1;
    }
    LKI_TRY(lki_arena_alloc(&out->arena, &text, lki_times(rows, sizeof *out->text), "texts"));
    LKI_TRY(lki_arena_alloc(&out->arena, &bytes, lki_times(rows, sizeof *out->bytes), "texts"));
    LKI_TRY(lki_arena_alloc(&out->arena, &copy, all, "the texts of a column"));
    out->text = text;
    out->bytes = bytes;
    char *to = copy;
    for (size_t r = 0; r < rows; r++) {
        const char *from = lki_table_text(table, cell[r * (size_t)table->columns], &length);
        out->text[r] = to;
        to = lki_csv_unquote(to, from, length) + 1;
        out->bytes[r] = (size_t)(to - out->text[r]) - 1;
    }
    return LKS_OK;
}

static lki_passage passage_at(const lki_sentences *s, int64_t row)
{
    return (lki_passage){.text = s->text[row], .bytes = s->bytes[row]};
}

/* The same with where it stands, for messages: the table is walked through for it. */
static lki_passage named_passage(const lki_sentences *s, int64_t row, char place[LKI_TABLE_PLACE])
{
    lki_passage passage = passage_at(s, row);
    passage.name = lki_table_place(s->table, row, place);
    return passage;
}

/* ---------------------------------------------------------------- a vocabulary */

/* The first row with what is no UTF-8; LKS_OK: there is none. */
static lks_status find_invalid(const lki_sentences *s)
{
    for (int64_t r = 0; r < s->rows; r++) {
        char place[LKI_TABLE_PLACE];
        const size_t valid = lki_utf8_valid(s->text[r], s->bytes[r]);
        if (valid == s->bytes[r]) continue;
        const lki_passage passage = named_passage(s, r, place);
        return lki_utf8_fail(&passage, valid);
    }
    return LKS_OK;
}

static int add_passages(lki_passage *to, const lki_sentences *s, const uint8_t *used)
{
    int count = 0;
    for (int64_t r = 0; r < s->rows; r++)
        if (used == NULL || used[r]) to[count++] = passage_at(s, r);
    return count;
}

lks_status lki_sentences_build(lks_tokenizer **out, const lki_sentences *sentences,
                               const uint8_t *used, const lki_sentences *more,
                               const lks_vocabulary_opts *opts)
{
    lks_context *context = sentences->arena.context;
    const int64_t rows = sentences->rows + (more != NULL ? more->rows : 0);
    const size_t bytes = lki_times((size_t)rows, sizeof(lki_passage));
    void *memory;
    *out = NULL;
    if (rows > INT_MAX)
        return LKI_FAIL(LKS_E_UNSUPPORTED, "'%s' has more than %d rows, too many for a vocabulary",
                        sentences->table->path, INT_MAX);
    LKI_TRY(lki_alloc(context, &memory, bytes, "a list of texts"));
    int count = add_passages(memory, sentences, used);
    if (more != NULL) count += add_passages((lki_passage *)memory + count, more, NULL);
    lks_status status = lki_tokenizer_build(out, context, opts, memory, count);
    lki_free(context, memory, bytes);
    if (status != LKS_E_FORMAT) return status;
    const lks_error failure = *lks_last_error(); /* of a text without a name */
    LKI_TRY(find_invalid(sentences));
    if (more != NULL) LKI_TRY(find_invalid(more));
    lki_error_restore(&failure);
    return status;
}

/* ---------------------------------------------------------------- samples */

static lks_status encode_row(const lki_sentences *s, const lks_tokenizer *tokenizer, int64_t row,
                             int64_t context, int32_t *x)
{
    char place[LKI_TABLE_PLACE];
    int64_t count;
    lki_passage passage = passage_at(s, row);
    lks_status status = tokenizer->kind->encode(tokenizer, &passage, x + 1, context - 1, &count);
    if (status == LKS_E_FORMAT) { /* again, for the sentence */
        passage = named_passage(s, row, place);
        status = tokenizer->kind->encode(tokenizer, &passage, x + 1, context - 1, &count);
    }
    LKI_TRY(status);
    if (count > context - 1) count = context - 1;
    x[0] = (int32_t)tokenizer->size + LKI_SENTENCES_FIRST;
    for (int64_t i = 1; i <= count; i++) x[i] += LKI_SENTENCES_FIRST;
    for (int64_t i = count + 1; i < context; i++) x[i] = LKI_SENTENCES_PADDING;
    return LKS_OK;
}

lks_status lki_sentences_encode(const lki_sentences *sentences, const lks_tokenizer *tokenizer,
                                int64_t context, int32_t *x)
{
    if (tokenizer->size > INT32_MAX - LKI_SENTENCES_OTHERS)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "a vocabulary of %" PRId64 " tokens has no room for padding and class",
                        tokenizer->size);
    for (int64_t r = 0; r < sentences->rows; r++)
        LKI_TRY(encode_row(sentences, tokenizer, r, context, x + r * context));
    return LKS_OK;
}
