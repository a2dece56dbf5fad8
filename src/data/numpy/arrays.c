/* Finding and opening arrays by the names that people give them. */
#include "data/numpy/arrays.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/check.h"
#include "data/numpy/zip.h"

/* Images and labels, by split; the first pair of which both are there is taken. Keras and scikit-learn,
 * MedMNIST, and what is common besides. Of validation and test, test is taken first. */
enum { PAIRS = 9 };
static const char *const pairs[2][PAIRS][2] = {
    {{"x_train.npy", "y_train.npy"},
     {"X_train.npy", "y_train.npy"},
     {"train_x.npy", "train_y.npy"},
     {"train_images.npy", "train_labels.npy"},
     {"train_data.npy", "train_labels.npy"},
     {"images.npy", "labels.npy"},
     {"x.npy", "y.npy"},
     {"X.npy", "y.npy"}},
    {{"x_test.npy", "y_test.npy"},
     {"X_test.npy", "y_test.npy"},
     {"test_x.npy", "test_y.npy"},
     {"test_images.npy", "test_labels.npy"},
     {"test_data.npy", "test_labels.npy"},
     {"x_val.npy", "y_val.npy"},
     {"X_val.npy", "y_val.npy"},
     {"val_x.npy", "val_y.npy"},
     {"val_images.npy", "val_labels.npy"}},
};

/* ---------------------------------------------------------------- one array */

static lks_status read_array(lki_array *out, const char *path, const char *member)
{
    const uint8_t *data = out->file.data;
    size_t bytes = out->file.bytes;
    if (member != NULL) {
        lki_zip zip;
        LKI_TRY(lki_zip_open(&zip, out->file.data, out->file.bytes, path));
        LKI_TRY(lki_zip_read(&zip, member, &data, &bytes, &out->inflated));
    }
    return lki_npy_read(&out->npy, data, bytes, out->name);
}

lks_status lki_array_open(lki_array *out, lks_context *context, const char *path,
                          const char *member)
{
    *out = (lki_array){.inflated.context = context};
    snprintf(out->name, sizeof out->name, "%s%s%s", path, member != NULL ? ": " : "",
             member != NULL ? member : "");
    LKI_TRY(lki_file_open(&out->file, context, path));
    return read_array(out, path, member);
}

void lki_array_close(lki_array *array)
{
    lki_file_close(&array->inflated);
    lki_file_close(&array->file);
}

/* ---------------------------------------------------------------- a split */

static bool has_file(const char *folder, const char *name)
{
    char path[LKI_NUMPY_NAME];
    struct stat about;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && stat(path, &about) == 0 &&
           S_ISREG(about.st_mode);
}

/* The first pair of which both are there, else the first of which one is. `zip` NULL: files in the folder. */
static bool find_pair(lki_numpy_place *out, const lki_zip *zip, bool test_split)
{
    int best = 0;
    for (int i = 0; i < PAIRS && pairs[test_split][i][0] != NULL; i++) {
        bool has[2];
        for (int k = 0; k < 2; k++) {
            const char *name = pairs[test_split][i][k];
            has[k] = zip != NULL ? lki_zip_has(zip, name) : has_file(out->path, name);
        }
        if (has[0] + has[1] <= best) continue;
        best = has[0] + has[1];
        memcpy(out->name, pairs[test_split][i], sizeof out->name);
        memcpy(out->has, has, sizeof has);
    }
    return best > 0;
}

/* In the archive at out->path. What cannot be read has something, which opening it then tells. */
static bool find_in_archive(lki_numpy_place *out, bool test_split)
{
    lki_file file;
    lki_zip zip;
    bool found = false;
    if (lki_file_open(&file, NULL, out->path) != LKS_OK) return false;
    if (lki_zip_is(file.data, file.bytes)) {
        out->archived = true;
        out->damaged = lki_zip_open(&zip, file.data, file.bytes, out->path) != LKS_OK;
        found = out->damaged || find_pair(out, &zip, test_split);
    }
    lki_file_close(&file);
    return found;
}

/* How many .npz files a folder has; out->path becomes that of the last one. */
static int find_archives(lki_numpy_place *out, const char *folder)
{
    int found = 0;
    DIR *opened = opendir(folder);
    for (const struct dirent *d; opened != NULL && (d = readdir(opened)) != NULL;) {
        const char *end = strrchr(d->d_name, '.');
        if (end == NULL || end == d->d_name || strcasecmp(end, ".npz") != 0) continue;
        const int length = snprintf(out->path, sizeof out->path, "%s/%s", folder, d->d_name);
        if (length > 0 && (size_t)length < sizeof out->path) found++;
    }
    if (opened != NULL) closedir(opened);
    return found;
}

bool lki_numpy_find(lki_numpy_place *out, const char *path, bool test_split)
{
    struct stat about;
    *out = (lki_numpy_place){.archives = 0};
    const int length = snprintf(out->path, sizeof out->path, "%s", path);
    if (length < 0 || (size_t)length >= sizeof out->path || stat(path, &about) != 0) return false;
    if (S_ISREG(about.st_mode)) return find_in_archive(out, test_split);
    if (find_pair(out, NULL, test_split)) return true;
    out->archives = find_archives(out, path);
    return out->archives > 1 || (out->archives == 1 && find_in_archive(out, test_split));
}

lks_status lki_numpy_open(lki_array *out, lks_context *context, const lki_numpy_place *place,
                          bool labels)
{
    char path[LKI_NUMPY_NAME];
    *out = (lki_array){.file.context = context};
    if (place->archives > 1)
        return LKI_FAIL(
            LKS_E_INVALID,
            "there are %d .npz files where '%s' is; give the one to be read by its path",
            place->archives, place->path);
    if (!place->damaged && !place->has[labels])
        return LKI_FAIL(LKS_E_IO, "'%s' has the array %s, but no %s; put that beside it",
                        place->path, place->name[!labels], place->name[labels]);
    if (place->archived) /* a damaged one has no names, and none is needed to say so */
        return lki_array_open(out, context, place->path, place->damaged ? "" : place->name[labels]);
    snprintf(path, sizeof path, "%s/%s", place->path, place->name[labels]);
    return lki_array_open(out, context, path, NULL);
}
