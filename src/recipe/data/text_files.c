#include "recipe/data/text_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "data/text/text_file.h"

static const char *const split_words[LKI_SPLITS] = {"train training", "valid val validation dev",
                                                    "test"};

/* Whether one of the words is the part of a name that has `bytes` bytes. */
static bool has_part(const char *words, const char *part, size_t bytes)
{
    for (const char *at = words; *at != '\0'; at += at[0] == ' ') {
        const size_t length = strcspn(at, " ");
        if (length == bytes && strncmp(at, part, bytes) == 0) return true;
        at += length;
    }
    return false;
}

/* "ptb.train.txt" is of the training: a part between '.', '_' and '-' says so. -1: of no split. */
static int split_of(const char *name)
{
    for (const char *at = name; *at != '\0'; at += *at != '\0') {
        const size_t bytes = strcspn(at, "._-");
        for (int i = 0; i < LKI_SPLITS; i++)
            if (has_part(split_words[i], at, bytes)) return i;
        at += bytes;
    }
    return -1;
}

typedef struct found {
    const char *split[LKI_SPLITS], *other; /* names in the folder; of no split */
    int texts, others;
    const char *twice; /* another one of a split that has one; NULL: there is none */
    int of;
} found;

static lks_status look_for_texts(found *out, lki_config *config, const char *folder)
{
    *out = (found){.texts = 0};
    DIR *open = opendir(folder);
    int error = 0;
    if (open == NULL) return lki_fail_io("open", folder, errno);
    for (const struct dirent *entry; (entry = lki_folder_next(open, &error)) != NULL;) {
        if (!lki_text_file_is(entry->d_name)) {
            out->others += entry->d_name[0] != '.';
            continue;
        }
        const char *name = lki_heap_format(&config->heap, "%s", entry->d_name);
        const int split = split_of(name);
        out->texts++;
        if (split < 0) out->other = name;
        if (split < 0) continue;
        if (out->split[split] != NULL) {
            out->twice = name;
            out->of = split;
        } else {
            out->split[split] = name;
        }
    }
    closedir(open);
    if (error != 0) return lki_fail_io("read the folder", folder, error);
    return lki_heap_status(&config->heap, LKS_OK);
}

/* All of its texts are one: none says which split it is of. */
static bool is_joined(const found *f)
{
    bool splits = false;
    for (int i = 0; i < LKI_SPLITS; i++) splits |= f->split[i] != NULL;
    return f->texts > 1 && !splits;
}

static lks_status files_of_folder(const char *out[LKI_SPLITS], lki_config *config,
                                  const char *folder)
{
    found f;
    LKI_TRY(look_for_texts(&f, config, folder));
    if (f.twice != NULL)
        return lki_config_fail(config, LKI_KEY_DATA_TEXT,
                               "is a folder with %.100s and %.100s; give the file itself", f.twice,
                               f.split[f.of]);
    if (f.texts == 1 && f.other != NULL) f.split[0] = f.other;
    if (is_joined(&f)) {
        out[LKI_SPLIT_TRAIN] = folder;
        return LKS_OK;
    }
    if (f.texts == 0)
        return lki_config_fail(config, LKI_KEY_DATA_TEXT,
                               "is a folder without a text; expected files that end in .txt, "
                               ".txt.gz or .tokens");
    if (f.split[0] == NULL)
        return lki_config_fail(config, LKI_KEY_DATA_TEXT,
                               "is a folder with %d text file%s (.txt), none of them called train; "
                               "give one of them, or call one so",
                               f.texts, LKI_S(f.texts));
    for (int i = 0; i < LKI_SPLITS; i++)
        if (f.split[i] != NULL && out[i] == NULL)
            out[i] = lki_heap_format(&config->heap, "%s/%s", folder, f.split[i]);
    return lki_heap_status(&config->heap, LKS_OK);
}

lks_status lki_text_files(const char *out[LKI_SPLITS], lki_config *config)
{
    const char *text = lki_config_text(config, LKI_KEY_DATA_TEXT);
    out[LKI_SPLIT_TRAIN] = NULL;
    out[LKI_SPLIT_VALID] = lki_config_text(config, LKI_KEY_DATA_VALID_TEXT);
    out[LKI_SPLIT_TEST] = lki_config_text(config, LKI_KEY_DATA_TEST_TEXT);
    if (lki_folder_is(text)) return files_of_folder(out, config, text);
    out[LKI_SPLIT_TRAIN] = text;
    return LKS_OK;
}

bool lki_text_source_is(lki_config *config, const char *path)
{
    found f;
    const char *slash = strrchr(path, '/');
    if (!lki_folder_is(path)) return lki_text_file_is(slash != NULL ? slash + 1 : path);
    if (look_for_texts(&f, config, path) != LKS_OK) return false;
    return f.split[0] != NULL || (f.others == 0 && (f.texts == 1 || is_joined(&f)));
}

const char *lki_text_cache(lki_config *config)
{
    const char *own = lki_config_text(config, LKI_KEY_DATA_CACHE);
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own != NULL) return strcmp(own, "none") == 0 ? NULL : own;
    if (cache != NULL && cache[0] == '/')
        return lki_heap_format(&config->heap, "%s/lockstep", cache);
    if (home == NULL || home[0] != '/') return NULL;
    return lki_heap_format(&config->heap, "%s/.cache/lockstep", home);
}

const char *lki_text_find(lki_config *config, const char *folder, const char *begin,
                          const char *end)
{
    const char *name = NULL;
    DIR *open = opendir(folder);
    if (open == NULL) return NULL;
    for (const struct dirent *entry; name == NULL && (entry = readdir(open)) != NULL;) {
        if (strncmp(entry->d_name, begin, strlen(begin)) != 0) continue;
        if (lki_text_ends(entry->d_name, end))
            name = lki_heap_format(&config->heap, "%s/%s", folder, entry->d_name);
    }
    closedir(open);
    return name;
}
