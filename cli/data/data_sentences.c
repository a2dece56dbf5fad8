/* lockstep data show, stats and check of a table's texts (data.text_column). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/data/tokens.h"
#include "cli/out/text.h"

enum { FEW = 10, MOST = 10000, PADDING = 0, FIRST = 1 };

bool data_has_sentences(const lks_dataset *data)
{
    return lks_dataset_tokenizer(data) != NULL && lks_dataset_tokens(data, 0, 0, NULL) == 0;
}

/* A sample and its target. */
typedef struct sample {
    int64_t context, targets;
    int32_t *x;   /* [context] */
    int32_t *y;   /* [targets], or the bits of as many floats */
    int64_t seen; /* tokens of its text in x, behind that of the class */
    int64_t all;  /* that its text has */
} sample;

static lks_status sample_make(sample *out, const lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    *out = (sample){.context = info.shape.dim[0],
                    .targets = lks_shape_elements(&info.target_shape)};
    out->x = malloc((size_t)(out->context + out->targets) * sizeof *out->x);
    if (out->x == NULL) return tokens_no_memory(lks_dataset_name(data));
    out->y = out->x + out->context;
    return LKS_OK;
}

static lks_status sample_read(sample *s, lks_dataset *data, int64_t index)
{
    const lks_tokenizer *tokenizer = lks_dataset_tokenizer(data);
    const char *text = lks_dataset_sample(data, index);
    const lks_status status = lks_dataset_read(data, index, s->x, s->y);
    if (status != LKS_OK) return status;
    s->seen = 0;
    while (s->seen + 1 < s->context && s->x[s->seen + 1] != PADDING) s->seen++;
    s->all = s->seen;
    return text == NULL || s->seen + 1 < s->context
               ? LKS_OK
               : lks_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &s->all);
}

/* ---------------------------------------------------------------- show */

/* Its class, or its numbers in their own units. */
static const char *target_text(cli_pool *pool, const lks_dataset *data, const sample *s)
{
    const lks_unit *unit = lks_dataset_units(data);
    const char *text = "";
    if (unit == NULL) {
        const char *name = lks_dataset_class(data, s->y[0]);
        return name != NULL ? text_clean(pool, name) : pool_format(pool, "%d", s->y[0]);
    }
    for (int64_t i = 0; i < s->targets; i++) {
        float value;
        memcpy(&value, &s->y[i], sizeof value);
        text = pool_format(pool, "%s%s%g", text, i > 0 ? ", " : "", cli_in_units(&unit[i], value));
    }
    return text;
}

static lks_status show_sample(const data_source *source, const cli_args *cli, const sample *s,
                              int64_t index, int width)
{
    const lks_tokenizer *tokenizer = lks_dataset_tokenizer(source->data);
    const char *target = target_text(cli->pool, source->data, s);
    tokens_buffer b = {0};
    bool all = true;
    for (int64_t i = 0; i < s->seen && all; i++)
        all = tokens_put(&b, tokenizer, s->x[1 + i] - FIRST);
    const char *text = b.text != NULL ? text_clean(cli->pool, b.text) : "";
    if (all)
        say("%8" PRId64 "  %s%*s  %s%s", index, target, text_gap(target, width), "",
            text + (text[0] == ' '), s->all > s->seen ? " ..." : "");
    free(b.text);
    return all ? LKS_OK : tokens_no_memory(lks_dataset_name(source->data));
}

/* Columns of the widest class. */
static int class_width(const cli_args *cli, const lks_dataset *data)
{
    const char *const *name = cli_class_names(cli->pool, data);
    int width = 0;
    for (int64_t c = 0; name != NULL && c < lks_dataset_get_info(data).classes; c++)
        if (text_length(name[c]) > width) width = text_length(name[c]);
    return width;
}

static lks_status show_samples(const data_source *source, const cli_args *cli, int64_t first,
                               int64_t count, int64_t class)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    const int width = class_width(cli, source->data);
    int64_t shown = 0;
    sample s;
    lks_status status = sample_make(&s, source->data);
    for (int64_t i = first; i < info.samples && shown < count && status == LKS_OK; i++) {
        status = sample_read(&s, source->data, i);
        if (status != LKS_OK || (class >= 0 && s.y[0] != class)) continue;
        status = show_sample(source, cli, &s, lks_dataset_position(source->data, i), width);
        shown++;
    }
    free(s.x);
    if (status != LKS_OK || shown > 0) return status;
    return lks_fail(LKS_E_INVALID, "there is no sample of class %lld from number %lld on",
                    (long long)class, (long long)first);
}

lks_status data_sentences_show(const data_source *source, const cli_args *cli, const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    char number[TEXT_NUMBER_SIZE];
    int64_t first = 0, count = FEW, class = -1;
    lks_status status = data_text_options(cli, what, info.classes > 0);
    if (status == LKS_OK)
        status = data_read_number(&first, cli, LOCAL_FIRST, "first", 0, info.samples - 1);
    if (status == LKS_OK) status = data_read_number(&count, cli, LOCAL_COUNT, "count", 1, MOST);
    if (status == LKS_OK)
        status = data_read_number(&class, cli, LOCAL_CLASS, "class", 0, info.classes - 1);
    if (status != LKS_OK) return status;
    say("%s: of %s %s rows of %lld tokens, each with its row, its %s and what the network sees",
        text_clean(cli->pool, what), lks_text_count(number, info.samples), source->split,
        (long long)info.shape.dim[0], info.classes > 0 ? "class" : "targets");
    return show_samples(source, cli, first, count, class);
}

/* ---------------------------------------------------------------- stats, check */

typedef struct lengths {
    tokens_counts tokens;           /* that are seen */
    int64_t rows, least, most, all; /* tokens of texts, whether they are seen or not */
    int64_t cut, empty;             /* texts with more than are seen, and with none */
} lengths;

static lks_status lengths_of(lengths *out, lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    sample s;
    *out = (lengths){.rows = info.samples, .least = INT64_MAX};
    lks_status status = tokens_counts_make(&out->tokens, data);
    if (status != LKS_OK) return status;
    status = sample_make(&s, data);
    for (int64_t i = 0; i < info.samples && status == LKS_OK; i++) {
        status = sample_read(&s, data, i);
        if (status != LKS_OK) break;
        for (int64_t t = 0; t < s.seen; t++) out->tokens.count[s.x[1 + t] - FIRST]++;
        out->tokens.tokens += s.seen;
        out->all += s.all;
        out->cut += s.all > s.seen;
        out->empty += s.all == 0;
        if (s.all < out->least) out->least = s.all;
        if (s.all > out->most) out->most = s.all;
    }
    free(s.x);
    if (status == LKS_OK) tokens_counts_settle(&out->tokens);
    return status;
}

static void say_lengths(const lengths *l, const lks_dataset *data)
{
    char number[3][TEXT_NUMBER_SIZE];
    say("texts           of %s to %s tokens, %.1f on average", lks_text_count(number[0], l->least),
        lks_text_count(number[1], l->most), (double)l->all / (double)l->rows);
    if (l->cut > 0)
        say("cut             %s, which have more than %lld tokens (data.context, less one)",
            lks_text_count(number[2], l->cut),
            (long long)lks_dataset_get_info(data).shape.dim[0] - 1);
    if (l->empty > 0) say("without tokens  %s", lks_text_count(number[2], l->empty));
}

lks_status data_sentences_stats(const data_source *source, const cli_args *cli, const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    char number[TEXT_NUMBER_SIZE];
    lengths l;
    const lks_status status = lengths_of(&l, source->data);
    if (status == LKS_OK) {
        say("%s: %s %s samples of %lld tokens, the first of them of the class",
            text_clean(cli->pool, what), lks_text_count(number, info.samples), source->split,
            (long long)info.shape.dim[0]);
        tokens_say_vocabulary(&l.tokens);
        say_lengths(&l, source->data);
        tokens_say_frequent(&l.tokens, cli->pool);
    }
    tokens_counts_free(&l.tokens);
    return status;
}

lks_status data_sentences_check(lks_dataset *data)
{
    lengths l;
    const lks_status status = lengths_of(&l, data);
    if (status == LKS_OK) {
        tokens_say_unknown(&l.tokens);
        say_lengths(&l, data);
    }
    tokens_counts_free(&l.tokens);
    return status;
}
