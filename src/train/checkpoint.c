#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "train/ranks.h"
#include "train/run.h"

enum { PATH_SIZE = 4096, NAME_SIZE = 64 };

#define RECORD  ".json"
#define TENSORS ".safetensors"

/* Steps sort as their names do, up to 10^8. */
static const char *name_of(int64_t step, const char *extension, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "step-%08" PRId64 "%s", step, extension);
    return name;
}

static lks_status path_of(const char *folder, int64_t step, const char *extension,
                          char path[PATH_SIZE])
{
    char name[NAME_SIZE];
    const int length = snprintf(path, PATH_SIZE, "%s/%s", folder, name_of(step, extension, name));
    if (length >= 0 && length < PATH_SIZE) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "the name of the folder '%.60s...' is too long: %zu bytes",
                    folder, strlen(folder));
}

/* The step in a name that name_of() makes, or -1. */
static int64_t checkpoint_step_of(const char *name, const char *extension)
{
    char own[NAME_SIZE];
    if (strncmp(name, "step-", 5) != 0) return -1;
    errno = 0;
    const int64_t step = strtoll(name + 5, NULL, 10);
    if (step < 0 || errno != 0) return -1;
    return strcmp(name, name_of(step, extension, own)) == 0 ? step : -1;
}

/* The newest checkpoint before `limit`, or -1. A folder that is not there has none. */
static lks_status find_before(const char *folder, int64_t limit, int64_t *out)
{
    *out = -1;
    DIR *open = opendir(folder);
    int error = open ? 0 : errno;
    if (error == ENOENT) return LKS_OK;
    for (const struct dirent *entry; open && (entry = lki_folder_next(open, &error));) {
        const int64_t step = checkpoint_step_of(entry->d_name, RECORD);
        if (step > *out && step < limit) *out = step;
    }
    if (open) closedir(open);
    if (error == 0) return LKS_OK;
    *out = -1; /* there may be a newer one among those that were not seen */
    return LKI_FAIL(LKS_E_IO, "folder '%s' cannot be read: %s", folder, strerror(error));
}

lks_status lks_checkpoint_find(const char *folder, int64_t *step)
{
    if (folder == NULL) return LKI_FAIL_NULL(folder);
    if (step == NULL) return LKI_FAIL_NULL(step);
    return find_before(folder, INT64_MAX, step);
}

static bool exists(const char *folder, int64_t step, const char *extension)
{
    char path[PATH_SIZE];
    return path_of(folder, step, extension, path) == LKS_OK && access(path, F_OK) == 0;
}

/* What cannot be removed stays, and the log says so: the checkpoint that was just saved is good.
 * Returns whether it is gone. */
static bool remove_file(lks_context *context, const char *folder, const char *name)
{
    char path[PATH_SIZE];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length >= 0 && length < PATH_SIZE && (unlink(path) == 0 || errno == ENOENT)) return true;
    lki_log_line(context, LKS_LOG_WARN, "'%.300s/%.100s' could not be removed: %s", folder, name,
                 strerror(errno));
    return false;
}

/* The record first: what has none is no checkpoint, and what has one must be whole. */
static void remove_checkpoint(lks_context *context, const char *folder, int64_t step)
{
    char name[NAME_SIZE];
    if (!remove_file(context, folder, name_of(step, RECORD, name))) return;
    (void)remove_file(context, folder, name_of(step, TENSORS, name));
}

/* Steps of files in a folder. */
typedef struct steps {
    int64_t *step;
    size_t count, room;
} steps;

static bool add_step(steps *to, int64_t step)
{
    if (to->count == to->room) {
        const size_t room = 2 * to->room + 16;
        int64_t *grown = realloc(to->step, room * sizeof *grown);
        if (!grown) return false;
        to->step = grown;
        to->room = room;
    }
    to->step[to->count++] = step;
    return true;
}

static int compare_steps(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* One walk through the folder, however many checkpoints there are. Removes what saves that were cut
 * off have not finished. 0 or the error; `records` is sorted. */
static int list(const char *folder, steps *records, steps *tensors)
{
    DIR *open = opendir(folder);
    if (!open) return errno;
    bool good = true;
    int error = 0;
    for (const struct dirent *entry; good && (entry = lki_folder_next(open, &error));) {
        const int64_t record = checkpoint_step_of(entry->d_name, RECORD);
        const int64_t tensor = checkpoint_step_of(entry->d_name, TENSORS);
        if (record >= 0) good = add_step(records, record);
        if (tensor >= 0) good = add_step(tensors, tensor);
        if (lki_temporary_is(entry->d_name, "step-")) lki_temporary_remove(folder, entry->d_name);
    }
    closedir(open);
    if (good && records->count > 0)
        qsort(records->step, records->count, sizeof *records->step, compare_steps);
    return good ? error : ENOMEM;
}

/* Removes old checkpoints, and what saves and removals that were cut off have left behind. */
static void prune(lks_context *context, const char *folder, const lks_run *run, int keep)
{
    steps records = {0}, tensors = {0};
    char name[NAME_SIZE];
    int kept = 1; /* the one that was just saved */
    const int error = list(folder, &records, &tensors);
    if (error != 0) {
        lki_log_line(context, LKS_LOG_WARN,
                     "folder '%.300s' cannot be read: %s; its old "
                     "checkpoints stay",
                     folder, strerror(error));
    }
    for (size_t i = error == 0 && keep > 0 ? records.count : 0; i > 0; i--) {
        const int64_t step = records.step[i - 1];
        if (step >= run->progress.step) continue;
        if (kept++ >= keep && step != run->best_step) remove_checkpoint(context, folder, step);
    }
    for (size_t i = 0; error == 0 && i < tensors.count; i++) {
        const int64_t *step = &tensors.step[i];
        if (!records.step ||
            !bsearch(step, records.step, records.count, sizeof *step, compare_steps))
            (void)remove_file(context, folder, name_of(*step, TENSORS, name));
    }
    free(records.step);
    free(tensors.step);
}

static lks_status read_record(lks_context *context, const char *path, lks_run *run,
                              lki_identity *tensors)
{
    lki_file file;
    LKI_TRY(lki_file_open(&file, context, path));
    const lks_status status = lki_run_parse(path, file.data, file.bytes, run, tensors);
    lki_file_close(&file);
    return status;
}

/* A record of this step that speaks of other tensors goes before they are replaced, so that no
 * moment leaves a record with the wrong tensors. Usually there is none, or one of the same bits. */
static lks_status displace(lks_context *context, const char *record, const lki_identity *tensors)
{
    lks_run old = {0};
    lki_identity found = {0};
    if (access(record, F_OK) != 0) return LKS_OK;
    const bool same = read_record(context, record, &old, &found) == LKS_OK &&
                      found.bytes == tensors->bytes && found.checksum == tensors->checksum;
    lks_run_clear(&old);
    if (same || unlink(record) == 0) return LKS_OK;
    return LKI_FAIL(LKS_E_IO, "'%s' cannot be replaced: %s", record, strerror(errno));
}

static lks_status save_tensors(lks_model *model, const lks_run *run, const char *path,
                               const char *record, char **text)
{
    lks_context *context = lks_model_context(model);
    lki_identity tensors;
    lki_writer *writer;
    char name[NAME_SIZE];
    lks_status status;
    lks_run own = *run;
    own.law = lks_model_get_info(model).law;
    *text = NULL;
    LKI_TRY(lki_writer_open(&writer, context, path));
    LKI_TRY_OR(status, failed, lki_state_write(model, LKI_STATE_ALL, writer, &tensors));
    LKI_TRY_OR(status, failed,
               lki_run_print(&own, name_of(run->progress.step, TENSORS, name), &tensors, text));
    LKI_TRY_OR(status, failed, displace(context, record, &tensors));
    return lki_writer_commit(writer);
failed:
    lki_writer_abandon(writer);
    return status;
}

static lks_status checkpoint_save_record(lks_context *context, const char *path, const char *text)
{
    lki_writer *writer;
    LKI_TRY(lki_writer_open(&writer, context, path));
    const lks_status status = lki_writer_write(writer, text, strlen(text));
    if (status == LKS_OK) return lki_writer_commit(writer);
    lki_writer_abandon(writer);
    return status;
}

/* A record that contradicts its model could never be resumed. */
static lks_status check_run(const lks_model *model, const lks_run *run, int keep)
{
    const lks_model_info info = lks_model_get_info(model);
    const lks_progress progress = lks_model_progress(model);
    if (run->progress.step != progress.step || run->progress.link != progress.link ||
        run->progress.skipped != progress.skipped) {
        return LKI_FAIL(LKS_E_INVALID,
                        "the run to save says step %" PRId64 ", its model is at step %" PRId64
                        ": set run.progress = lks_model_progress(model) before saving",
                        run->progress.step, progress.step);
    }
    if (run->replicas != info.replicas || run->global_batch != info.global_batch ||
        run->hash_every != info.hash_every ||
        run->seed != lks_context_seed(lks_model_context(model))) {
        return LKI_FAIL(LKS_E_INVALID,
                        "the run to save has replicas %d, batch %" PRId64 ", hash_every %d, seed "
                        "%" PRIu64 "; its model has replicas %d, batch %" PRId64
                        ", hash_every %d, seed %" PRIu64,
                        run->replicas, run->global_batch, run->hash_every, run->seed, info.replicas,
                        info.global_batch, info.hash_every,
                        lks_context_seed(lks_model_context(model)));
    }
    if (keep < 0 || run->best_step < -1 || run->bad_epochs < 0 || run->epochs < 0 ||
        (run->epochs > 0 && !run->history)) {
        return LKI_FAIL(LKS_E_INVALID,
                        "the run to save is not valid: keep %d, best_step %" PRId64
                        ", bad_epochs %d, epochs %" PRId64 "; expected 0, -1, 0, 0 or more",
                        keep, run->best_step, run->bad_epochs, run->epochs);
    }
    return LKS_OK;
}

/* As rank 0, or alone. */
static lks_status checkpoint_save(lks_model *model, const lks_run *run, const char *folder,
                                  int keep)
{
    lks_context *context = lks_model_context(model);
    char tensors[PATH_SIZE], record[PATH_SIZE], *text;
    LKI_TRY(check_run(model, run, keep));
    LKI_TRY(path_of(folder, run->progress.step, TENSORS, tensors));
    LKI_TRY(path_of(folder, run->progress.step, RECORD, record));
    LKI_TRY(lki_folder_make(folder));

    const double begin = lki_seconds();
    lks_status status = save_tensors(model, run, tensors, record, &text);
    if (status == LKS_OK) {
        status = checkpoint_save_record(context, record, text);
        if (status != LKS_OK && access(record, F_OK) != 0) unlink(tensors);
    }
    free(text);
    LKI_TRY(status);
    lki_log_line(context, LKS_LOG_DEBUG, "saved '%.400s' in %.3f s", tensors,
                 lki_seconds() - begin);
    prune(context, folder, run, keep);
    return LKS_OK;
}

lks_status lks_checkpoint_save(lks_model *model, const lks_run *run, const char *folder, int keep)
{
    if (model == NULL) return LKI_FAIL_NULL(model);
    if (run == NULL) return LKI_FAIL_NULL(run);
    if (folder == NULL) return LKI_FAIL_NULL(folder);
    LKI_TRY(lki_check_together(model));
    LKI_TRY(lks_model_check_ranks(model));
    LKI_TRY(lki_state_attend(model));
    return lki_agree(model, lki_leads(model) ? checkpoint_save(model, run, folder, keep) : LKS_OK);
}

static lks_status check_fits(lks_model *model, const lks_run *run, const char *what)
{
    const lks_model_info info = lks_model_get_info(model);
    const uint64_t seed = lks_context_seed(lks_model_context(model));
    const char *advice = "it is part of the arithmetic; use the same to continue, or start in "
                         "another folder";
    if (run->replicas != info.replicas) {
        return LKI_FAIL(LKS_E_MISMATCH, "%s was made with replicas %d, this run has %d: %s", what,
                        run->replicas, info.replicas, advice);
    }
    if (run->global_batch != info.global_batch) {
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s was made with a batch of %" PRId64 ", this run has %" PRId64 ": %s",
                        what, run->global_batch, info.global_batch, advice);
    }
    if (run->hash_every != info.hash_every) {
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s was made with hash_every %d, this run has %d: the chain of hashes "
                        "would be another; use the same to continue, or start in another folder",
                        what, run->hash_every, info.hash_every);
    }
    if (run->seed != seed) {
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s was made with seed %" PRIu64 ", this run has %" PRIu64 ": %s", what,
                        run->seed, seed, advice);
    }
    return LKS_OK;
}

/* The checkpoint's tensors, which fit the model; NULL with a failure. */
static lks_status open_tensors(lks_tensor_file **file, lks_context *context, lks_model *model,
                               const lks_run *run, const char *path, const lki_identity *expected)
{
    char what[PATH_SIZE + 16];
    snprintf(what, sizeof what, "checkpoint '%s'", path);
    LKI_TRY(check_fits(model, run, what));
    LKI_TRY(lki_tensor_file_open(file, context, path, expected));
    const lks_status status = lki_state_check(model, LKI_STATE_ALL, *file, what);
    if (status == LKS_OK) return LKS_OK;
    lks_tensor_file_close(*file);
    *file = NULL;
    return status;
}

/* Adds to the last error what to do about a checkpoint that is damaged or lacks its tensors. An
 * older one is never taken silently: steps that a person has seen would be gone. */
static lks_status advise(lks_status status, const char *folder, int64_t step)
{
    char message[sizeof lks_last_error()->message], record[PATH_SIZE];
    int64_t before;
    const bool lacks = exists(folder, step, RECORD) && !exists(folder, step, TENSORS);
    if (status != LKS_E_FORMAT && !(status == LKS_E_IO && lacks)) return status;
    LKI_TRY(path_of(folder, step, RECORD, record));
    snprintf(message, sizeof message, "%s", lks_last_error()->message);
    if (find_before(folder, step, &before) != LKS_OK || before < 0) {
        return LKI_FAIL(status, "%s; there is no checkpoint before it: start in another folder",
                        message);
    }
    return LKI_FAIL(status, "%s; remove '%s' to continue from step %" PRId64 ", the one before it",
                    message, record, before);
}

/* What it says of the run, and, for a model, its tensors. */
static lks_status checkpoint_open(lks_context *context, lks_model *model, lks_run *run,
                                  lks_tensor_file **file, const char *folder, int64_t step)
{
    char record[PATH_SIZE], tensors[PATH_SIZE];
    lki_identity expected;
    LKI_TRY(path_of(folder, step, RECORD, record));
    LKI_TRY(path_of(folder, step, TENSORS, tensors));
    lks_run found = {0};
    lks_status status = read_record(context, record, &found, &expected);
    if (status == LKS_OK && found.progress.step != step) {
        status = LKI_FAIL(LKS_E_FORMAT, "'%s' is of step %" PRId64 ": it has been renamed", record,
                          found.progress.step);
    }
    if (status == LKS_OK && model)
        status = open_tensors(file, context, model, &found, tensors, &expected);
    if (status != LKS_OK) {
        lks_run_clear(&found);
        return advise(status, folder, step);
    }
    *run = found;
    return LKS_OK;
}

lks_status lks_checkpoint_load(lks_context *context, lks_model *model, lks_run *run,
                               const char *folder, int64_t step)
{
    if (run == NULL) return LKI_FAIL_NULL(run);
    *run = (lks_run){0};
    if (folder == NULL) return LKI_FAIL_NULL(folder);
    if (model == NULL) return checkpoint_open(context, model, run, NULL, folder, step);
    const double begin = lki_seconds();
    const bool leads = lki_leads(model);
    lks_tensor_file *file = NULL;
    lks_status status = leads ? checkpoint_open(context, model, run, &file, folder, step) : LKS_OK;
    status = lki_agree(model, status);
    if (status == LKS_OK) status = lki_state_put(model, LKI_STATE_ALL, file);
    lks_tensor_file_close(file);
    if (status == LKS_OK) status = lki_spread_run(model, run);
    if (status != LKS_OK) {
        lks_run_clear(run);
        return status;
    }
    lks_model_set_progress(model, run->progress);
    char tensors[PATH_SIZE];
    if (leads && path_of(folder, step, TENSORS, tensors) == LKS_OK)
        lki_log_line(context, LKS_LOG_DEBUG, "loaded '%.400s' in %.3f s", tensors,
                     lki_seconds() - begin);
    return LKS_OK;
}

lks_status lks_checkpoint_check(lks_context *context, const char *folder, int64_t step)
{
    if (folder == NULL) return LKI_FAIL_NULL(folder);
    char record[PATH_SIZE], tensors[PATH_SIZE];
    lki_identity expected;
    lks_tensor_file *file;
    lks_run run = {0};
    LKI_TRY(path_of(folder, step, RECORD, record));
    LKI_TRY(path_of(folder, step, TENSORS, tensors));
    lks_status status = read_record(context, record, &run, &expected);
    lks_run_clear(&run);
    if (status == LKS_OK) status = lki_tensor_file_open(&file, context, tensors, &expected);
    if (status == LKS_OK) lks_tensor_file_close(file);
    return advise(status, folder, step);
}
