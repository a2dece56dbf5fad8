/*
 * Windows over the tokens of a text:
 *
 *   tokens   0 1 2 3 4 5 6 7 8 9           context 4, stride 3
 *   sample 0 [x x x x]                      targets 1 2 3 4
 *   sample 1       [x x x x]                        4 5 6 7
 *   sample 2             [x x x 0]                  7 8 9 none
 *
 * In columns each has windows of its own, and sample t * columns + c is window t of column c: a batch of as many samples
 * is the same window of all of them, and the next batch goes on where it ends. What nobody has a whole column of is
 * left out:
 *
 *   tokens   0 1 2 3 4 5 6 7 8 9           columns 3, context 2
 *   columns  0 1 2 | 3 4 5 | 6 7 8         samples 0 1, 3 4, 6 7
 *
 * With windows anywhere there are as many samples, and each begins in each epoch at a place that is drawn, where a whole window
 * and its last target stand: docs/numerics.md, "The order of samples".
 */
#include "data/text/windows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "data/dataset.h"
#include "data/text/tokens.h"
#include "numeric/hash.h"
#include "numeric/random.h"

enum { USUAL_CONTEXT = 128 };

typedef struct text_set {
    lks_context *memory;
    const lks_tokenizer *tokenizer;
    lks_tokenizer *owned; /* the same, or NULL */
    lki_tokens own;       /* zeroed in a part */
    const lki_tokens *tokens;
    int64_t first, count; /* of the tokens */
    int64_t context, stride;
    int64_t columns, length; /* 1: none; tokens of a column */
    bool anywhere;
    uint64_t key; /* of the places that are drawn */
} text_set;

/* The first token of a window. */
static int64_t first_at(const text_set *set, int64_t index)
{
    return set->first + index % set->columns * set->length + index / set->columns * set->stride;
}

/* Targets of a window that there are. */
static int64_t counted_at(const text_set *set, int64_t index)
{
    const int64_t left = set->length - 1 - index / set->columns * set->stride;
    return left < set->context ? left : set->context;
}

static void read_targets(const text_set *set, int64_t first, int64_t there, void *x, void *y)
{
    const int32_t none = LKS_NO_CLASS;
    lki_tokens_read(set->tokens, first, there, x);
    lki_tokens_read(set->tokens, first + 1, there, y);
    for (int64_t i = there; i < set->context; i++) {
        memset((int32_t *)x + i, 0, sizeof(int32_t));
        memcpy((int32_t *)y + i, &none, sizeof none);
    }
}

static lks_status read_window(void *user, int64_t index, void *x, void *y)
{
    const text_set *set = user;
    read_targets(set, first_at(set, index), counted_at(set, index), x, y);
    return LKS_OK;
}

/* As it is, a sample is a window one behind the other, of which the last ends with the text. */
static lks_status read_anywhere(void *user, int64_t epoch, int64_t index, void *x, void *y)
{
    const text_set *set = user;
    const int64_t places = set->count - set->context;
    int64_t at = index * set->stride < places ? index * set->stride : places - 1;
    if (epoch != LKI_NO_EPOCH) {
        const uint64_t sample = (uint64_t)index;
        const uint32_t counter[4] = {(uint32_t)epoch, (uint32_t)sample, (uint32_t)(sample >> 32),
                                     0};
        uint32_t word[4];
        lki_philox(set->key, counter, word);
        at = lki_random_below(word, places);
    }
    read_targets(set, set->first + at, set->context, x, y);
    return LKS_OK;
}

static int64_t counted_in_window(void *user, int64_t index)
{
    return counted_at(user, index);
}

static void close_text(void *user)
{
    text_set *set = user;
    lki_tokens_close(&set->own);
    lks_tokenizer_destroy(set->owned);
    lki_free(set->memory, set, sizeof *set);
}

/* Takes `set` over, but not when it fails. */
static lks_status make_windows(lks_dataset **out, text_set *set, const char *name)
{
    set->length = set->count / set->columns;
    if (set->columns > 1 && set->length <= set->context)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s' has %" PRId64 " token%s, which are %" PRId64 " for each of %" PRId64
                        " columns, but a window of context %" PRId64
                        " and its last target take %" PRId64 "; choose fewer columns, or a smaller "
                        "context",
                        name, set->count, LKI_S(set->count), set->length, set->columns,
                        set->context, set->context + 1);
    if (set->count <= set->context) {
        char advice[80] = "give a longer text";
        if (set->count > 1)
            snprintf(advice, sizeof advice, "choose a context of at most %" PRId64, set->count - 1);
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s' has %" PRId64 " token%s, but a window of context %" PRId64
                        " and its last target take %" PRId64 "; %s",
                        name, set->count, LKI_S(set->count), set->context, set->context + 1,
                        advice);
    }
    const int64_t behind = set->length - 1 - set->context; /* the first window */
    int64_t last = behind / set->stride + (behind % set->stride != 0);
    if (last * set->stride > set->length - 2) last--; /* it would begin with the last token */
    const lks_dataset_ops ops = {
        .info = {.samples = (last + 1) * set->columns,
                 .shape = {1, {set->context}},
                 .dtype = LKS_I32,
                 .vocabulary = set->tokenizer->size,
                 .classes = set->tokenizer->size,
                 .target_shape = {1, {set->context}},
                 .columns = set->stride == set->context && !set->anywhere ? set->columns : 0},
        .read = set->anywhere ? NULL : read_window,
        .read_epoch = set->anywhere ? read_anywhere : NULL,
        .close = close_text,
        .counted = set->anywhere ? NULL : counted_in_window};
    const uint64_t place = lki_hash_link(set->tokenizer->hash, set->first, (uint64_t)set->count);
    LKI_TRY(lks_dataset_create(out, set->memory, name, &ops, set));
    (*out)->tokenizer = set->tokenizer;
    const uint64_t columns = set->columns > 1 ? (uint64_t)set->columns
                                              : 0; /* as it was before them */
    (*out)->content = lki_hash_link(lki_hash_link(place, set->stride, set->tokens->hash),
                                    set->anywhere, columns + 1);
    return LKS_OK;
}

static lks_status check_opts(const lks_text_opts *opts)
{
    if (opts->tokenizer == NULL)
        return LKI_FAIL(LKS_E_INVALID, "a text: opts.tokenizer is NULL, expected a tokenizer");
    if (opts->context < 0 || opts->context > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID,
                        "a text: opts.context is %" PRId64 ", expected 1 to %" PRId32
                        ", or 0 for %d",
                        opts->context, INT32_MAX, USUAL_CONTEXT);
    if (opts->stride < 0 || opts->stride > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID,
                        "a text: opts.stride is %" PRId64 ", expected 1 to %" PRId32
                        ", or 0 for the context",
                        opts->stride, INT32_MAX);
    if (opts->columns < 0 || opts->columns > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID,
                        "a text: opts.columns is %" PRId64 ", expected 1 to %" PRId32
                        ", or 0 for none",
                        opts->columns, INT32_MAX);
    if (opts->columns > 0 && opts->anywhere)
        return LKI_FAIL(LKS_E_INVALID, "a text: opts.anywhere is set, but windows of opts.columns "
                                       "go on where those before them end; "
                                       "leave one of both out");
    return LKS_OK;
}

static lks_status fill(lks_dataset **out, text_set *set, const char *path,
                       const lks_text_opts *opts)
{
    const lki_tokens_opts tokens = {.folder = opts->cache, .threads = opts->threads};
    set->context = opts->context > 0 ? opts->context : USUAL_CONTEXT;
    set->stride = opts->stride > 0 ? opts->stride : set->context;
    set->columns = opts->columns > 0 ? opts->columns : 1;
    set->anywhere = opts->anywhere;
    set->key = lki_random_key(lks_context_seed(set->memory), "windows", "");
    LKI_TRY(lki_tokens_open(&set->own, set->tokenizer, path, &tokens));
    set->tokens = &set->own;
    set->count = set->own.count;
    return make_windows(out, set, path);
}

lks_status lki_text_open(lks_dataset **out, lks_context *context, const char *path,
                         const lks_text_opts *opts, lks_tokenizer *owned)
{
    void *memory;
    *out = NULL;
    lks_status status = lki_alloc(context, &memory, sizeof(text_set), "a data set of a text");
    if (status != LKS_OK) {
        lks_tokenizer_destroy(owned);
        return status;
    }
    text_set *set = memory;
    *set = (text_set){
        .memory = context, .tokenizer = opts->tokenizer, .owned = owned, .own.context = context};
    status = fill(out, set, path, opts);
    if (status != LKS_OK) close_text(set);
    return status;
}

lks_status lks_dataset_open_text(lks_dataset **out, lks_context *context, const char *path,
                                 const lks_text_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (path == NULL) return LKI_FAIL_NULL(path);
    if (opts == NULL) return LKI_FAIL_NULL(opts);
    LKI_TRY(check_opts(opts));
    return lki_text_open(out, context, path, opts, NULL);
}

const lks_tokenizer *lks_dataset_tokenizer(const lks_dataset *dataset)
{
    return dataset != NULL ? dataset->tokenizer : NULL;
}

int64_t lks_dataset_tokens(const lks_dataset *dataset, int64_t first, int64_t count, int32_t *out)
{
    if (lks_dataset_tokenizer(dataset) == NULL || dataset->x != NULL) return 0; /* of a table */
    const text_set *set = dataset->user;
    const int64_t left = first >= 0 && first < set->count ? set->count - first : 0;
    if (out != NULL && count > 0)
        lki_tokens_read(set->tokens, set->first + first, count < left ? count : left, out);
    return set->count;
}

lks_status lki_text_part(lks_dataset **out, const lks_dataset *whole, int64_t first, int64_t count,
                         bool anywhere)
{
    const text_set *from = whole->user;
    char name[sizeof whole->name];
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(from->memory, &memory, sizeof(text_set), "a part of a text"));
    text_set *set = memory;
    *set = *from;
    set->owned = NULL;
    set->own = (lki_tokens){.context = from->memory};
    set->first = from->first + first;
    set->count = count;
    set->anywhere = anywhere;
    snprintf(name, sizeof name, "%.200s[tokens %" PRId64 ":%" PRId64 "]", whole->name, first,
             first + count);
    const lks_status status = make_windows(out, set, name);
    if (status != LKS_OK) close_text(set);
    return status;
}
