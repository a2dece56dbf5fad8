#include "cli/verbs/checkpoint_path.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

static bool checkpoint_path_ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), last = strlen(end);
    return length >= last && strcmp(text + length - last, end) == 0;
}

/* step-<n><ending>: n, or -1. */
static int64_t checkpoint_path_step_of(const char *name, const char *ending)
{
    const size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    if (digits == 0 || digits > 18 || strcmp(name + 5 + digits, ending) != 0) return -1;
    return strtoll(name + 5, NULL, 10);
}

/* Its folder and step when a path has the form of a checkpoint's file. */
static bool checkpoint_path_split(cli_pool *pool, const char *path, const char **folder,
                                  int64_t *step)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    *step = checkpoint_path_step_of(
        name, checkpoint_path_ends_with(name, ".json") ? ".json" : ".safetensors");
    if (slash == NULL)
        *folder = ".";
    else
        *folder = pool_copy(pool, path, slash > path ? (size_t)(slash - path) : 1);
    return *step >= 0;
}

checkpoint_kind checkpoint_kind_of(const char *path)
{
    struct stat status;
    const char *folder;
    int64_t step;
    cli_pool pool = {0};
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return PATH_FOLDER;
    bool is_step = checkpoint_path_split(&pool, path, &folder, &step);
    /* The tensors of a save that was cut off have no JSON beside them. */
    if (is_step) is_step = access(checkpoint_record(&pool, folder, step), F_OK) == 0;
    pool_clear(&pool);
    if (is_step) return PATH_STEP;
    return checkpoint_path_ends_with(path, ".safetensors") ? PATH_TENSORS : PATH_OTHER;
}

/* As the library names it. */
static const char *file_of_step(cli_pool *pool, const char *folder, int64_t step,
                                const char *ending)
{
    return pool_format(pool, "%s/step-%08" PRId64 "%s", folder, step, ending);
}

const char *checkpoint_record(cli_pool *pool, const char *folder, int64_t step)
{
    return file_of_step(pool, folder, step, ".json");
}

const char *checkpoint_tensors(cli_pool *pool, const char *folder, int64_t step)
{
    return file_of_step(pool, folder, step, ".safetensors");
}

lks_status checkpoint_resolve(checkpoint_path *out, cli_pool *pool, const char *path)
{
    if (checkpoint_kind_of(path) == PATH_FOLDER) {
        out->folder = path;
        const lks_status status = lks_checkpoint_find(path, &out->step);
        if (status != LKS_OK) return status;
        if (out->step < 0)
            return lks_fail(
                LKS_E_IO,
                "there is no checkpoint in %.300s; expected a folder that train --out wrote", path);
    } else if (!checkpoint_path_split(pool, path, &out->folder, &out->step)) {
        return lks_fail(LKS_E_INVALID, "%.300s is no checkpoint", path);
    }
    out->tensors = checkpoint_tensors(pool, out->folder, out->step);
    return LKS_OK;
}

static int checkpoint_path_ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

lks_status checkpoint_steps(int64_t **steps, int *count, cli_pool *pool, const char *folder)
{
    DIR *entries = opendir(folder);
    *steps = NULL;
    *count = 0;
    if (entries == NULL)
        return lks_fail(LKS_E_IO, "folder %.300s cannot be read: %s", folder, strerror(errno));
    int room = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (entry == NULL) break;
        const int64_t step = checkpoint_path_step_of(entry->d_name, ".json");
        if (step < 0) continue;
        if (*count == room) {
            room = room > 0 ? 2 * room : 64;
            int64_t *more = pool_alloc(pool, (size_t)room * sizeof *more);
            if (*count > 0) memcpy(more, *steps, (size_t)*count * sizeof *more);
            *steps = more;
        }
        (*steps)[(*count)++] = step;
    }
    const int error = errno;
    closedir(entries);
    if (error != 0)
        return lks_fail(LKS_E_IO, "folder %.300s cannot be read: %s", folder, strerror(error));
    if (*count > 0) qsort(*steps, (size_t)*count, sizeof **steps, checkpoint_path_ascending);
    return LKS_OK;
}
