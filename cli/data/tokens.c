#include "cli/data/tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/table.h"
#include "cli/out/text.h"

enum { SHOWN = 20 };

static bool put(tokens_buffer *b, const char *text, size_t bytes)
{
    if (b->room - b->used <= bytes) {
        const size_t room = 2 * b->room + bytes + 64;
        char *more = realloc(b->text, room);
        if (more == NULL) return false;
        b->text = more;
        b->room = room;
    }
    memcpy(b->text + b->used, text, bytes);
    b->used += bytes;
    b->text[b->used] = '\0';
    return true;
}

bool tokens_put(tokens_buffer *b, const lks_tokenizer *tokenizer, int32_t id)
{
    static const char plain[] = "\n\t\r\\", letter[] = "ntr\\";
    size_t bytes;
    const char *text = lks_tokenizer_token(tokenizer, id, &bytes);
    bool all = true;
    for (size_t i = 0; i < bytes && all; i++) {
        const char *found = text[i] != '\0' ? strchr(plain, text[i]) : NULL;
        all = found != NULL ? put(b, (char[]){'\\', letter[found - plain]}, 2)
                            : put(b, &text[i], 1);
    }
    return all;
}

lks_status tokens_no_memory(const char *what)
{
    return lks_fail(LKS_E_NOMEM, "out of memory for the text of %.200s", what);
}

/* A name in quotes for a table. */
static const char *token_text(cli_pool *pool, const lks_tokenizer *tokenizer, int32_t id)
{
    tokens_buffer b = {0};
    const bool word = strcmp(lks_tokenizer_level(tokenizer), "word") == 0;
    const char *text = "";
    if (tokens_put(&b, tokenizer, id)) text = text_clean(pool, b.text + (word && b.text[0] == ' '));
    const char *name = word && strcmp(text, "\\n") == 0 ? "<eos>" : text;
    name = word ? pool_format(pool, "%s", name) : pool_format(pool, "'%s'", name);
    free(b.text);
    return name;
}

/* ---------------------------------------------------------------- counts */

static int more_frequent_token(const void *a, const void *b)
{
    const tokens_place *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

lks_status tokens_counts_make(tokens_counts *out, const lks_dataset *data)
{
    *out = (tokens_counts){.tokenizer = lks_dataset_tokenizer(data)};
    out->size = lks_tokenizer_size(out->tokenizer);
    out->count = calloc((size_t)out->size, sizeof *out->count);
    out->order = calloc((size_t)out->size, sizeof *out->order);
    if (out->count != NULL && out->order != NULL) return LKS_OK;
    return tokens_no_memory(lks_dataset_name(data));
}

void tokens_counts_settle(tokens_counts *c)
{
    for (int32_t i = 0; i < c->size; i++) c->order[i] = (tokens_place){c->count[i], i};
    qsort(c->order, (size_t)c->size, sizeof *c->order, more_frequent_token);
}

void tokens_counts_free(tokens_counts *c)
{
    free(c->count);
    free(c->order);
}

void tokens_say_unknown(const tokens_counts *c)
{
    char count[TEXT_NUMBER_SIZE];
    const int32_t unknown = lks_tokenizer_unknown(c->tokenizer);
    if (unknown >= 0 && c->tokens > 0)
        say("unknown         %s, %.2f%% of the tokens", lks_text_count(count, c->count[unknown]),
            100.0 * (double)c->count[unknown] / (double)c->tokens);
}

const char *tokens_all_unknown(const tokens_counts *c)
{
    const int32_t unknown = lks_tokenizer_unknown(c->tokenizer);
    return unknown >= 0 && c->tokens > 0 && c->count[unknown] == c->tokens ? ", all of them unknown"
                                                                           : "";
}

void tokens_say_vocabulary(const tokens_counts *c)
{
    char number[2][TEXT_NUMBER_SIZE];
    int64_t used = 0;
    for (int64_t i = 0; i < c->size; i++) used += c->count[i] > 0;
    say("vocabulary      %s (level %s), of which %s occur", lks_text_count(number[0], c->size),
        lks_tokenizer_level(c->tokenizer), lks_text_count(number[1], used));
    say("its hash        %016" PRIx64, lks_tokenizer_hash(c->tokenizer));
    tokens_say_unknown(c);
}

void tokens_say_frequent(const tokens_counts *c, cli_pool *pool)
{
    enum { COLUMNS = 4 };
    const char *title[COLUMNS] = {"token", "number", "count", "share"};
    const bool right[COLUMNS] = {false, true, true, true};
    const char *cell[SHOWN * COLUMNS];
    int rows = 0;
    for (; rows < SHOWN && rows < c->size && c->order[rows].count > 0; rows++) {
        char count[TEXT_NUMBER_SIZE];
        const int32_t id = c->order[rows].id;
        cell[rows * COLUMNS] = token_text(pool, c->tokenizer, id);
        cell[rows * COLUMNS + 1] = pool_format(pool, "%d", id);
        cell[rows * COLUMNS + 2] = pool_format(pool, "%s", lks_text_count(count, c->count[id]));
        cell[rows * COLUMNS + 3] = pool_format(pool, "%.2f%%",
                                               100.0 * (double)c->count[id] / (double)c->tokens);
    }
    say("%s", "");
    table_print(&(cli_table){rows, COLUMNS, title, cell, right}, say_columns());
}
