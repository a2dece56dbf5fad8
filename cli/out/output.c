#include "cli/out/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/tools.h>

#include "cli/out/text.h"
#include "cli/stop.h"

lks_status output_alone(void)
{
    const lks_launch launch = lks_launch_get();
    const long long size = launch.size;
    if (size <= 1 || launch.rank == 0) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "this is one of %lld processes that were started together (%s=%lld), and "
                    "each would do the same; start one, with all the "
                    "cores (%s), or unset %s where each is to have a run of its own",
                    size, launch.variable, size, launch.alone, launch.variable);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_file(const struct stat *output, const char *path)
{
    struct stat info;
    return path != NULL && stat(path, &info) == 0 && is_same(output, &info);
}

static bool output_ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), last = strlen(end);
    return length >= last && strcmp(text + length - last, end) == 0;
}

static bool is_checkpoint_name(const char *name)
{
    if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") < 8) return false;
    return output_ends_with(name, ".json") || output_ends_with(name, ".safetensors");
}

/* A file of a run: its checkpoints. Of a folder of data: all but records of trainings. */
static bool is_in_folder(const struct stat *output, const char *folder, bool of_run)
{
    struct stat info;
    bool found = false;
    DIR *open = opendir(folder);
    if (open == NULL) return false;
    for (const struct dirent *entry; !found && (entry = readdir(open)) != NULL;) {
        const char *name = entry->d_name;
        const bool counts = of_run ? is_checkpoint_name(name) : !output_ends_with(name, ".json");
        found = counts && fstatat(dirfd(open), name, &info, 0) == 0 && is_same(output, &info);
    }
    closedir(open);
    return found;
}

static bool is_data(const struct stat *output, const cli_args *cli, lks_recipe *recipe)
{
    const char *folder = lks_recipe_folder(recipe);
    if (folder == NULL) return false;
    if (is_file(output, folder)) return true; /* an archive */
    for (int i = 0; lks_idx_place(i) != NULL; i++) {
        const char *place = pool_format(cli->pool, "%s%s", folder, lks_idx_place(i));
        if (is_in_folder(output, place, false)) return true;
    }
    return false;
}

static bool is_input(const struct stat *output, const cli_args *cli, lks_recipe *recipe)
{
    for (int i = 0; i < cli->operands; i++)
        if (is_file(output, cli->operand[i])) return true;
    if (recipe == NULL) return false;
    const char *run = lks_recipe_text(recipe, "checkpoint.path");
    return is_file(output, lks_recipe_text(recipe, "model.init")) ||
           (run != NULL && is_in_folder(output, run, true)) || is_data(output, cli, recipe);
}

lks_status output_place(const cli_args *cli, lks_recipe *recipe, const char *what, const char *path,
                        bool look_only)
{
    struct stat info;
    if (path == NULL) return LKS_OK;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const bool there = stat(path, &info) == 0;
    if (*name == '\0' || (there && S_ISDIR(info.st_mode)))
        return lks_fail(LKS_E_IO, "%s: '%.300s' is a folder, expected a file", what, path);
    if (is_checkpoint_name(name))
        return lks_fail(LKS_E_INVALID,
                        "%s: '%.300s' is the name of a checkpoint's file; give another name", what,
                        path);
    const char *weights = recipe != NULL ? lks_recipe_weights(recipe) : NULL;
    const bool named = weights != NULL && strcmp(path, weights) == 0;
    if (there && S_ISREG(info.st_mode) && is_input(&info, cli, recipe))
        return lks_fail(LKS_E_INVALID, "%s: '%.300s' is a file that this command reads; %s", what,
                        path,
                        named ? "give another name to that file first, as model.name says this one"
                              : "give another name");
    return look_only ? LKS_OK : lks_file_try(path);
}

lks_status output_check(const cli_args *cli, lks_recipe *recipe, const char *what, const char *path,
                        bool look_only)
{
    const lks_status status = path != NULL ? output_alone() : LKS_OK;
    return status == LKS_OK ? output_place(cli, recipe, what, path, look_only) : status;
}

lks_status output_differ(const char *a, const char *b)
{
    struct stat info;
    if (a == NULL || b == NULL) return LKS_OK;
    const bool same = strcmp(a, b) == 0 || (stat(a, &info) == 0 && is_file(&info, b));
    if (!same || (stat(a, &info) == 0 && !S_ISREG(info.st_mode))) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "'%.300s' would be written twice; give two names", a);
}

static bool is_stream(const struct stat *output)
{
    struct stat stream;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        if (fstat(i, &stream) == 0 && is_same(output, &stream)) return true;
    return false;
}

lks_status output_await(int *pipe, const char *path)
{
    struct stat info;
    *pipe = -1;
    if (stat(path, &info) != 0 || !S_ISFIFO(info.st_mode) || is_stream(&info)) return LKS_OK;
    /* An open() that waits would go on waiting behind a signal, whose handler only notes it. */
    while ((*pipe = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO) {
        if (stop_asked() != 0)
            return lks_fail(LKS_E_IO,
                            "cannot write '%.300s': it is a pipe that nobody reads, and a signal "
                            "asked to stop; start its reader first",
                            path);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return LKS_OK; /* what else is wrong with it, writing says */
}
