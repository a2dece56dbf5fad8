/* lockstep data show, stats and check of a text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/table.h"
#include "cli/out/text.h"

enum { FEW = 10, MOST = 10000, SHOWN = 20, ROOM = 1 << 16 };

/* A text in memory that grows. */
typedef struct buffer {
    char *text;
    size_t used, room;
} buffer;

static bool put(buffer *b, const char *text, size_t bytes)
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

/* A token as people see it: line feeds and their like as \n and \t; others that are none become '?'. */
static bool put_token(buffer *b, const lks_tokenizer *tokenizer, int32_t id)
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

static lks_status no_memory(const char *what)
{
    return lks_fail(LKS_E_NOMEM, "out of memory for the text of %.200s", what);
}

/* A name in quotes for a table. */
static const char *token_text(cli_pool *pool, const lks_tokenizer *tokenizer, int32_t id)
{
    buffer b = {0};
    const bool word = strcmp(lks_tokenizer_level(tokenizer), "word") == 0;
    const char *text = "";
    if (put_token(&b, tokenizer, id)) text = text_clean(pool, b.text + (word && b.text[0] == ' '));
    const char *name = word && strcmp(text, "\\n") == 0 ? "<eos>" : text;
    name = word ? pool_format(pool, "%s", name) : pool_format(pool, "'%s'", name);
    free(b.text);
    return name;
}

/* ---------------------------------------------------------------- show */

/* The tokens of a sample, and the last target behind them. */
static lks_status show_sample(const data_source *source, const cli_args *cli, int64_t index,
                              int32_t *x, int32_t *y)
{
    const lks_tokenizer *tokenizer = lks_dataset_tokenizer(source->data);
    const int64_t positions = lks_dataset_get_info(source->data).shape.dim[0];
    buffer b = {0};
    const lks_status status = lks_dataset_read(source->data, index, x, y);
    if (status != LKS_OK) return status;
    bool all = true;
    for (int64_t i = 0; i < positions && y[i] != LKS_NO_CLASS && all; i++)
        all = (i > 0 || put_token(&b, tokenizer, x[0])) && put_token(&b, tokenizer, y[i]);
    if (all) say("%8" PRId64 "  %s", index, text_clean(cli->pool, b.text));
    free(b.text);
    return all ? LKS_OK : no_memory(lks_dataset_name(source->data));
}

static lks_status show_samples(const data_source *source, const cli_args *cli, const char *what,
                               int64_t first, int64_t count)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    const int64_t positions = info.shape.dim[0];
    char some[TEXT_NUMBER_SIZE], all[TEXT_NUMBER_SIZE];
    int32_t *tokens = malloc(2 * (size_t)positions * sizeof *tokens);
    if (tokens == NULL) return no_memory(what);
    say("%s: %s of %s %s samples of %lld tokens, each with the last target behind it",
        text_clean(cli->pool, what), lks_text_count(some, count), lks_text_count(all, info.samples),
        source->split, (long long)positions);
    lks_status status = LKS_OK;
    for (int64_t i = first; i < first + count && status == LKS_OK; i++)
        status = show_sample(source, cli, i, tokens, tokens + positions);
    free(tokens);
    return status;
}

lks_status data_text_show(const data_source *source, const cli_args *cli, const char *what)
{
    static const struct {
        cli_local option;
        const char *name;
    } of_images[] = {{LOCAL_OUT, "out"},
                     {LOCAL_CLASS, "class"},
                     {LOCAL_AUGMENT, "augment"},
                     {LOCAL_EPOCH, "epoch"}};
    const int64_t samples = lks_dataset_get_info(source->data).samples;
    int64_t first = 0, count = FEW;
    for (size_t i = 0; i < sizeof of_images / sizeof *of_images; i++)
        if (cli->local[of_images[i].option] != NULL)
            return lks_fail(LKS_E_INVALID, "--%s is for images, but %.200s is a text; drop it",
                            of_images[i].name, what);
    lks_status status = data_read_number(&first, cli, LOCAL_FIRST, "first", 0, samples - 1);
    if (status == LKS_OK) status = data_read_number(&count, cli, LOCAL_COUNT, "count", 1, MOST);
    if (status != LKS_OK) return status;
    return show_samples(source, cli, what, first,
                        count < samples - first ? count : samples - first);
}

/* ---------------------------------------------------------------- stats */

typedef struct place {
    int64_t count;
    int32_t id;
} place;

typedef struct counts {
    const lks_tokenizer *tokenizer;
    int64_t tokens, size;
    int64_t *count;             /* [size] */
    int32_t *feeds;             /* [size]: line feeds of a token */
    place *order;               /* [size]: the most frequent first */
    int64_t lines, least, most; /* of lines: tokens without the line feed */
    int64_t line;               /* of the one that is not ended */
    int64_t inside;             /* of all of them */
} counts;

/* How many line feeds a token has. */
static int32_t line_feeds(const lks_tokenizer *tokenizer, int32_t id)
{
    size_t bytes;
    int32_t count = 0;
    const char *text = lks_tokenizer_token(tokenizer, id, &bytes);
    for (size_t i = 0; i < bytes; i++) count += text[i] == '\n';
    return count;
}

static void end_line(counts *c)
{
    if (c->lines == 0 || c->line < c->least) c->least = c->line;
    if (c->line > c->most) c->most = c->line;
    c->lines++;
    c->inside += c->line;
    c->line = 0;
}

static void count_tokens(counts *c, const lks_dataset *data, int32_t *room)
{
    for (int64_t at = 0; at < c->tokens; at += ROOM) {
        const int64_t left = c->tokens - at, some = left < ROOM ? left : ROOM;
        (void)lks_dataset_tokens(data, at, some, room);
        for (int64_t i = 0; i < some; i++) {
            c->count[room[i]]++;
            const int32_t feeds = c->feeds[room[i]];
            c->line += feeds == 0;
            for (int32_t k = 0; k < feeds; k++) end_line(c);
        }
    }
    if (c->line > 0) end_line(c);
}

static int more_frequent_token(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static lks_status text_counts_make(counts *c, const lks_dataset *data)
{
    c->tokenizer = lks_dataset_tokenizer(data);
    c->tokens = lks_dataset_tokens(data, 0, 0, NULL);
    c->size = lks_tokenizer_size(c->tokenizer);
    c->count = calloc((size_t)c->size, sizeof *c->count);
    c->order = calloc((size_t)c->size, sizeof *c->order);
    c->feeds = calloc((size_t)c->size, sizeof *c->feeds);
    int32_t *room = malloc(ROOM * sizeof *room);
    const bool all = c->count != NULL && c->order != NULL && c->feeds != NULL && room != NULL;
    for (int32_t i = 0; all && i < c->size; i++) c->feeds[i] = line_feeds(c->tokenizer, i);
    if (all) {
        count_tokens(c, data, room);
        for (int32_t i = 0; i < c->size; i++) c->order[i] = (place){c->count[i], i};
        qsort(c->order, (size_t)c->size, sizeof *c->order, more_frequent_token);
    }
    free(room);
    return all ? LKS_OK : no_memory(lks_dataset_name(data));
}

static void text_counts_free(counts *c)
{
    free(c->count);
    free(c->feeds);
    free(c->order);
}

static void say_unknown(const counts *c)
{
    char count[TEXT_NUMBER_SIZE];
    const int32_t unknown = lks_tokenizer_unknown(c->tokenizer);
    if (unknown >= 0)
        say("unknown         %s, %.2f%% of the tokens", lks_text_count(count, c->count[unknown]),
            100.0 * (double)c->count[unknown] / (double)c->tokens);
}

static void say_frequent(const counts *c, cli_pool *pool)
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

static void say_stats(const counts *c, const data_source *source, const cli_args *cli,
                      const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    char number[4][TEXT_NUMBER_SIZE];
    int64_t used = 0;
    for (int64_t i = 0; i < c->size; i++) used += c->count[i] > 0;
    say("%s: %s %s tokens, in %s samples of %lld", text_clean(cli->pool, what),
        lks_text_count(number[0], c->tokens), source->split,
        lks_text_count(number[1], info.samples), (long long)info.shape.dim[0]);
    say("vocabulary      %s (level %s), of which %s occur", lks_text_count(number[0], c->size),
        lks_tokenizer_level(c->tokenizer), lks_text_count(number[1], used));
    say("its hash        %016" PRIx64, lks_tokenizer_hash(c->tokenizer));
    say_unknown(c);
    if (c->lines > 0)
        say("lines           %s, of %s to %s tokens, %.1f on average",
            lks_text_count(number[0], c->lines), lks_text_count(number[1], c->least),
            lks_text_count(number[2], c->most), (double)c->inside / (double)c->lines);
    say_frequent(c, cli->pool);
}

lks_status data_text_stats(const data_source *source, const cli_args *cli, const char *what)
{
    counts c = {0};
    const lks_status status = text_counts_make(&c, source->data);
    if (status == LKS_OK) say_stats(&c, source, cli, what);
    text_counts_free(&c);
    return status;
}

/* ---------------------------------------------------------------- check */

/* Opening a split has read all of its text. */
static lks_status check_split(lks_dataset *data, const char *split)
{
    counts c = {0};
    char number[2][TEXT_NUMBER_SIZE];
    lks_status status = text_counts_make(&c, data);
    if (status == LKS_OK) {
        const int32_t unknown = lks_tokenizer_unknown(c.tokenizer);
        say("%-10s  %s tokens, in %s samples of %lld%s", split, lks_text_count(number[0], c.tokens),
            lks_text_count(number[1], lks_dataset_get_info(data).samples),
            (long long)lks_dataset_get_info(data).shape.dim[0],
            unknown >= 0 && c.count[unknown] == c.tokens ? ", all of them unknown" : "");
        say_unknown(&c);
    }
    text_counts_free(&c);
    lks_dataset_destroy(data);
    return status;
}

static lks_status check_splits(const data_source *source, const cli_args *cli, const char *what)
{
    static const char *const split[] = {"training", "validation", "test"};
    lks_status status = LKS_OK;
    for (int i = 0; i < 3 && status == LKS_OK; i++) {
        lks_dataset *data = NULL;
        if (i == 1)
            status = lks_recipe_valid_dataset(&data, source->recipe, source->context);
        else if (i == 0 || lks_recipe_has_test(source->recipe))
            status = lks_recipe_dataset(&data, source->recipe, source->context, i == 2);
        if (status == LKS_OK && data != NULL) status = check_split(data, split[i]);
    }
    if (status == LKS_OK) say("%s: nothing is wrong", text_clean(cli->pool, what));
    return status;
}

bool data_text_check(lks_status *status, const cli_args *cli, const char *what)
{
    data_source source;
    const bool text = data_configure(&source, cli, what) == LKS_OK &&
                      lks_recipe_has(source.recipe, "data.text");
    if (text) *status = check_splits(&source, cli, what);
    data_close(&source);
    return text;
}
