#include "recipe/data/table.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "data/dataset.h"
#include "data/table/kept.h"
#include "data/table/sentences.h"
#include "data/table/series.h"
#include "recipe/data/columns.h"
#include "recipe/data/series.h"
#include "recipe/data/split.h"
#include "recipe/data/text.h"

/* ---------------------------------------------------------------- what the rows of the training say */

/* Marks the rows that are trained with: neither the test's nor the validation's. */
static lks_status mark_training(uint8_t *used, const lki_config *config, lks_context *context,
                                const lki_table *table)
{
    const lks_dataset_ops ops = {
        .info = {
            .samples = table->rows, .shape = {1, {1}}, .dtype = LKS_F32, .target_shape = {1, {1}}}};
    lks_dataset *whole; /* nobody reads a sample of it */
    LKI_TRY(
        lki_dataset_in_memory(&whole, context, table->path, &ops, NULL, table->cell, table->cell));
    const lks_status status = lki_split_mark(used, config, whole);
    lks_dataset_destroy(whole);
    return status;
}

/* ---------------------------------------------------------------- a data set of encoded rows */

/* What the splits of a table share; the last data set that is closed frees it. */
typedef struct table_set {
    lks_context *context;
    int users;
    lki_encoding encoding;
    struct table_set *base; /* whose encoding is meant, of the training's table; NULL: its own */
    const char *path;
    int64_t rows;
    lks_tokenizer *tokenizer; /* of sentences, where the encoding is its own; else NULL */
    int64_t tokens;           /* of their samples */
    lki_sentences sentences;  /* zeroed: there are none, or not read yet; its table is closed */
    void *x, *y;              /* NULL: not encoded yet */
    size_t x_bytes, y_bytes;
} table_set;

static const lki_encoding *encoding_of(const table_set *set)
{
    return set->base != NULL ? &set->base->encoding : &set->encoding;
}

/* Of sentences; else NULL. */
static const lks_tokenizer *tokenizer_of(const table_set *set)
{
    return (set->base != NULL ? set->base : set)->tokenizer;
}

/* Elements of a sample. */
static int64_t width_of(const table_set *set)
{
    const lki_encoding *e = encoding_of(set);
    return lki_encoding_has_sentences(e) ? (set->base != NULL ? set->base : set)->tokens : e->width;
}

static void close_set(void *user)
{
    table_set *set = user;
    if (set == NULL || --set->users > 0) return;
    if (set->x != NULL) lki_free(set->context, set->x, set->x_bytes);
    if (set->y != NULL) lki_free(set->context, set->y, set->y_bytes);
    close_set(set->base);
    lki_sentences_release(&set->sentences);
    lks_tokenizer_destroy(set->tokenizer);
    lki_encoding_release(&set->encoding);
    lki_free(set->context, set, sizeof *set);
}

/* The table's set, of a data set that was made here; NULL: it was not. */
static table_set *set_of(const lks_dataset *dataset)
{
    return dataset != NULL && dataset->close == close_set ? dataset->user : NULL;
}

/* For one user. `base` NULL: its encoding is to be its own. */
static lks_status make_table_set(table_set **out, lks_context *context, const char *path,
                                 table_set *base)
{
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof **out, "a data set of a table"));
    *out = memory;
    **out = (table_set){.context = context,
                        .users = 1,
                        .base = base,
                        .encoding = {.context = context, .arena.context = context}};
    if (base != NULL) base->users++;
    const lks_status status = lki_arena_string(&(*out)->encoding.arena, &(*out)->path, path);
    if (status == LKS_OK) return LKS_OK;
    close_set(*out);
    *out = NULL;
    return status;
}

static lks_status read_sentences(table_set *set, const lki_table *table)
{
    if (set->sentences.rows > 0) return LKS_OK;
    return lki_sentences_read(&set->sentences, encoding_of(set), table);
}

/* All rows; without targets zeros stand for them. */
static lks_status encode(table_set *set, const lki_table *table, bool targets)
{
    const lki_encoding *e = encoding_of(set);
    const size_t rows = (size_t)table->rows;
    set->rows = table->rows;
    set->x_bytes = lki_times(rows, (size_t)width_of(set) * sizeof(float)); /* or of tokens */
    set->y_bytes = lki_times(rows,
                             e->classes > 0 ? sizeof(int32_t) : (size_t)e->targets * sizeof(float));
    LKI_TRY(lki_alloc(set->context, &set->x, set->x_bytes, "samples of a table"));
    LKI_TRY(lki_alloc(set->context, &set->y, set->y_bytes, "targets of a table"));
    memset(set->y, 0, set->y_bytes);
    LKI_TRY(lki_encoding_apply(e, table, set->x, targets ? set->y : NULL));
    if (!lki_encoding_has_sentences(e)) return LKS_OK;
    LKI_TRY(read_sentences(set, table));
    return lki_sentences_encode(&set->sentences, tokenizer_of(set), width_of(set), set->x);
}

/* Takes a user over, also when it fails. */
static lks_status make_whole(lks_dataset **out, table_set *set)
{
    const lki_encoding *e = encoding_of(set);
    const lks_tokenizer *tokenizer = tokenizer_of(set);
    const lks_dataset_ops ops = {
        .close = close_set,
        .info = {.samples = set->rows,
                 .shape = {1, {width_of(set)}},
                 .dtype = tokenizer != NULL ? LKS_I32 : LKS_F32,
                 .vocabulary = tokenizer != NULL
                                   ? lks_tokenizer_size(tokenizer) + LKI_SENTENCES_OTHERS
                                   : 0,
                 .classes = e->classes,
                 .target_shape = {e->classes == 0, {e->targets}}}};
    const lks_status status = lki_dataset_in_memory(out, set->context, set->path, &ops, set, set->x,
                                                    set->y);
    if (status != LKS_OK) {
        close_set(set);
        return status;
    }
    if (e->classes > 0) lki_dataset_name_classes(*out, e->class_name, e->classes);
    (*out)->unit = e->unit;
    (*out)->tokenizer = tokenizer;
    if (tokenizer != NULL) lki_dataset_name_samples(*out, set->sentences.text);
    return LKS_OK;
}

/* ---------------------------------------------------------------- sentences */

/* The texts of the table to test with, of which characters are tokens, too; there may be none. */
static lks_status read_test(lki_table *table, lki_sentences *out, lki_config *config,
                            const table_set *set, const lki_csv_opts *opts)
{
    const char *path = lki_config_text(config, LKI_KEY_DATA_TEST_TABLE);
    if (path == NULL) return LKS_OK;
    LKI_TRY(lki_table_open(table, set->context, path, opts));
    return lki_sentences_read(out, &set->encoding, table);
}

static lks_status build_tokenizer(table_set *set, lki_config *config, const lki_table *table,
                                  const lki_csv_opts *opts)
{
    lks_vocabulary_opts made;
    lki_table other = {0};
    lki_sentences more = {0};
    void *used;
    LKI_TRY(lki_vocabulary_opts(&made, config));
    LKI_TRY(read_sentences(set, table));
    const bool all = made.level == LKS_LEVEL_CHAR;
    const size_t bytes = (size_t)table->rows;
    LKI_TRY(lki_alloc(set->context, &used, bytes, "marks of rows"));
    lks_status status = mark_training(used, config, set->context, table);
    if (status == LKS_OK && all) status = read_test(&other, &more, config, set, opts);
    if (status == LKS_OK)
        status = lki_sentences_build(&set->tokenizer, &set->sentences, all ? NULL : used,
                                     more.rows > 0 ? &more : NULL, &made);
    lki_free(set->context, used, bytes);
    lki_sentences_release(&more);
    lki_table_close(&other);
    return status;
}

/* The vocabulary of a training's table with sentences, from a file or made of its texts. */
static lks_status find_tokenizer(table_set *set, lki_config *config, const lki_table *table,
                                 const lki_csv_opts *opts)
{
    set->tokens = lki_config_int(config, LKI_KEY_DATA_CONTEXT);
    LKI_TRY(lki_vocabulary_find(&set->tokenizer, config, set->context));
    return set->tokenizer != NULL ? LKS_OK : build_tokenizer(set, config, table, opts);
}

/* The same of a run whose columns are in its folder. */
static lks_status find_kept(table_set *set, lki_config *config, const char *folder)
{
    set->tokens = lki_config_int(config, LKI_KEY_DATA_CONTEXT);
    LKI_TRY(lki_vocabulary_find(&set->tokenizer, config, set->context));
    if (set->tokenizer != NULL) return LKS_OK;
    return LKI_FAIL(
        LKS_E_IO,
        "%.300s has neither tokenizer.json nor vocabulary.txt, which the training wrote "
        "there; copy it again, or give it as data.tokenizer",
        folder);
}

/* Columns of a run against what the keys say now. */
static lks_status same_kind(const lki_config *config, const lki_encoding *kept, const char *path)
{
    const bool was = lki_encoding_has_sentences(kept),
               is = lki_config_has(config, LKI_KEY_DATA_TEXT_COLUMN);
    if (was == is) return LKS_OK;
    return LKI_FAIL(LKS_E_MISMATCH,
                    "'%.200s' is of a run with%s data.text_column, but the configuration has %s; "
                    "give that of the run",
                    path, was ? "" : "out", is ? "one" : "none");
}

/* ---------------------------------------------------------------- tables */

/* The table that is trained with; its rows are encoded where they are wanted. */
static lks_status open_training(table_set **out, lki_config *config, lks_context *context,
                                const lki_csv_opts *opts, bool rows)
{
    const char *path = lki_config_text(config, LKI_KEY_DATA_TABLE);
    lki_table table = {0};
    table_set *set;
    *out = NULL;
    LKI_TRY(make_table_set(&set, context, path, NULL));
    lks_status status = lki_table_open(&table, context, path, opts);
    if (status == LKS_OK) {
        lki_encoding fitted = {0};
        status = lki_table_fit(&fitted, config, context, &table, mark_training);
        if (status == LKS_OK) status = lki_arena_string(&fitted.arena, &set->path, path);
        lki_encoding_release(&set->encoding);
        set->encoding = fitted;
    }
    if (status == LKS_OK && lki_encoding_has_sentences(&set->encoding))
        status = find_tokenizer(set, config, &table, opts);
    if (status == LKS_OK && rows) status = encode(set, &table, true);
    lki_table_close(&table);
    if (status == LKS_OK)
        *out = set;
    else
        close_set(set);
    return status;
}

/* Another table, with the training's encoding. */
static lks_status open_other(lks_dataset **out, table_set *base, const char *path,
                             const lki_csv_opts *opts, bool targets)
{
    lki_table table = {0};
    table_set *set;
    LKI_TRY(make_table_set(&set, base->context, path, base));
    lks_status status = lki_table_open(&table, base->context, path, opts);
    if (status == LKS_OK) status = encode(set, &table, targets);
    lki_table_close(&table);
    if (status == LKS_OK) return make_whole(out, set);
    close_set(set);
    return status;
}

lks_status lki_table_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                 bool test, const lks_dataset *training)
{
    const char *other = test ? lki_config_text(config, LKI_KEY_DATA_TEST_TABLE) : NULL;
    table_set *set = set_of(training);
    lki_csv_opts opts;
    lks_dataset *whole;
    *out = NULL;
    if (lki_config_has(config, LKI_KEY_DATA_TEST_TABLE) &&
        lki_config_has(config, LKI_KEY_DATA_TEST_FRACTION))
        return lki_config_fail(config, LKI_KEY_DATA_TEST_FRACTION,
                               "and data.test_table both say what to test with; drop one");
    LKI_TRY(lki_table_csv_opts(&opts, config));
    if (set != NULL)
        set->users++;
    else
        LKI_TRY(open_training(&set, config, context, &opts, other == NULL));
    if (other != NULL) {
        const lks_status status = open_other(out, set, other, &opts, true);
        close_set(set);
        return status;
    }
    LKI_TRY(make_whole(&whole, set));
    return lki_split_take(out, config, whole, test);
}

bool lki_table_source_has_test(const lki_config *config)
{
    return lki_config_has(config, LKI_KEY_DATA_TEST_TABLE) ||
           lki_config_has(config, LKI_KEY_DATA_TEST_FRACTION);
}

/* ---------------------------------------------------------------- beside checkpoints */

static const char *kept_path(lki_config *config, const char *folder)
{
    return lki_heap_format(&config->heap, "%s/%s", folder, LKI_KEPT_FILE);
}

/* Of a table or a series; NULL: it is neither. */
static const lki_encoding *columns_of(const lks_dataset *whole)
{
    const table_set *set = set_of(whole);
    return set != NULL ? encoding_of(set) : lki_series_encoding(whole);
}

lks_status lki_table_source_keep(const lks_dataset *whole, lki_config *config, const char *folder)
{
    const lki_encoding *columns = columns_of(whole);
    const char *path = kept_path(config, folder);
    if (path == NULL) return lki_heap_status(&config->heap, LKS_OK);
    return columns != NULL ? lki_encoding_write(columns, path) : LKS_OK;
}

lks_status lki_table_source_check(const lks_dataset *whole, lki_config *config, const char *folder)
{
    const lki_encoding *columns = columns_of(whole);
    const bool series = lki_config_has(config, LKI_KEY_DATA_SERIES);
    const char *path = kept_path(config, folder);
    lki_encoding kept;
    if (path == NULL) return lki_heap_status(&config->heap, LKS_OK);
    if (columns == NULL || access(path, F_OK) != 0) return LKS_OK;
    lks_status status = lki_encoding_read(&kept, columns->context, path);
    if (status == LKS_OK) status = same_kind(config, &kept, path);
    if (status == LKS_OK)
        status = lki_encoding_same(
            &kept, columns,
            lki_config_text(config, series ? LKI_KEY_DATA_SERIES : LKI_KEY_DATA_TABLE));
    lki_encoding_release(&kept);
    return status;
}

/* Which columns of a new table have texts, the training says. */
static lks_status texts_of(lki_csv_opts *opts, lki_config *config, const lki_encoding *e)
{
    const char **names = lki_heap_alloc(&config->heap, (size_t)e->inputs * sizeof *names + 1);
    if (names == NULL) return lki_heap_status(&config->heap, LKS_OK);
    opts->texts = names;
    opts->text_count = 0;
    opts->lenient = true;
    for (int i = 0; i < e->inputs; i++)
        if (e->input[i].text) names[opts->text_count++] = e->input[i].name;
    return LKS_OK;
}

lks_status lki_table_source_open_new(lks_dataset **out, lki_config *config, lks_context *context,
                                     const char *path)
{
    const char *folder = lki_config_text(config, LKI_KEY_CHECKPOINT_PATH);
    const char *kept = folder != NULL ? kept_path(config, folder) : NULL;
    lki_csv_opts opts;
    table_set *base;
    lks_status status;
    *out = NULL;
    if (kept != NULL && access(kept, F_OK) != 0) kept = NULL; /* a run from before there was one */
    if (lki_config_has(config, LKI_KEY_DATA_SERIES))
        return lki_series_source_open_new(out, config, context, path, kept);
    if (!lki_config_has(config, LKI_KEY_DATA_TABLE))
        return LKI_FAIL(LKS_E_INVALID,
                        "--table %.200s is for a training with a table (data.table) or a series "
                        "(data.series), but this data is another",
                        path);
    LKI_TRY(lki_table_csv_opts(&opts, config));
    if (kept != NULL) {
        LKI_TRY(make_table_set(&base, context, path, NULL));
        lki_encoding_release(&base->encoding);
        base->path = NULL; /* the encoding had it */
        status = lki_encoding_read(&base->encoding, context, kept);
        base->encoding.fill |= lki_table_fills(config); /* the means are there in any case */
        if (status == LKS_OK) status = same_kind(config, &base->encoding, kept);
        if (status == LKS_OK && lki_encoding_has_sentences(&base->encoding))
            status = find_kept(base, config, folder);
    } else {
        LKI_TRY(open_training(&base, config, context, &opts, false));
        base->encoding.tells = true;
        status = LKS_OK;
    }
    if (status == LKS_OK) status = texts_of(&opts, config, &base->encoding);
    if (status == LKS_OK) status = open_other(out, base, path, &opts, false);
    close_set(base);
    return status;
}
