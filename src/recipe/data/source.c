#include "recipe/data/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "data/dataset.h"
#include "data/dummy.h"
#include "recipe/data/published.h"
#include "recipe/data/series.h"
#include "recipe/data/shards.h"
#include "recipe/data/table.h"
#include "recipe/data/text.h"

const char *lki_source_folder(lki_config *config)
{
    const char *name = lki_config_text(config, LKI_KEY_DATA_NAME);
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data != NULL && data[0] == '/')
        return lki_heap_format(&config->heap, "%s/lockstep/%s", data, name);
    if (home == NULL || home[0] == '\0') return NULL;
    return lki_heap_format(&config->heap, "%s/.local/share/lockstep/%s", home, name);
}

static lks_status open_digits(lks_dataset **out, const lki_config *config, lks_context *context,
                              bool test)
{
    const lki_key samples = test ? LKI_KEY_DATA_TEST_SAMPLES : LKI_KEY_DATA_SAMPLES;
    const lks_digits_opts opts = {
        .seed = (uint64_t)lki_config_int(config, LKI_KEY_DATA_SEED),
        .samples = lki_config_has(config, samples) ? lki_config_int(config, samples) : 0,
        .test = test,
    };
    return lks_dataset_open_digits(out, context, &opts);
}

static lks_status shape_of(lks_shape *out, const lki_config *config, int most)
{
    const lki_setting *shape = &config->value[LKI_KEY_DATA_SHAPE];
    if (shape->count > most)
        return lki_config_fail(config, LKI_KEY_DATA_SHAPE, "has %d dimensions, expected at most %d",
                               shape->count, most);
    out->ndim = shape->count;
    for (int i = 0; i < shape->count; i++) out->dim[i] = shape->ints[i];
    return LKS_OK;
}

static lks_status open_checkerboard(lks_dataset **out, const lki_config *config,
                                    lks_context *context)
{
    enum { CLASSES = 3 };
    lks_shape shape = {0};
    LKI_TRY(shape_of(&shape, config, 3));
    if (shape.ndim != 3)
        return lki_config_fail(config, LKI_KEY_DATA_SHAPE,
                               "has %d dimensions, expected height, width and channels",
                               shape.ndim);
    const bool some = lki_config_has(config, LKI_KEY_DATA_SAMPLES),
               classes = lki_config_has(config, LKI_KEY_DATA_CLASSES);
    return lki_dataset_open_checkerboard(
        out, context, &shape, classes ? lki_config_int(config, LKI_KEY_DATA_CLASSES) : CLASSES,
        some ? lki_config_int(config, LKI_KEY_DATA_SAMPLES) : 1);
}

static lks_status open_dummy(lks_dataset **out, const lki_config *config, lks_context *context,
                             bool test)
{
    const lki_key samples = test ? LKI_KEY_DATA_TEST_SAMPLES : LKI_KEY_DATA_SAMPLES;
    lki_dummy_opts opts = {
        .seed = (uint64_t)lki_config_int(config, LKI_KEY_DATA_SEED),
        .samples = lki_config_has(config, samples) ? lki_config_int(config, samples) : 0,
        .test = test,
    };
    if (lki_config_has(config, LKI_KEY_DATA_CLASSES))
        opts.classes = lki_config_int(config, LKI_KEY_DATA_CLASSES);
    LKI_TRY(shape_of(&opts.shape, config, LKS_MAX_DIMS - 1));
    return lki_dataset_open_dummy(out, context, &opts);
}

/* "; 'lockstep data mnist' gets it" where that is so; else what else helps with that data set. */
static const char *what_helps(lki_config *config, const char *folder)
{
    const char *name = lki_config_text(config, LKI_KEY_DATA_NAME),
               *out = lki_config_text(config, LKI_KEY_DATA_PATH);
    const lki_published *known = lki_published_find(name), *word = lki_published_find_word(name);
    if (known == NULL && word != NULL)
        return lki_heap_format(&config->heap, "; data.name calls it %s", word->name);
    if (known != NULL && known->mirrors[0] != NULL)
        return lki_heap_format(&config->heap, "; 'lockstep data %s%s%.200s' gets it", name,
                               out != NULL ? " --out " : "", out != NULL ? out : "");
    if (known != NULL) return "; without data.path it is drawn";
    if (folder == NULL) return "";
    return lki_heap_format(&config->heap, "; 'lockstep data check %.200s' looks at it", folder);
}

static lks_status missing_folder(lki_config *config, const char *folder, int error)
{
    return LKI_FAIL(LKS_E_IO,
                    "data set '%.60s' is not at %.200s: %s; expected a folder with its files, "
                    "here or where --data DIR says%s",
                    lki_config_text(config, LKI_KEY_DATA_NAME), folder, strerror(error),
                    what_helps(config, NULL));
}

/* The library's sentence says what is missing. */
static lks_status missing_files(lki_config *config, const char *folder)
{
    const char *message = lki_heap_format(&config->heap, "data set '%.60s': %s",
                                          lki_config_text(config, LKI_KEY_DATA_NAME),
                                          lks_last_error()->message);
    const char *hint = what_helps(config, folder);
    const size_t room = sizeof lks_last_error()->message - 1 - strlen(hint);
    return LKI_FAIL(LKS_E_IO, "%.*s%s", (int)room, message, hint);
}

static bool is_checkerboard(const lki_config *config)
{
    return lki_config_text(config, LKI_KEY_DATA_PATH) == NULL &&
           strcmp(lki_config_text(config, LKI_KEY_DATA_NAME), "checkerboard") == 0;
}

static bool dataset_is_drawn(const lki_config *config)
{
    return lki_config_text(config, LKI_KEY_DATA_PATH) == NULL &&
           (strcmp(lki_config_text(config, LKI_KEY_DATA_NAME), "digits") == 0 ||
            strcmp(lki_config_text(config, LKI_KEY_DATA_NAME), "dummy") == 0);
}

/* Data sets that are published are known; of others the folder tells. */
static const lki_published *published(const lki_config *config)
{
    const lki_published *known = lki_published_find(lki_config_text(config, LKI_KEY_DATA_NAME));
    return known != NULL && known->files != NULL ? known : NULL;
}

/* 0: as many as the labels say. */
static int64_t dataset_classes_of(const lki_config *config)
{
    const lki_published *known = published(config);
    if (!lki_config_has(config, LKI_KEY_DATA_CLASSES))
        return known != NULL ? known->info.classes : 0;
    return lki_config_int(config, LKI_KEY_DATA_CLASSES);
}

static lks_status find_folder(const char **out, lki_config *config)
{
    const char *folder = lki_config_text(config, LKI_KEY_DATA_PATH);
    struct stat status;
    if (folder == NULL) folder = lki_source_folder(config);
    *out = folder;
    LKI_TRY(lki_heap_status(&config->heap, LKS_OK));
    if (folder == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%.60s' has no folder: neither XDG_DATA_HOME nor HOME is set; "
                        "give --data DIR",
                        lki_config_text(config, LKI_KEY_DATA_NAME));
    if (stat(folder, &status) != 0) return missing_folder(config, folder, errno);
    const bool archive = S_ISREG(status.st_mode) && (lks_dataset_folder_has(folder, false) ||
                                                     lks_dataset_folder_has(folder, true));
    return archive || S_ISDIR(status.st_mode) ? LKS_OK : missing_folder(config, folder, ENOTDIR);
}

bool lki_source_has_test(lki_config *config)
{
    const char *folder;
    if (lki_config_has(config, LKI_KEY_DATA_TABLE)) return lki_table_source_has_test(config);
    if (lki_config_has(config, LKI_KEY_DATA_SHARDS) || lki_config_has(config, LKI_KEY_DATA_SERIES))
        return lki_config_has(config, LKI_KEY_DATA_TEST_FRACTION);
    if (lki_config_has(config, LKI_KEY_DATA_TEXT))
        return lki_text_source_has(config, LKI_SPLIT_TEST);
    if (is_checkerboard(config)) return false;
    if (dataset_is_drawn(config) || published(config) != NULL) return true;
    /* A folder that is not there is for lki_source_open() to tell. */
    return find_folder(&folder, config) != LKS_OK || lks_dataset_folder_has(folder, true);
}

lks_status lki_source_open_valid(lks_dataset **out, lki_config *config, lks_context *context)
{
    *out = NULL;
    if (!lki_config_has(config, LKI_KEY_DATA_TEXT) || !lki_text_source_has(config, LKI_SPLIT_VALID))
        return LKS_OK;
    if (!lki_config_has(config, LKI_KEY_VALIDATION_FRACTION))
        return lki_text_source_open(out, config, context, LKI_SPLIT_VALID);
    if (lki_config_has(config, LKI_KEY_DATA_VALID_TEXT))
        return lki_config_fail(config, LKI_KEY_VALIDATION_FRACTION,
                               "and data.valid_text both say what to validate with; drop one");
    return LKS_OK; /* the folder's is not wanted */
}

lks_status lki_source_open(lks_dataset **out, lki_config *config, lks_context *context, bool test,
                           const lks_dataset *training, lks_comm *comm)
{
    const char *folder;
    *out = NULL;
    if (lki_config_has(config, LKI_KEY_DATA_TABLE))
        return lki_table_source_open(out, config, context, test, training);
    if (lki_config_has(config, LKI_KEY_DATA_SHARDS))
        return lki_shards_source_open(out, config, context, test, training, comm);
    if (lki_config_has(config, LKI_KEY_DATA_SERIES))
        return lki_series_source_open(out, config, context, test, training);
    if (lki_config_has(config, LKI_KEY_DATA_TEXT))
        return lki_text_source_open(out, config, context, test ? LKI_SPLIT_TEST : LKI_SPLIT_TRAIN);
    if (is_checkerboard(config)) return open_checkerboard(out, config, context);
    if (dataset_is_drawn(config)) {
        const bool digits = strcmp(lki_config_text(config, LKI_KEY_DATA_NAME), "digits") == 0;
        return (digits ? open_digits : open_dummy)(out, config, context, test);
    }
    lks_status status = find_folder(&folder, config);
    if (status != LKS_OK) return status;
    status = lks_dataset_open_folder(out, context, folder, test, dataset_classes_of(config));
    const lki_published *known = published(config);
    if (status == LKS_OK && known != NULL && known->classes != NULL &&
        lks_dataset_get_info(*out).classes == known->info.classes)
        lki_dataset_name_classes(*out, known->classes, known->info.classes);
    return status == LKS_E_IO ? missing_files(config, folder) : status;
}
