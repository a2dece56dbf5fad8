/* lockstep data check: folders in other formats than IDX. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/data/digest.h"
#include "cli/out/text.h"

/* The archive in a folder, or the folder itself where it is one; NULL: it is not there. */
static const char *archive_path(cli_pool *pool, const char *folder, const lki_published_file *file)
{
    const char *name = pool_format(pool, "%s.gz", file->name), *slash = strrchr(folder, '/');
    if (strcmp(slash != NULL ? slash + 1 : folder, name) == 0) return folder;
    const char *path = pool_format(pool, "%s/%s", folder, name);
    return access(path, F_OK) == 0 ? path : NULL;
}

static const char *folder_of(cli_pool *pool, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return ".";
    return slash == path ? "/" : pool_copy(pool, path, (size_t)(slash - path));
}

static lks_status fail_changed(cli_pool *pool, const char *path, const lki_published *known,
                               const lki_published_file *file)
{
    struct stat about = {0};
    const bool all = stat(path, &about) == 0 && about.st_size == file->bytes;
    const char *what = all ? "as many bytes, but others: it is changed or damaged"
                           : pool_format(
                                 pool,
                                 "%lld bytes, expected %lld: it is truncated, or packed again",
                                 (long long)about.st_size, (long long)file->bytes);
    const char *to_do = file == known->pickled
                            ? "copy or download it again"
                            : pool_format(pool, "remove it and run 'lockstep data %s --out %s'",
                                          known->name, folder_of(pool, path));
    return lks_fail(LKS_E_MISMATCH,
                    "%.300s is not the file that was published for %s, it has %s; %.300s", path,
                    known->name, what, to_do);
}

/* An archive as it is published: what it is said to be, or what its name says. */
static lks_status check_archive(cli_pool *pool, const char *folder, const lki_published *known,
                                const lki_published_file *file)
{
    char found[DIGEST_SIZE];
    const char *path = file != NULL ? archive_path(pool, folder, file) : NULL;
    if (path == NULL) return LKS_OK;
    const lks_status status = digest_sha256(found, path);
    if (status == LKS_E_UNSUPPORTED) {
        say_error("%s", lks_last_error()->message);
        return LKS_OK;
    }
    if (status != LKS_OK) return status;
    if (strcmp(found, file->sha256) == 0) {
        say("%s.gz  as published for %s", file->name, known->name);
        return LKS_OK;
    }
    return fail_changed(pool, path, known, file);
}

/* All that are there. */
static lks_status check_archives(cli_pool *pool, const char *folder)
{
    lks_status status = LKS_OK;
    for (int i = 0; i < lki_published_count && status == LKS_OK; i++) {
        const lki_published *known = &lki_published_table[i];
        if (known->file_count == 1) status = check_archive(pool, folder, known, known->files);
        if (status == LKS_OK) status = check_archive(pool, folder, known, known->pickled);
    }
    return status;
}

/* Floats may be what nothing can be computed with. */
static lks_status check_finite(lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const int64_t elements = lks_shape_elements(&info.shape);
    const int64_t targets = lks_shape_elements(&info.target_shape);
    lks_status status = LKS_OK;
    if (info.dtype != LKS_F32) return LKS_OK;
    float *x = malloc((size_t)(elements + targets) * sizeof *x); /* labels are as large as floats */
    if (x == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for a sample");
    for (int64_t i = 0; i < info.samples && status == LKS_OK; i++) {
        status = lks_dataset_read(data, i, x, x + elements);
        for (int64_t k = 0; k < elements && status == LKS_OK; k++)
            if (!isfinite(x[k]))
                status = lks_fail(LKS_E_FORMAT,
                                  "sample %lld of %.300s has the value %f at its element %lld, "
                                  "expected finite numbers; a training would stop there",
                                  (long long)i, lks_dataset_name(data), (double)x[k], (long long)k);
    }
    free(x);
    return status;
}

/* A training would refuse splits of different samples, too. */
static lks_status compare_splits(const lks_dataset_info split[2], const char *folder)
{
    char shape[2][64];
    if (split[0].samples == 0 || split[1].samples == 0) return LKS_OK;
    if (!lks_shape_equal(&split[0].shape, &split[1].shape))
        return lks_fail(LKS_E_FORMAT,
                        "%.300s: training samples are %s, but test samples are %s, expected one "
                        "shape; are they of the same data set?",
                        folder, data_shape_text(shape[0], &split[0].shape),
                        data_shape_text(shape[1], &split[1].shape));
    if (split[0].dtype == split[1].dtype) return LKS_OK;
    return lks_fail(LKS_E_FORMAT,
                    "%.300s: training samples are %s, but test samples are %s, expected one type; "
                    "save both as the same",
                    folder, lks_dtype_name(split[0].dtype), lks_dtype_name(split[1].dtype));
}

void data_say_no_test(void)
{
    say("no test split: a training can hold samples back, with validation.fraction");
}

lks_status data_check_samples(cli_pool *pool, lks_context *context, const char *folder)
{
    const bool has_test = lks_dataset_folder_has(folder, true);
    lks_dataset_info split[2] = {{.samples = 0}};
    lks_status status = check_archives(pool, folder);
    for (int test = !lks_dataset_folder_has(folder, false); test < 1 + has_test && status == LKS_OK;
         test++) {
        lks_dataset *data;
        uint64_t hash;
        status = lks_dataset_open_folder(&data, context, folder, test == 1, 0);
        if (status != LKS_OK) return status;
        const lks_dataset_info info = split[test] = lks_dataset_get_info(data);
        char shape[64], count[TEXT_NUMBER_SIZE];
        lks_text_count(count, info.samples);
        status = lks_dataset_hash(data, &hash);
        if (status == LKS_OK) status = check_finite(data);
        if (status == LKS_OK)
            say("%s %s sample%s of %s", count, test ? "test" : "training", TEXT_S(info.samples),
                data_shape_text(shape, &info.shape));
        if (status == LKS_OK && data_has_frames(data)) status = data_frames_say_lengths(data);
        lks_dataset_destroy(data);
    }
    if (status == LKS_OK) status = compare_splits(split, folder);
    if (status == LKS_OK && !has_test) data_say_no_test();
    if (status == LKS_OK) say("%s: nothing is wrong", folder);
    return status;
}
