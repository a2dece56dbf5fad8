#include "dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* All of them: 60,000 images of 28x28, in 10 classes. */
const lks_dataset_info dataset_known_info = {
    .samples = 60000, .shape = {3, {28, 28, 1}}, .dtype = LKS_U8, .classes = 10};

const dataset_known dataset_table[] = {
    {"digits", NULL},
    {"mnist", "https://ossci-datasets.s3.amazonaws.com/mnist"},
    {"fashion_mnist", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
};
const int dataset_table_count = sizeof dataset_table / sizeof *dataset_table;

const dataset_known *dataset_find(const char *name)
{
    for (int i = 0; i < dataset_table_count; i++)
        if (strcmp(dataset_table[i].name, name) == 0) return &dataset_table[i];
    return NULL;
}

bool dataset_same_shape(const lks_shape *a, const lks_shape *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

const char *dataset_folder(cli_config *config)
{
    const char *name = config_text(config, KEY_DATA_NAME);
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data != NULL && data[0] == '/')
        return pool_format(&config->pool, "%s/lockstep/%s", data, name);
    if (home == NULL || home[0] == '\0') return NULL;
    return pool_format(&config->pool, "%s/.local/share/lockstep/%s", home, name);
}

static lks_status open_digits(lks_dataset **out, const cli_config *config, lks_context *context,
                              bool test)
{
    const config_key samples = test ? KEY_DATA_TEST_SAMPLES : KEY_DATA_SAMPLES;
    const lks_digits_opts opts = {
        .seed = (uint64_t)config_int(config, KEY_DATA_SEED),
        .samples = config_has(config, samples) ? config_int(config, samples) : 0,
        .test = test,
    };
    return lks_dataset_open_digits(out, context, &opts);
}

/* A folder that is not there: the first thing that a new user meets, so the sentence helps. */
static lks_status missing_folder(const cli_config *config, const char *folder, int error)
{
    const char *name = config_text(config, KEY_DATA_NAME);
    const dataset_known *known = dataset_find(name);
    char how[200] = "";
    if (known != NULL && known->source != NULL)
        snprintf(how, sizeof how, "; 'lockstep data %s' shows the commands that get it", name);
    return lks_fail(LKS_E_IO,
                    "data set '%.60s' is not at %.250s: %s; expected a folder with its four IDX "
                    "files, here or where --data DIR says%s",
                    name, folder, strerror(error), how);
}

lks_status dataset_open(lks_dataset **out, cli_config *config, lks_context *context, bool test)
{
    const char *folder = config_text(config, KEY_DATA_PATH);
    struct stat status;
    *out = NULL;
    if (strcmp(config_text(config, KEY_DATA_NAME), "digits") == 0 && folder == NULL)
        return open_digits(out, config, context, test);
    if (folder == NULL) folder = dataset_folder(config);
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID,
                        "data set '%.60s' has no folder: neither XDG_DATA_HOME nor HOME is set; "
                        "give --data DIR",
                        config_text(config, KEY_DATA_NAME));
    if (stat(folder, &status) != 0) return missing_folder(config, folder, errno);
    if (!S_ISDIR(status.st_mode)) return missing_folder(config, folder, ENOTDIR);
    return lks_dataset_open_mnist(out, context, folder, test);
}
