#include "recipe/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"

const char *const lki_idx_names[LKI_IDX_FILES] = {
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
};

/* 60,000 images of 28x28, in 10 classes. */
#define LIKE_MNIST                                                                                 \
    {                                                                                              \
        .samples = 60000, .shape = {3, {28, 28, 1}}, .dtype = LKS_U8, .classes = 10                \
    }

static const lki_published_file mnist_files[LKI_IDX_FILES] = {
    {"train-images-idx3-ubyte", 9912422,
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte", 28881,
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte", 1648877,
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte", 4542,
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
};

/* As in TensorFlow Datasets, url_checksums/fashion_mnist.txt. */
static const lki_published_file fashion_files[LKI_IDX_FILES] = {
    {"train-images-idx3-ubyte", 26421880,
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", NULL},
    {"train-labels-idx1-ubyte", 29515,
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", NULL},
    {"t10k-images-idx3-ubyte", 4422102,
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", NULL},
    {"t10k-labels-idx1-ubyte", 5148,
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", NULL},
};

static const char *const fashion_classes[10] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};

const lki_published lki_published_table[] = {
    {.name = "digits", .info = LIKE_MNIST},
    {.name = "mnist",
     .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist",
                 "https://storage.googleapis.com/cvdf-datasets/mnist"},
     .file_count = LKI_IDX_FILES,
     .files = mnist_files,
     .info = LIKE_MNIST},
    {.name = "fashion_mnist",
     .alias = "fashion",
     .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
     .file_count = LKI_IDX_FILES,
     .files = fashion_files,
     .info = LIKE_MNIST,
     .classes = fashion_classes},
};
const int lki_published_count = sizeof lki_published_table / sizeof *lki_published_table;

const lki_published *lki_published_find(const char *name)
{
    for (int i = 0; i < lki_published_count; i++)
        if (strcmp(lki_published_table[i].name, name) == 0) return &lki_published_table[i];
    return NULL;
}

const lki_published *lki_published_find_word(const char *word)
{
    for (int i = 0; i < lki_published_count; i++) {
        const char *alias = lki_published_table[i].alias;
        if (alias != NULL && strcmp(alias, word) == 0) return &lki_published_table[i];
    }
    return lki_published_find(word);
}

bool lki_same_shape(const lks_shape *a, const lks_shape *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

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

/* "; 'lockstep data mnist' gets it" where that is so; else what else helps with that data set. */
static const char *what_helps(lki_config *config, const char *folder)
{
    const char *name = lki_config_text(config, LKI_KEY_DATA_NAME),
               *out = lki_config_text(config, LKI_KEY_DATA_PATH);
    const lki_published *known = lki_published_find(name);
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
                    "data set '%.60s' is not at %.200s: %s; expected a folder with its IDX files, "
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

static bool dataset_is_drawn(const lki_config *config)
{
    return lki_config_text(config, LKI_KEY_DATA_PATH) == NULL &&
           strcmp(lki_config_text(config, LKI_KEY_DATA_NAME), "digits") == 0;
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
    /* A label is a byte; a network may have more outputs. */
    const int64_t classes = lki_config_int(config, LKI_KEY_DATA_CLASSES);
    return classes < 256 ? classes : 256;
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
    return S_ISDIR(status.st_mode) ? LKS_OK : missing_folder(config, folder, ENOTDIR);
}

bool lki_source_has_test(lki_config *config)
{
    const char *folder;
    if (dataset_is_drawn(config) || published(config) != NULL) return true;
    /* A folder that is not there is for lki_source_open() to tell. */
    return find_folder(&folder, config) != LKS_OK || lks_dataset_folder_has(folder, true);
}

lks_status lki_source_open(lks_dataset **out, lki_config *config, lks_context *context, bool test)
{
    const char *folder;
    *out = NULL;
    if (dataset_is_drawn(config)) return open_digits(out, config, context, test);
    lks_status status = find_folder(&folder, config);
    if (status != LKS_OK) return status;
    status = lks_dataset_open_folder(out, context, folder, test, dataset_classes_of(config));
    return status == LKS_E_IO ? missing_files(config, folder) : status;
}
