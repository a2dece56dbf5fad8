/*
 * lockstep data check: looks at every file of a folder, given or named by a configuration, says what
 * it is, what is wrong with it and what to do. Each finding is a line of the result; the first that
 * is wrong decides the exit code.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/data/digest.h"
#include "cli/out/text.h"

/* The files have numbers: images and labels of the training split, then of the test split. */
enum { FILES = LKI_IDX_FILES, NAME_WIDTH = 26, TEST_SPLIT = 2, ANY_CLASSES = 256 };

typedef struct entry {
    char *name, *path; /* NULL: not there */
    bool readable;     /* by itself it is right */
    lks_idx_info info;
    const lki_published *published; /* it is file `number` of this data set, or NULL */
    int number;
} entry;

typedef struct check {
    cli_pool *pool;
    lks_context *context;
    const char *folder;         /* where the files are */
    const lki_published *known; /* what they should be; NULL: anything */
    bool compares;              /* hashes can be computed */
    entry entry[FILES];
    int wrong;
    lks_status first; /* wrong thing */
} check;

/* ---------------------------------------------------------------- findings */

static void say_wrong(check *c, lks_status status, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void say_wrong(check *c, lks_status status, const char *name, const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (c->wrong++ == 0) c->first = status;
    say("%-*s  WRONG: %s", NAME_WIDTH, text_clean(c->pool, name), text);
}

static const char *shape_of(const entry *e)
{
    static char text[64];
    return data_shape_text(text, &e->info.shape);
}

static int data_check_largest(const entry *e)
{
    int most = 0;
    for (int v = 0; v < 256; v++)
        if (e->info.values[v] > 0) most = v;
    return most;
}

/* How many different labels or pixels there are. */
static int kinds_of(const entry *e)
{
    int kinds = 0;
    for (int v = 0; v < 256; v++) kinds += e->info.values[v] > 0;
    return kinds;
}

/* "60,000 images of 28x28, packed"; "200 labels from 0 to 9", and how many of these do not occur */
static const char *describe(const check *c, const entry *e, bool labels)
{
    char count[TEXT_NUMBER_SIZE];
    const char *packed = e->info.packed ? ", packed" : "", *gaps = "";
    lks_text_count(count, e->info.count);
    if (!labels)
        return pool_format(c->pool, "%s %s%s of %s%s", count,
                           e->info.shape.ndim == 1 ? "row" : "image", TEXT_S(e->info.count),
                           shape_of(e), packed);
    int least = 0;
    while (e->info.values[least] == 0) least++;
    const int most = data_check_largest(e), absent = most - least + 1 - kinds_of(e);
    if (absent > 0) gaps = pool_format(c->pool, ", %d of these without a sample", absent);
    return pool_format(c->pool, "%s label%s from %d to %d%s%s", count, TEXT_S(e->info.count), least,
                       most, gaps, packed);
}

/* ---------------------------------------------------------------- one file */

static void data_check_find(check *c, int i)
{
    entry *e = &c->entry[i];
    char path[PATH_MAX];
    for (int k = 0; lks_idx_find(path, sizeof path, c->folder, i >= TEST_SPLIT, i % 2 == 1, k);
         k++) {
        const char *name = strrchr(path, '/') + 1;
        if (e->path != NULL) {
            say("%-*s  not used: %s is read instead", NAME_WIDTH, text_clean(c->pool, name),
                e->name);
            continue;
        }
        e->name = pool_format(c->pool, "%s", name);
        e->path = pool_format(c->pool, "%s", path);
    }
}

/* What the file is among those that were published. */
static lks_status identify(entry *e)
{
    char found[DIGEST_SIZE];
    const lks_status status = digest_sha256(found, e->path);
    if (status != LKS_OK) return status;
    for (int i = 0; i < lki_published_count; i++) {
        const lki_published *known = &lki_published_table[i];
        for (int k = 0; k < known->file_count; k++) {
            const lki_published_file *file = &known->files[k];
            const char *expected = e->info.packed ? file->sha256 : file->sha256_plain;
            if (expected == NULL || strcmp(expected, found) != 0) continue;
            e->published = known;
            e->number = k;
        }
    }
    return LKS_OK;
}

static void data_check_look_at(check *c, int i)
{
    entry *e = &c->entry[i];
    const bool labels = i % 2 == 1;
    if (e->path == NULL) {
        say_wrong(c, LKS_E_IO, lki_idx_names[i],
                  "missing, packed (.gz) as well as unpacked; put it "
                  "there, without it the %s cannot be read",
                  i < TEST_SPLIT ? "training samples" : "test samples");
        return;
    }
    const lks_status status = lks_idx_check(&e->info, c->context, e->path,
                                            labels ? ANY_CLASSES : 0);
    if (status != LKS_OK) {
        say_wrong(c, status, e->name, "%s", lks_last_error()->message);
        return;
    }
    e->readable = true;
    if (kinds_of(e) == 1)
        say_wrong(c, LKS_E_FORMAT, e->name, "all its %s are the same; check how the file was made",
                  labels ? "labels" : "pixels");
    if (c->compares && identify(e) != LKS_OK) {
        c->compares = false;
        say_error("%s", lks_last_error()->message);
    }
}

/* ---------------------------------------------------------------- files together */

/* What most of the readable files are; NULL: nothing that was published. */
static const lki_published *majority(const check *c)
{
    const lki_published *best = NULL;
    int most = 0;
    for (int i = 0; i < FILES; i++) {
        int votes = 0;
        for (int k = 0; k < FILES; k++)
            votes += c->entry[i].published != NULL &&
                     c->entry[k].published == c->entry[i].published;
        if (votes > most) {
            most = votes;
            best = c->entry[i].published;
        }
    }
    return best;
}

static void say_found(check *c, int i)
{
    const entry *e = &c->entry[i];
    const char *what = describe(c, e, i % 2 == 1);
    if (e->published != NULL && (e->number != i || (c->known != NULL && e->published != c->known)))
        say_wrong(c, LKS_E_MISMATCH, e->name,
                  "it is %s of %s, expected %s%s%s; exchange it for the right file",
                  lki_idx_names[e->number], e->published->name, lki_idx_names[i],
                  c->known != NULL ? " of " : "", c->known != NULL ? c->known->name : "");
    else if (e->published != NULL)
        say("%-*s  %s; as published for %s", NAME_WIDTH, e->name, what, e->published->name);
    else if (!c->compares || c->known == NULL)
        say("%-*s  %s", NAME_WIDTH, e->name, what);
    else if (!e->info.packed && c->known->files[i].sha256_plain == NULL)
        say("%-*s  %s; only the packed file can be compared", NAME_WIDTH, e->name, what);
    else
        say_wrong(
            c, LKS_E_MISMATCH, e->name,
            "%s, but not the file that was published for %s: changed, damaged or packed again; "
            "remove it and run 'lockstep data %s --out %.200s'",
            what, c->known->name, c->known->name, c->folder);
}

static void compare_pairs(check *c)
{
    entry *e = c->entry;
    for (int i = 0; i < FILES; i += 2)
        if (e[i].readable && e[i + 1].readable && e[i].info.count != e[i + 1].info.count)
            say_wrong(
                c, LKS_E_FORMAT, e[i].name,
                "it has %lld image%s, but %s has %lld label%s; are they of the same data set?",
                (long long)e[i].info.count, TEXT_S(e[i].info.count), e[i + 1].name,
                (long long)e[i + 1].info.count, TEXT_S(e[i + 1].info.count));
    if (e[1].readable && e[TEST_SPLIT + 1].readable &&
        data_check_largest(&e[TEST_SPLIT + 1]) > data_check_largest(&e[1]))
        say_wrong(
            c, LKS_E_FORMAT, e[TEST_SPLIT + 1].name,
            "its labels go up to %d, but those of %s only up to %d; are they of the same data "
            "set? Then set data.classes",
            data_check_largest(&e[TEST_SPLIT + 1]), e[1].name, data_check_largest(&e[1]));
    if (!e[0].readable || !e[TEST_SPLIT].readable ||
        lks_shape_equal(&e[0].info.shape, &e[TEST_SPLIT].info.shape))
        return;
    const char *training = pool_format(c->pool, "%s", shape_of(&e[0]));
    say_wrong(c, LKS_E_FORMAT, e[TEST_SPLIT].name,
              "its images are %s, but those of %s are %s; are they of the same data set?",
              shape_of(&e[TEST_SPLIT]), e[0].name, training);
}

/* What downloads leave when they end early. */
static void say_parts(const check *c)
{
    for (int i = 0; i < FILES; i++) {
        char *name = pool_format(c->pool, "%s.gz.part", lki_idx_names[i]);
        if (access(pool_format(c->pool, "%s/%s", c->folder, name), F_OK) == 0)
            say("%-*s  an unfinished download; start it again, or remove it", NAME_WIDTH, name);
    }
}

/* ---------------------------------------------------------------- the folder */

static const char *const pictures[] = {".png",  ".jpg",  ".jpeg", ".bmp", ".gif", ".tif",
                                       ".tiff", ".webp", ".ppm",  ".pgm", NULL};
static const char *const tables[] = {".csv", ".tsv", ".npy", ".npz", ".xlsx", ".parquet", NULL};

/* Whether such files are in a folder, or in one below it, as in a folder for each class. */
static bool has_files(const check *c, const char *const *ends, const char *folder, bool below)
{
    bool found = false;
    DIR *opened = opendir(folder);
    for (const struct dirent *d; opened != NULL && !found && (d = readdir(opened)) != NULL;)
        found = text_has_end(ends, d->d_name) ||
                (below && d->d_name[0] != '.' &&
                 has_files(c, ends, pool_format(c->pool, "%s/%s", folder, d->d_name), false));
    if (opened != NULL) closedir(opened);
    return found;
}

static const char *what_to_do(const check *c, const char *folder)
{
    if (has_files(c, pictures, folder, true))
        return pool_format(c->pool,
                           "; it has pictures: 'lockstep data pack %.200s --size 64' packs "
                           "them to train on",
                           folder);
    if (has_files(c, tables, folder, true))
        return "; it has tables, which are to be NumPy's x_train.npy and y_train.npy, or given by "
               "a program: docs/program.md, Data";
    return "";
}

/* The folder itself, or where torchvision puts the files below it. */
static lks_status find_files(check *c, const char *folder)
{
    DIR *opened = opendir(folder);
    if (opened == NULL)
        return lks_fail(LKS_E_IO,
                        "%.300s cannot be read: %s; expected a folder with the files of a data "
                        "set",
                        folder, strerror(errno));
    closedir(opened);
    const char *place;
    for (int k = 0; (place = lks_idx_place(k)) != NULL; k++) {
        c->folder = pool_format(c->pool, "%s%s", folder, place);
        bool any = false;
        for (int i = 0; i < FILES; i++) {
            data_check_find(c, i);
            any |= c->entry[i].path != NULL;
        }
        if (any) return LKS_OK;
    }
    return lks_fail(LKS_E_IO,
                    "%.300s is no data set: it has none of the files %s[.gz], %s, %s, %s, nor are "
                    "they where torchvision puts them below it%s",
                    folder, lki_idx_names[0], lki_idx_names[1], lki_idx_names[2], lki_idx_names[3],
                    what_to_do(c, folder));
}

static lks_status check_folder(check *c, const char *folder)
{
    const lks_status status = find_files(c, folder);
    if (status == LKS_E_IO &&
        (lks_dataset_folder_has(folder, false) || lks_dataset_folder_has(folder, true)))
        return data_check_samples(c->pool, c->context, folder);
    if (status != LKS_OK) return status;
    if (c->known != NULL && c->known->file_count != FILES)
        return lks_fail(
            LKS_E_MISMATCH,
            "%.300s has IDX files, but %s is published as %s.gz; give a folder of its own",
            c->folder, c->known->name, c->known->files[0].name);
    const bool has_test = c->known != NULL || c->entry[TEST_SPLIT].path != NULL ||
                          c->entry[TEST_SPLIT + 1].path != NULL;
    for (int i = 0; i < (has_test ? FILES : TEST_SPLIT); i++) data_check_look_at(c, i);
    if (!has_test) data_say_no_test();
    if (c->known == NULL) c->known = majority(c);
    for (int i = 0; i < FILES; i++)
        if (c->entry[i].readable) say_found(c, i);
    compare_pairs(c);
    say_parts(c);
    if (c->wrong == 0) {
        say("%s: nothing is wrong", c->folder);
        return LKS_OK;
    }
    return lks_fail(c->first, "%d thing%s in %.300s %s wrong, as said above", c->wrong,
                    TEXT_S(c->wrong), c->folder, c->wrong == 1 ? "is" : "are");
}

static lks_status no_folder(const char *name)
{
    return lks_fail(LKS_E_INVALID,
                    "%s has no folder: neither XDG_DATA_HOME nor HOME is set; give the folder "
                    "instead",
                    name);
}

/* What a configuration names, opened: files of images, or what is drawn. */
static lks_status check_named(const cli_args *cli, const data_source *source, const char *what)
{
    const lki_published *known = source->known;
    const char *folder = lks_recipe_folder(source->recipe);
    if (known != NULL && known->files == NULL) {
        say("%s: its data, %s, is drawn by the program, there is nothing to check",
            text_clean(cli->pool, what), known->name);
        return LKS_OK;
    }
    if (folder == NULL) return no_folder(lks_recipe_text(source->recipe, "data.name"));
    check c = {.pool = cli->pool, .context = source->context, .known = known, .compares = true};
    return check_folder(&c, folder);
}

/* False: it is no configuration. */
static bool check_configuration(lks_status *status, const cli_args *cli, const char *what)
{
    data_source source;
    const bool configured = data_configure(&source, cli, what) == LKS_OK && source.configured;
    if (configured) *status = check_named(cli, &source, what);
    data_close(&source);
    return configured;
}

lks_status data_check(const cli_args *cli, const char *what)
{
    lks_recipe *recipe;
    lks_status found;
    const lki_published *known = lki_published_find_word(what);
    const char *folder = what;
    if (known == NULL &&
        (data_text_check(&found, cli, what) || data_rows_check(&found, cli, what) ||
         check_configuration(&found, cli, what)))
        return found;
    if (known != NULL && known->files == NULL)
        return lks_fail(
            LKS_E_INVALID,
            "%s are drawn by the program, there is nothing to check; give a folder (./%s "
            "for one of that name)",
            what, what);
    lks_status status = cli_configure(&recipe, cli, NULL);
    if (status == LKS_OK && known != NULL) {
        status = lks_recipe_option(recipe, "data.name", known->name, "data");
        folder = status == LKS_OK ? lks_recipe_folder(recipe) : NULL;
        if (status == LKS_OK && folder == NULL) status = no_folder(what);
    }
    lks_context *context = NULL;
    if (status == LKS_OK) status = lks_context_create(&context, &say_logged);
    if (status == LKS_OK) {
        check c = {.pool = cli->pool, .context = context, .known = known, .compares = true};
        status = check_folder(&c, folder);
    }
    lks_context_destroy(context);
    lks_recipe_close(recipe);
    return status;
}
