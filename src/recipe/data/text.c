#include "recipe/data/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/text/text_file.h"
#include "data/text/windows.h"
#include "numeric/hash.h"
#include "recipe/data/held.h"
#include "recipe/data/text_files.h"

/* ---------------------------------------------------------------- the vocabulary */

/* The texts that a vocabulary is made from: words and byte pairs are those of the training, or as Needle has them of training and
 * test; characters those of all. */
static int texts_of(const char *out[LKI_SPLITS], const char *const files[LKI_SPLITS],
                    const lks_vocabulary_opts *opts)
{
    int count = 0;
    for (int i = 0; i < LKI_SPLITS; i++) {
        const bool wanted = opts->level == LKS_LEVEL_CHAR || i == LKI_SPLIT_TRAIN ||
                            (i == LKI_SPLIT_TEST && opts->by_appearance);
        if (wanted && files[i] != NULL) out[count++] = files[i];
    }
    return count;
}

/* A vocabulary that was made before from the same texts in the same way, or NULL. */
static lks_tokenizer *find_made(lki_config *config, lks_context *context, const char *folder,
                                const char *begin)
{
    lks_tokenizer *tokenizer;
    char end[40];
    const char *path = lki_text_find(config, folder, begin, ".vocabulary");
    if (path == NULL || lks_tokenizer_open(&tokenizer, context, path) != LKS_OK) return NULL;
    snprintf(end, sizeof end, "-%016" PRIx64 ".vocabulary", lks_tokenizer_hash(tokenizer));
    if (lki_text_ends(path, end)) return tokenizer;
    lks_tokenizer_destroy(tokenizer);
    return NULL;
}

static lks_status build_from(lks_tokenizer **out, lki_config *config, lks_context *context,
                             const lks_vocabulary_opts *opts, lki_text_file *texts, int count)
{
    lki_passage passages[LKI_SPLITS];
    char begin[20];
    const char *folder = lki_vocabulary_is_counted(opts->level) ? lki_text_cache(config) : NULL;
    uint64_t hash = lki_hash_link((uint64_t)opts->level, opts->words, opts->by_appearance);
    for (int i = 0; i < count && folder != NULL; i++)
        hash = lki_hash_link(hash, (int64_t)texts[i].passage.bytes, lki_text_file_hash(&texts[i]));
    snprintf(begin, sizeof begin, "%016" PRIx64, hash);
    *out = folder != NULL ? find_made(config, context, folder, begin) : NULL;
    if (*out != NULL) return LKS_OK;
    for (int i = 0; i < count; i++) {
        LKI_TRY(lki_text_file_load(&texts[i]));
        passages[i] = texts[i].passage;
    }
    LKI_TRY(lki_tokenizer_build(out, context, opts, passages, count));
    if (folder == NULL || lki_folder_make(folder) != LKS_OK) return LKS_OK;
    const char *path = lki_heap_format(&config->heap, "%s/%s-%016" PRIx64 ".vocabulary", folder,
                                       begin, lks_tokenizer_hash(*out));
    const lks_status kept = lks_tokenizer_write(*out, path);
    (void)kept; /* else it is made again */
    return LKS_OK;
}

static lks_status build(lks_tokenizer **out, lki_config *config, lks_context *context,
                        const char *const files[LKI_SPLITS])
{
    const char *paths[LKI_SPLITS];
    lki_text_file text[LKI_SPLITS];
    lks_vocabulary_opts opts;
    lks_status status = LKS_OK;
    memset(text, 0, sizeof text);
    LKI_TRY(lki_vocabulary_opts(&opts, config));
    const int count = texts_of(paths, files, &opts);
    for (int i = 0; i < count && status == LKS_OK; i++)
        status = lki_text_file_open(&text[i], context, paths[i]);
    if (status == LKS_OK) status = build_from(out, config, context, &opts, text, count);
    for (int i = 0; i < LKI_SPLITS; i++) lki_text_file_close(&text[i]);
    return status;
}

/* ---------------------------------------------------------------- data sets */

static bool are_anywhere(const lki_config *config)
{
    return strcmp(lki_config_text(config, LKI_KEY_DATA_WINDOWS), "anywhere") == 0;
}

static int64_t int_or_none(const lki_config *config, lki_key key)
{
    return lki_config_has(config, key) ? lki_config_int(config, key) : 0;
}

lks_status lki_text_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                lki_split split)
{
    static const char *const names[LKI_SPLITS] = {"training", "validation", "test"};
    const char *files[LKI_SPLITS];
    lks_tokenizer *tokenizer;
    *out = NULL;
    LKI_TRY(lki_text_files(files, config));
    if (files[split] == NULL)
        return lki_config_fail(config, LKI_KEY_DATA_TEXT, "has no text for %s%s", names[split],
                               split == LKI_SPLIT_TEST ? "; give data.test_text: FILE" : "");
    if (are_anywhere(config) && lki_config_has(config, LKI_KEY_DATA_COLUMNS))
        return lki_config_fail(config, LKI_KEY_DATA_WINDOWS,
                               "is anywhere, but those of data.columns go on where the ones before "
                               "them end; drop one of both");
    LKI_TRY(lki_vocabulary_find(&tokenizer, config, context));
    if (tokenizer == NULL) LKI_TRY(build(&tokenizer, config, context, files));
    const lks_text_opts opts = {.tokenizer = tokenizer,
                                .context = lki_config_int(config, LKI_KEY_DATA_CONTEXT),
                                .stride = int_or_none(config, LKI_KEY_DATA_STRIDE),
                                .columns = int_or_none(config, LKI_KEY_DATA_COLUMNS),
                                .anywhere = split == LKI_SPLIT_TRAIN && are_anywhere(config),
                                .cache = lki_text_cache(config)};
    return lki_text_open(out, context, files[split], &opts, tokenizer);
}

bool lki_text_source_has(lki_config *config, lki_split split)
{
    const char *files[LKI_SPLITS];
    return lki_text_files(files, config) == LKS_OK && files[split] != NULL;
}

lks_status lki_text_source_cut(lki_parts *out, const lki_config *config, const lks_dataset *whole)
{
    const lki_key fraction = LKI_KEY_VALIDATION_FRACTION;
    const int64_t tokens = lks_dataset_tokens(whole, 0, 0, NULL);
    LKI_TRY(lki_held_at_end(config, "a text"));
    /* As nanoGPT's int(0.9 * n). */
    const int64_t train = (int64_t)((1 - lki_config_float(config, fraction)) * (double)tokens);
    lks_status status = lki_text_part(&out->slice[0], whole, 0, train, are_anywhere(config));
    if (status == LKS_OK)
        status = lki_text_part(&out->slice[1], whole, train, tokens - train, false);
    out->train = out->slice[0];
    out->valid = out->slice[1];
    return status;
}
