#include "data/pictures/layout.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/file.h"

enum { DEEPEST = 16 };

/* ---------------------------------------------------------------- folders */

/* Others are counted, not read: notes, tables, what systems leave behind. Those of formats that are not read are, so
 * that they are named as bad ones. */
static bool is_named_as_picture(const char *name)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".jpe",  ".jfif", ".png",
                                       ".gif", ".bmp",  ".webp", ".tif",  ".tiff",
                                       ".ppm", ".pgm",  ".heic", ".avif"};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end != NULL && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(end, ends[i]) == 0) return true;
    return false;
}

static lks_status join(char out[PATH_MAX], const char *folder, const char *name)
{
    const int length = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX ? LKS_OK : lki_fail_io("open", folder, ENAMETOOLONG);
}

static bool join_folder(char out[PATH_MAX], const char *folder, const char *name)
{
    const int length = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX && lki_folder_is(out);
}

typedef struct walk {
    lki_pictures *out;
    const char *class; /* NULL: in the folder of classes */
    bool test;
} walk;

static lks_status look_into(const walk *w, const char *folder, int depth);

static lks_status add_empty(lki_pictures *out, const char *path)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&out->arena, &memory, sizeof(lki_empty), "a folder without pictures"));
    lki_empty *added = memory, **at = &out->empty;
    LKI_TRY(lki_arena_string(&out->arena, &added->path, path));
    while (*at != NULL && strcmp((*at)->path, path) < 0) at = &(*at)->next;
    added->next = *at;
    *at = added;
    return LKS_OK;
}

/* Of a class, or within one. Test pictures are of the classes of the training, which may have more. */
static lks_status look_below(const walk *w, const char *path, const char *name, int depth)
{
    walk below = *w;
    const int64_t before = w->out->count;
    if (w->class == NULL) below.class = name;
    LKI_TRY(look_into(&below, path, depth + 1));
    if (w->class != NULL || w->test || w->out->count > before) return LKS_OK;
    return add_empty(w->out, path);
}

static lks_status look_at(const walk *w, const char *folder, const char *name, int depth)
{
    char path[PATH_MAX];
    LKI_TRY(join(path, folder, name));
    if (lki_folder_is(path)) return look_below(w, path, name, depth);
    if (!is_named_as_picture(name)) {
        w->out->others++;
        return LKS_OK;
    }
    if (w->class == NULL)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%.300s' lies beside the folders of classes, in none of them; move it into "
            "that of its class, or away",
            path);
    return lki_pictures_add(w->out, path, w->class, strlen(w->class), w->test);
}

static lks_status look_into(const walk *w, const char *folder, int depth)
{
    if (depth > DEEPEST)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%.300s' lies %d folders deep; is a link among them that leads back?",
                        folder, depth);
    DIR *opened = opendir(folder);
    if (opened == NULL) return lki_fail_io("read the folder", folder, errno);
    lks_status status = LKS_OK;
    int error = 0;
    for (const struct dirent *d; status == LKS_OK && (d = lki_folder_next(opened, &error)) != NULL;)
        if (d->d_name[0] != '.') status = look_at(w, folder, d->d_name, depth);
    if (error != 0) status = lki_fail_io("read the folder", folder, error);
    closedir(opened);
    return status;
}

/* A split: folders of classes, or tiny-imagenet's table beside its images. */
static lks_status find_pictures(lki_pictures *out, const char *folder, bool test)
{
    char table[PATH_MAX], images[PATH_MAX];
    struct stat about;
    LKI_TRY(join(table, folder, "val_annotations.txt"));
    if (test && stat(table, &about) == 0 && join_folder(images, folder, "images"))
        return lki_pictures_read_table(out, table, images, '\t', false, test);
    return look_into(&(walk){.out = out, .test = test}, folder, 0);
}

static lks_status find_folders(lki_pictures *out, const char *folder)
{
    static const char *const tests[] = {"val", "valid", "validation", "test"};
    char path[PATH_MAX];
    if (!join_folder(path, folder, "train")) {
        snprintf(out->what, sizeof out->what, "a folder for each class");
        return find_pictures(out, folder, false);
    }
    LKI_TRY(find_pictures(out, path, false));
    snprintf(out->what, sizeof out->what,
             "training pictures in train/, no folder of test pictures");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!join_folder(path, folder, tests[i])) continue;
        snprintf(out->what, sizeof out->what, "training pictures in train/, test pictures in %s/",
                 tests[i]);
        return find_pictures(out, path, true);
    }
    return LKS_OK;
}

/* ---------------------------------------------------------------- all of it */

static lks_status find_any(lki_pictures *out, const char *what, bool *sorted)
{
    struct stat about;
    char folder[PATH_MAX];
    if (stat(what, &about) != 0) return lki_fail_io("read", what, errno);
    *sorted = S_ISDIR(about.st_mode);
    if (*sorted) return find_folders(out, what);
    const char *slash = strrchr(what, '/');
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - what + 1),
             slash == NULL ? "." : what);
    snprintf(out->what, sizeof out->what, "files and classes by a table");
    return lki_pictures_read_table(out, what, folder, '\0', true, false);
}

static int pictures_by_path(const void *a, const void *b)
{
    return strcmp(((const lki_picture *)a)->path, ((const lki_picture *)b)->path);
}

lks_status lki_pictures_list(lki_pictures *out, const char *what)
{
    struct stat about;
    if (stat(what, &about) != 0) return lki_fail_io("read", what, errno);
    if (!S_ISDIR(about.st_mode)) return lki_pictures_add(out, what, "", 0, false);
    LKI_TRY(look_into(&(walk){.out = out, .class = ""}, what, 0));
    if (out->count == 0)
        return LKI_FAIL(LKS_E_FORMAT, "'%.300s' has no picture; expected .jpg, .jpeg or .png files",
                        what);
    qsort(out->picture, (size_t)out->count, sizeof *out->picture, pictures_by_path);
    return LKS_OK;
}

lks_status lki_pictures_find(lki_pictures *out, const char *what, double share, uint64_t seed)
{
    bool sorted;
    LKI_TRY(find_any(out, what, &sorted));
    if (out->split[0] == 0)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%.300s' has no pictures for training; expected a folder with a folder of "
            ".jpg, .jpeg or .png files for each class, or such ones in train/ and val/, "
            "or a CSV file with a file and a class in each row",
            what);
    if (share > 0 && out->split[1] > 0)
        return LKI_FAIL(
            LKS_E_INVALID,
            "'%.300s' has test pictures of its own, so none can be held back; leave out "
            "--split",
            what);
    return lki_pictures_settle(out, what, sorted, share, seed);
}
