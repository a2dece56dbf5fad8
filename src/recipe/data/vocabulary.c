/* The vocabulary of data that is text: what keys say of it, and where a run keeps it. */
#include "recipe/data/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

#include "base/check.h"
#include "data/text/tokenizer.h"

static lks_level level_of(const lki_config *config)
{
#define LEVEL_NAME(KIND, name) #name,
    static const char *const names[] = {LKS_LEVELS(LEVEL_NAME)};
#undef LEVEL_NAME
    const char *name = lki_config_text(config, LKI_KEY_DATA_LEVEL);
    int level = 0;
    while (strcmp(names[level], name) != 0) level++;
    return (lks_level)level;
}

bool lki_vocabulary_is_counted(lks_level level)
{
    return level == LKS_LEVEL_WORD || level == LKS_LEVEL_BPE;
}

lks_status lki_vocabulary_opts(lks_vocabulary_opts *out, const lki_config *config)
{
    const bool some = lki_config_has(config, LKI_KEY_DATA_WORDS);
    const char *order = lki_config_text(config, LKI_KEY_DATA_DICTIONARY); /* NULL: of a table */
    *out = (lks_vocabulary_opts){.level = level_of(config),
                                 .words = some ? lki_config_int(config, LKI_KEY_DATA_WORDS) : 0,
                                 .by_appearance = order != NULL &&
                                                  strcmp(order, "appearance") == 0};
    if (!some || lki_vocabulary_is_counted(out->level)) return LKS_OK;
    return lki_config_fail(config, LKI_KEY_DATA_WORDS, "is for data.level: word or bpe; drop it");
}

#define TOKENIZER_FILE(id) lki_##id##_tokenizer.file,

/* The file of the run in the folder of checkpoints, once it has one; or NULL. */
static const char *vocabulary_of_run(lki_config *config)
{
    const char *const names[] = {LKI_TOKENIZER_LIST(TOKENIZER_FILE)};
    const char *folder = lki_config_text(config, LKI_KEY_CHECKPOINT_PATH);
    int64_t newest;
    if (folder == NULL || lks_checkpoint_find(folder, &newest) != LKS_OK || newest < 0) return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = lki_heap_format(&config->heap, "%s/%s", folder, names[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

/* A level that is said, where the file has its own. The default stands in every configuration that a program has printed,
 * where it says nothing. */
static lks_status check_level(const lks_tokenizer *tokenizer, const lki_config *config,
                              const char *path)
{
    const char *level = lki_config_text(config, LKI_KEY_DATA_LEVEL);
    if (strcmp(level, lki_key_rows[LKI_KEY_DATA_LEVEL].fallback) == 0 ||
        strcmp(level, tokenizer->kind->name) == 0)
        return LKS_OK;
    return lki_config_fail(config, LKI_KEY_DATA_LEVEL,
                           "is %s, but %.300s is a vocabulary of data.level: %s; drop data.level, "
                           "which the file has, or give another file",
                           level, path, tokenizer->kind->name);
}

lks_status lki_vocabulary_find(lks_tokenizer **out, lki_config *config, lks_context *context)
{
    const char *path = lki_config_text(config, LKI_KEY_DATA_TOKENIZER);
    *out = NULL;
    if (path != NULL && lki_config_has(config, LKI_KEY_DATA_WORDS))
        return lki_config_fail(config, LKI_KEY_DATA_WORDS,
                               "and data.tokenizer both say which words there are; drop one");
    if (path == NULL) path = vocabulary_of_run(config);
    if (path == NULL) return LKS_OK;
    LKI_TRY(lks_tokenizer_open(out, context, path));
    const lks_status status = check_level(*out, config, path);
    if (status == LKS_OK) return LKS_OK;
    lks_tokenizer_destroy(*out);
    *out = NULL;
    return status;
}

lks_status lki_vocabulary_keep(const lks_dataset *data, const char *folder)
{
    char path[4200];
    const lks_tokenizer *tokenizer = lks_dataset_tokenizer(data);
    if (tokenizer == NULL) return LKS_OK;
    snprintf(path, sizeof path, "%.4000s/%s", folder, tokenizer->kind->file);
    return lks_tokenizer_write(tokenizer, path);
}
