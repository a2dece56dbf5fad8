/* lockstep data show, stats and check of a text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/data/tokens.h"
#include "cli/out/text.h"

enum { FEW = 10, MOST = 10000, ROOM = 1 << 16 };

/* ---------------------------------------------------------------- show */

/* The tokens of a sample, and the last target behind them. */
static lks_status show_sample(const data_source *source, const cli_args *cli, int64_t index,
                              int32_t *x, int32_t *y)
{
    const lks_tokenizer *tokenizer = lks_dataset_tokenizer(source->data);
    const int64_t positions = lks_dataset_get_info(source->data).shape.dim[0];
    tokens_buffer b = {0};
    const lks_status status = lks_dataset_read(source->data, index, x, y);
    if (status != LKS_OK) return status;
    bool all = true;
    for (int64_t i = 0; i < positions && y[i] != LKS_NO_CLASS && all; i++)
        all = (i > 0 || tokens_put(&b, tokenizer, x[0])) && tokens_put(&b, tokenizer, y[i]);
    if (all) say("%8" PRId64 "  %s", index, text_clean(cli->pool, b.text));
    free(b.text);
    return all ? LKS_OK : tokens_no_memory(lks_dataset_name(source->data));
}

static lks_status show_samples(const data_source *source, const cli_args *cli, const char *what,
                               int64_t first, int64_t count)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    const int64_t positions = info.shape.dim[0];
    char some[TEXT_NUMBER_SIZE], all[TEXT_NUMBER_SIZE];
    int32_t *tokens = malloc(2 * (size_t)positions * sizeof *tokens);
    if (tokens == NULL) return tokens_no_memory(what);
    say("%s: %s of %s %s samples of %lld tokens, each with the last target behind it",
        text_clean(cli->pool, what), lks_text_count(some, count), lks_text_count(all, info.samples),
        source->split, (long long)positions);
    lks_status status = LKS_OK;
    for (int64_t i = first; i < first + count && status == LKS_OK; i++)
        status = show_sample(source, cli, i, tokens, tokens + positions);
    free(tokens);
    return status;
}

lks_status data_text_options(const cli_args *cli, const char *what, bool classes)
{
    static const struct {
        cli_local option;
        const char *name;
    } of_images[] = {{LOCAL_OUT, "out"},
                     {LOCAL_AUGMENT, "augment"},
                     {LOCAL_EPOCH, "epoch"},
                     {LOCAL_CLASS, "class"}};
    for (size_t i = 0; i < sizeof of_images / sizeof *of_images - classes; i++)
        if (cli->local[of_images[i].option] != NULL)
            return lks_fail(LKS_E_INVALID, "--%s is for images, but %.200s is a text; drop it",
                            of_images[i].name, what);
    return LKS_OK;
}

lks_status data_text_show(const data_source *source, const cli_args *cli, const char *what)
{
    const int64_t samples = lks_dataset_get_info(source->data).samples;
    int64_t first = 0, count = FEW;
    lks_status status = data_text_options(cli, what, false);
    if (status == LKS_OK)
        status = data_read_number(&first, cli, LOCAL_FIRST, "first", 0, samples - 1);
    if (status == LKS_OK) status = data_read_number(&count, cli, LOCAL_COUNT, "count", 1, MOST);
    if (status != LKS_OK) return status;
    return show_samples(source, cli, what, first,
                        count < samples - first ? count : samples - first);
}

/* ---------------------------------------------------------------- stats */

typedef struct counts {
    tokens_counts tokens;
    int32_t *feeds;             /* [size]: line feeds of a token */
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
    for (int64_t at = 0; at < c->tokens.tokens; at += ROOM) {
        const int64_t left = c->tokens.tokens - at, some = left < ROOM ? left : ROOM;
        (void)lks_dataset_tokens(data, at, some, room);
        for (int64_t i = 0; i < some; i++) {
            c->tokens.count[room[i]]++;
            const int32_t feeds = c->feeds[room[i]];
            c->line += feeds == 0;
            for (int32_t k = 0; k < feeds; k++) end_line(c);
        }
    }
    if (c->line > 0) end_line(c);
}

static lks_status text_counts_make(counts *c, const lks_dataset *data)
{
    lks_status status = tokens_counts_make(&c->tokens, data);
    if (status != LKS_OK) return status;
    const int64_t size = c->tokens.size;
    c->tokens.tokens = lks_dataset_tokens(data, 0, 0, NULL);
    c->feeds = calloc((size_t)size, sizeof *c->feeds);
    int32_t *room = malloc(ROOM * sizeof *room);
    if (c->feeds == NULL || room == NULL) status = tokens_no_memory(lks_dataset_name(data));
    for (int32_t i = 0; status == LKS_OK && i < size; i++)
        c->feeds[i] = line_feeds(c->tokens.tokenizer, i);
    if (status == LKS_OK) {
        count_tokens(c, data, room);
        tokens_counts_settle(&c->tokens);
    }
    free(room);
    return status;
}

static void text_counts_free(counts *c)
{
    tokens_counts_free(&c->tokens);
    free(c->feeds);
}

static void say_stats(const counts *c, const data_source *source, const cli_args *cli,
                      const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    char number[3][TEXT_NUMBER_SIZE];
    say("%s: %s %s tokens, in %s samples of %lld", text_clean(cli->pool, what),
        lks_text_count(number[0], c->tokens.tokens), source->split,
        lks_text_count(number[1], info.samples), (long long)info.shape.dim[0]);
    tokens_say_vocabulary(&c->tokens);
    if (c->lines > 0)
        say("lines           %s, of %s to %s tokens, %.1f on average",
            lks_text_count(number[0], c->lines), lks_text_count(number[1], c->least),
            lks_text_count(number[2], c->most), (double)c->inside / (double)c->lines);
    tokens_say_frequent(&c->tokens, cli->pool);
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
        say("%-10s  %s tokens, in %s samples of %lld%s", split,
            lks_text_count(number[0], c.tokens.tokens),
            lks_text_count(number[1], lks_dataset_get_info(data).samples),
            (long long)lks_dataset_get_info(data).shape.dim[0], tokens_all_unknown(&c.tokens));
        tokens_say_unknown(&c.tokens);
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
