/* Finding and opening arrays by the names that people give them. */
#include "data/numpy/arrays.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/check.h"
#include "data/numpy/zip.h"

/* Samples, labels and lengths, by split; the first of which samples and labels are there is taken. Keras and scikit-learn,
 * MedMNIST, and what is common besides. Of validation and test, test is taken first. */
enum { SETS = 9 };
static const char *const sets[2][SETS][LKI_NUMPY_ARRAYS] = {
    {{"x_train.npy", "y_train.npy", "lengths_train.npy"},
     {"X_train.npy", "y_train.npy", "lengths_train.npy"},
     {"train_x.npy", "train_y.npy", "train_lengths.npy"},
     {"train_images.npy", "train_labels.npy", "train_lengths.npy"},
     {"train_data.npy", "train_labels.npy", "train_lengths.npy"},
     {"images.npy", "labels.npy", "lengths.npy"},
     {"x.npy", "y.npy", "lengths.npy"},
     {"X.npy", "y.npy", "lengths.npy"}},
    {{"x_test.npy", "y_test.npy", "lengths_test.npy"},
     {"X_test.npy", "y_test.npy", "lengths_test.npy"},
     {"test_x.npy", "test_y.npy", "test_lengths.npy"},
     {"test_images.npy", "test_labels.npy", "test_lengths.npy"},
     {"test_data.npy", "test_labels.npy", "test_lengths.npy"},
     {"x_val.npy", "y_val.npy", "lengths_val.npy"},
     {"X_val.npy", "y_val.npy", "lengths_val.npy"},
     {"val_x.npy", "val_y.npy", "val_lengths.npy"},
     {"val_images.npy", "val_labels.npy", "val_lengths.npy"}},
};

/* ---------------------------------------------------------------- one array */

static lks_status read_array(lki_array *out, const char *path, const char *member)
{
    const uint8_t *data = out->file.data;
    size_t bytes = out->file.bytes;
    if (member != NULL) {
        lki_zip zip;
        if (!lki_zip_is(data, bytes))
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s' %s, expected a zip archive of arrays; write it again, as by "
                            "np.savez()",
                            path, bytes == 0 ? "is empty" : "begins as no zip archive does");
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

/* The first set of which samples and labels are there, else the first of which one is. `zip` NULL: files in the folder. */
static bool find_set(lki_numpy_place *out, const lki_zip *zip, bool test_split)
{
    int best = 0;
    for (int i = 0; i < SETS && sets[test_split][i][0] != NULL; i++) {
        bool has[LKI_NUMPY_ARRAYS];
        for (int k = 0; k < LKI_NUMPY_ARRAYS; k++) {
            const char *name = sets[test_split][i][k];
            has[k] = zip != NULL ? lki_zip_has(zip, name) : has_file(out->path, name);
        }
        const int found = has[LKI_NUMPY_SAMPLES] + has[LKI_NUMPY_LABELS];
        if (found <= best) continue;
        best = found;
        memcpy(out->name, sets[test_split][i], sizeof out->name);
        memcpy(out->has, has, sizeof has);
    }
    return best > 0;
}

static bool is_named_npz(const char *name)
{
    const char *end = strrchr(name, '.');
    return end != NULL && end != name && strcasecmp(end, ".npz") == 0;
}

/* In the archive at out->path. What cannot be read has something, which opening it then tells; and so, if it was
 * `given`, has an archive without any array of either split. */
static bool find_in_archive(lki_numpy_place *out, bool test_split, bool given)
{
    lki_file file;
    lki_zip zip;
    bool found = false;
    if (lki_file_open(&file, NULL, out->path) != LKS_OK) return false;
    const bool named = given && is_named_npz(out->path);
    const bool zipped = lki_zip_is(file.data, file.bytes);
    if (named || zipped) {
        out->archived = true;
        out->damaged = !zipped || lki_zip_open(&zip, file.data, file.bytes, out->path) != LKS_OK;
        found = out->damaged || find_set(out, &zip, test_split);
        if (!found && named && !test_split) {
            lki_numpy_place tests;
            found = !find_set(&tests, &zip, true);
        }
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
        if (!is_named_npz(d->d_name)) continue;
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
    if (S_ISREG(about.st_mode)) return find_in_archive(out, test_split, true);
    if (find_set(out, NULL, test_split)) return true;
    out->archives = find_archives(out, path);
    return out->archives > 1 || (out->archives == 1 && find_in_archive(out, test_split, false));
}

/* Behind what is there, without ".npy"; what does not fit is left out. */
static size_t append_array(char *text, size_t room, size_t used, const char *before,
                           const char *name, size_t bytes)
{
    if (bytes > 4 && memcmp(name + bytes - 4, ".npy", 4) == 0) bytes -= 4;
    const int more = snprintf(text + used, room - used, "%s%.*s", before, (int)bytes, name);
    if (more > 0 && (size_t)more < room - used) return used + (size_t)more;
    text[used] = '\0';
    return used;
}

/* An archive with other arrays: which, and what they are to be called. */
static lks_status fail_names(lks_context *context, const char *path)
{
    enum { WIDTH = 40, ALL = 140 }; /* a sentence has 600 bytes */
    lki_file file;
    lki_zip zip;
    char found[ALL + 8] = "", expected[200] = "";
    const char *name;
    size_t used = 0, bytes;
    int64_t count = 0;
    LKI_TRY(lki_file_open(&file, context, path));
    const lks_status status = lki_zip_open(&zip, file.data, file.bytes, path);
    for (; status == LKS_OK && (name = lki_zip_member(&zip, count, &bytes)) != NULL; count++)
        if (bytes <= WIDTH)
            used = append_array(found, ALL, used, used == 0 ? " " : ", ", name, bytes);
    lki_file_close(&file);
    if (status != LKS_OK) return status;
    used = 0;
    for (int i = 0; sets[0][i][0] != NULL; i++)
        for (int k = 0; k < 2; k++)
            used = append_array(expected, sizeof expected, used,
                                k == 1   ? " and "
                                : i == 0 ? ""
                                         : ", ",
                                sets[0][i][k], strlen(sets[0][i][k]));
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%.150s' has %" PRId64 " array%s%s%s, none called as samples and labels "
                    "are; expected %s; save them by such names, as by np.savez(f, x_train=x, "
                    "y_train=y)",
                    path, count, LKI_S(count), found[0] != '\0' ? ":" : "", found, expected);
}

lks_status lki_numpy_open(lki_array *out, lks_context *context, const lki_numpy_place *place,
                          int which)
{
    const int other = which == LKI_NUMPY_SAMPLES ? LKI_NUMPY_LABELS : LKI_NUMPY_SAMPLES;
    char path[LKI_NUMPY_NAME];
    *out = (lki_array){.file.context = context};
    if (place->archives > 1)
        return LKI_FAIL(
            LKS_E_INVALID,
            "there are %d .npz files where '%s' is; give the one to be read by its path",
            place->archives, place->path);
    if (!place->damaged && place->name[0] == NULL) return fail_names(context, place->path);
    if (!place->damaged && !place->has[which])
        return LKI_FAIL(LKS_E_IO, "'%s' has the array %s, but no %s; put that beside it",
                        place->path, place->name[other], place->name[which]);
    if (place->archived) /* a damaged one has no names, and none is needed to say so */
        return lki_array_open(out, context, place->path, place->damaged ? "" : place->name[which]);
    snprintf(path, sizeof path, "%s/%s", place->path, place->name[which]);
    return lki_array_open(out, context, path, NULL);
}
